"""Which samples an epoch has: all of them, or what a sampler gives.

What a sampler gives for an epoch *is* the epoch's global order, and its length takes the
place of the number of samples. A sampler has a `name`, which goes into the state; `length`,
which is None where each epoch has to be asked; and `order(epoch)`. Those of a config are pure
functions of (seed, epoch, position). `_weighted` draws at random, `_draws` has the random
numbers, `_excluding` is about samples that are excluded and orders that are lists, `_indices`
and `_classes` say what counts as indices and as classes, `_configured` makes samplers of all that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..errors import at_need
from ..order import EpochOrder, Order
from ._excluding import Kept, Through, from_text, to_text

if TYPE_CHECKING:
    from ._configured import configured, given
    from ._indices import checked

__all__ = [
    "Kept",
    "Plain",
    "Sampler",
    "checked",
    "configured",
    "from_text",
    "given",
    "to_text",
]


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(
        globals(),
        {"checked": "._indices", "configured": "._configured", "given": "._configured"},
    )


class Sampler(Protocol):
    """What gives each epoch its order."""

    @property
    def name(self) -> str | None:
        """What goes into the state: what it does, with a checksum of what it was given.

        None for a plain shuffle or the order of the source, of which the state has other fields.
        """
        ...

    @property
    def length(self) -> int | None:
        """Positions of every epoch; None when each epoch has to be asked."""
        ...

    def order(self, epoch: int) -> EpochOrder:
        """Give the order of an epoch.

        One thread at a time asks, for each epoch once, and anew after a `load_state_dict`.
        """
        ...


class Plain:
    """The sampler of a plain order: every sample that is kept once, permuted or not."""

    name = None

    def __init__(self, seed: int, shuffle: bool, kept: Kept) -> None:
        self.length = kept.count
        self._seed = seed
        self._shuffle = shuffle
        self._kept = kept

    def order(self, epoch: int) -> EpochOrder:
        """Give the order of an epoch."""
        order = Order(self.length, seed=self._seed, epoch=epoch, shuffle=self._shuffle)
        return order if self._kept.all else Through(order, self._kept)
