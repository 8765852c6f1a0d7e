"""The numbers: data wait, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import at_need
from ._tally import Tally, Told

if TYPE_CHECKING:
    from ._stats import BANDS, Stats, band, percent

__all__ = ["BANDS", "Stats", "Tally", "Told", "band", "percent"]


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(
        globals(), dict.fromkeys(("BANDS", "Stats", "band", "percent"), "._stats")
    )
