"""Batch memory that is used again once nobody holds it any more.

New memory in large pieces is expensive: the system hands it out page by page, at the first touch
of each. A `Pool` therefore lends the memory of earlier batches. What it gives are ordinary
numpy arrays, which their receiver may keep for ever: memory is written again no earlier
than ``free`` would have been called for it.

How that is known::

    array, and every view of it --> base (uint8) --> _Lease --> memory  <..weak.. Pool
                                                                  |
                                                                  v
                                                                block

`memory` is an array that nothing but the lease refers to, and the lease offers it by numpy's
array interface, whose consumers must hold the object that offers it. So `memory` ends with
the last array, memoryview, tensor or thread that could still reach the bytes, and then, and
not before, the callback of a weak reference hands the block back. Nobody counts references.

The callback is ``deque.append`` itself: no line of Python runs where the last view ends.
So the last view may end in any thread, in a garbage collection, in a signal handler or while
the interpreter goes down, and no Ctrl-C can be swallowed there. `memory` is an array because
arrays take no part in garbage collection, which so cannot find it dead while a finalizer
can still reach it.

Who owns a block: the lease, while it lives; then the deque `ended` of its shelf; then the one
thread that gets it out. There is no lock, so none can be held by a thread that a fork left
behind, or by the code that a finalizer interrupts. All that threads share is changed by
single operations of a deque, a dict or a list; what two threads can spoil for each other
that way is a count or a block, which is then freed instead of kept.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LEAST_BYTES", "Pool"]

LEAST_BYTES = 1 << 20
"""Smaller arrays come from numpy, unless a pool is told otherwise.

Measured: docs/design.md, "Memory that is used again".
"""

_ALIGNMENT = 64
"""Bytes: a cache line, the widest vector, and what jax needs to use memory without a copy."""

_REVIEW = 256
"""Arrays given between two reviews of unused blocks. How many are in use goes up and down, and a
new block of 4 MiB may take as long as 15 gathers into an old one. Measured: as above."""

_PATIENCE = 256
"""So many arrays of one size in a row must find no room before its shelf, with all leases, is
given up. Chosen: more than anybody keeps who looks back some batches."""

_Array: TypeAlias = "npt.NDArray[Any]"


class Pool:
    """Makes arrays, in memory that earlier ones have left.

    Any number of threads may use it at once. It works in a forked child, too.

    Args:
        max_bytes: bound of all memory that waits to be used again or is lent to come back.
            Arrays beyond it are made all the same, and freed when they end. Each of several
            threads that find room at the same moment may go over it by one array.
        least_bytes: smaller arrays are left to numpy.

    >>> pool = Pool(64 << 20)
    >>> first = pool.empty((512, 1024), np.float32)
    >>> address, view = first.ctypes.data, first[3:]
    >>> del first
    >>> pool.empty((512, 1024), np.float32).ctypes.data == address  # the view holds it
    False
    >>> del view
    >>> address in {pool.empty((512, 1024), np.float32).ctypes.data for _ in range(2)}
    True
    """

    def __init__(self, max_bytes: int, least_bytes: int = LEAST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._least_bytes = max(least_bytes, 1)  # an empty array has no memory to lend
        self._shelves: list[_Shelf] | None = []
        self._until_review = _REVIEW

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> _Array:
        """Give an array whose values are whatever was there, as `numpy.empty` does.

        Args:
            shape: of the array.
            dtype: of the array; one that holds objects is left to numpy.

        Returns:
            The array, of type `numpy.ndarray`, writable and C-contiguous. From
            ``least_bytes`` to ``max_bytes`` it begins at a multiple of 64 bytes (until the pool
            is closed), and is a view: it has a ``base`` and cannot be resized in place.

        Raises:
            ValueError: a length is negative, or they are too large together.
            MemoryError: there is not as much memory.
        """
        dtype = np.dtype(dtype)
        if not isinstance(shape, tuple):
            shape = tuple(shape) if isinstance(shape, Sequence) else (operator.index(shape),)
        size = math.prod(shape) * dtype.itemsize
        if not self._least_bytes <= size <= self._max_bytes or dtype.hasobject:
            return np.empty(shape, dtype)
        # Read once: `close` puts None there, and what is then done to the list does not matter.
        shelves = self._shelves
        if shelves is None:
            return np.empty(shape, dtype)
        self._until_review -= 1
        if self._until_review <= 0:
            self._until_review = _REVIEW
            _review(shelves)
        shelf = _find(shelves, _rounded(int(size)))
        shelf.asked = True
        block = shelf.take()
        if block is None:
            return self._without_block(shelves, shelf, shape, dtype)
        return shelf.lend(block, shape, dtype)

    def _without_block(
        self, shelves: list[_Shelf], shelf: _Shelf, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> _Array:
        """Give an array for which no block of its size waits."""
        # A block larger by up to a half does as well: memory that is not touched costs nothing.
        for other in shelves:
            if shelf.size < other.size <= shelf.size * 3 // 2:
                larger = other.take()
                if larger is not None:
                    return other.lend(larger, shape, dtype)
        block = _Block(shelf.size)
        if sum(map(_Shelf.watched_bytes, shelves)) + shelf.size <= self._max_bytes:
            return shelf.lend(block, shape, dtype)
        shelf.refused += 1
        if shelf.refused >= _PATIENCE:
            # All arrays of this size seem to be kept. Later ones may come back, to a new shelf.
            shelves[:] = [other for other in shelves if other is not shelf]
        return np.ndarray(shape, dtype, block.region)

    def close(self) -> None:
        """Free what is idle. Arrays that are held stay as they are and are freed when they end.

        It is a single store, so a finalizer or a signal handler may call it too, and twice.
        Arrays made afterwards are new memory.
        """
        self._shelves = None


class _Block:
    """Memory that is lent as a whole.

    Attributes:
        region: uint8, ``(size,)``, aligned.
        interface: the region as numpy's array interface describes it.
    """

    __slots__ = ("interface", "region")

    def __init__(self, size: int) -> None:
        owner = np.empty(size + _ALIGNMENT, np.uint8)
        begin = -owner.__array_interface__["data"][0] % _ALIGNMENT
        self.region = owner[begin : begin + size]
        self.interface = self.region.__array_interface__


class _Lease:
    """The object that arrays hold while they use a block, and that nothing else holds.

    It is no array: as the base of a view of a view numpy takes the array that owns the memory,
    so that views would not hold the lease.
    """

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, block: _Block, memory: _Array) -> None:
        self.__array_interface__ = block.interface
        self._memory = memory


class _Shelf:
    """The blocks of one size, those that are lent and those that wait.

    Attributes:
        size: of each, in bytes.
        ended: the weak references whose leases have ended, longest ago first.
        asked: whether this size was asked for since the last review.
        fewest: the smallest number of blocks that were waiting at any time since then.
        refused: how many arrays found no room since one was lent.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.ended: deque[weakref.ref[_Array]] = deque()
        # A weak reference calls back only while it lives itself: so this dict holds it, by its
        # id, with its block. When the shelf is gone, the leases that are left end unnoticed.
        self._watched: dict[int, tuple[weakref.ref[_Array], _Block]] = {}
        self.asked = True
        self.fewest = 0
        self.refused = 0

    def watched_bytes(self) -> int:
        """Bytes of the blocks that wait here, and of those that are lent and will come back."""
        return self.size * len(self._watched)

    def take(self) -> _Block | None:
        """Give a block that waits to the caller alone; None when there is none."""
        try:
            # The one that ended last: its block is still in the processor's cache, and blocks that
            # nobody needs are left to `trim`. To take the oldest first cost a tenth at 2.7 MiB.
            ended = self.ended.pop()
        except IndexError:
            self.fewest = 0
            return None
        self.fewest = min(self.fewest, len(self.ended))
        watched = self._watched.pop(id(ended), None)
        # None: a Ctrl-C cut `lend` short before it wrote down its weak reference.
        return None if watched is None else watched[1]

    def lend(self, block: _Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
        """Give an array in a block, which waits here again when nobody holds it any more."""
        self.refused = 0
        memory = block.region[:]
        array: _Array = np.ndarray(shape, dtype, np.asarray(_Lease(block, memory)))
        watch = weakref.ref(memory, self.ended.append)
        self._watched[id(watch)] = watch, block
        return array

    def trim(self) -> None:
        """Free the blocks that nobody has needed since the last time."""
        for _ in range(self.fewest):
            try:
                self._watched.pop(id(self.ended.popleft()), None)
            except IndexError:  # pragma: no cover - a race of two threads
                break  # another thread took it a moment ago
        self.asked = False
        self.fewest = len(self.ended)


def _find(shelves: list[_Shelf], size: int) -> _Shelf:
    for shelf in shelves:
        if shelf.size == size:
            return shelf
    shelf = _Shelf(size)
    # Two threads may add a shelf of one size at once: nobody finds the second, a review drops it.
    shelves.append(shelf)
    return shelf


def _review(shelves: list[_Shelf]) -> None:
    """Free what lay unused since the last review, and forget sizes that nobody asked for."""
    kept = [shelf for shelf in shelves if shelf.asked]
    for shelf in kept:
        shelf.trim()
    shelves[:] = kept


def _rounded(size: int) -> int:
    """Round a size up by at most an eighth, so that sizes that hardly differ share blocks.

    >>> _rounded(12 << 20) >> 20, _rounded((8 << 20) + 1) >> 20
    (12, 9)
    """
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step
