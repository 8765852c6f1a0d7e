"""The data wait of a run in words, shared by some examples."""

import math
from typing import Any


def wait(stats: Any) -> str:
    """Gives the data wait of some statistics in words: ``0.4% (excellent)``."""
    # Rounded down, as the bands are: 0.96% is still excellent, and 1.0% is not.
    return f"{math.floor(stats.data_wait_fraction * 1000) / 10:.1f}% ({stats.data_wait_band})"
