"""Which samples come, in what order, and which shard gets them.

Everything here is integer arithmetic on (seed, epoch, n) and a position: no
state, no thread, no clock. An epoch's *global order* is one sequence of dataset
indices for the whole world; a *position* counts along it from 0. `_shuffle` makes the
order, `_deal` cuts it into the batches of one shard.
"""

from ._deal import BLOCK, Deal, EpochOrder, Row
from ._shuffle import LONGEST, VERSION, Indices, Order, key

__all__ = ["BLOCK", "LONGEST", "VERSION", "Deal", "EpochOrder", "Indices", "Order", "Row", "key"]
