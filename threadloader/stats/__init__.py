"""The numbers: data wait, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._tally import Tally, Told

if TYPE_CHECKING:
    from ._stats import BANDS, Stats, band, percent

__all__ = ["BANDS", "Stats", "Tally", "Told", "band", "percent"]


if not TYPE_CHECKING:  # a checker would take any name to be there

    def __getattr__(name: str) -> Any:
        """Import the numbers when they are asked for: a run only counts (PEP 562)."""
        if name in __all__:
            from . import _stats

            return getattr(_stats, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
