"""A torch with a CUDA device, faked: whose memory a tensor's is, and whether it is page-locked."""

import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest


class Kind(str):
    """A fake dtype of torch, which takes none of numpy's."""

    __slots__ = ()


PINNED, PINNED_LOCK = [], threading.Lock()
"""References to the page-locked storages. No WeakSet: no lock holds back what is freed."""


class Storage:
    """The memory of fake tensors: its bytes, whether it is page-locked, and whose it is.

    Of torch's own, which it has allocated, it knows the copies to a device that are under way;
    of memory that it was given with an array it does not.
    """

    def __init__(self, array, pinned, own):
        self.array, self.own = array, own
        self.bytes = array.reshape(-1).view(np.uint8) if array.flags.c_contiguous else None
        if pinned:
            with PINNED_LOCK:
                PINNED[:] = [each for each in PINNED if each() is not None]
                PINNED.append(weakref.ref(self))

    def data_ptr(self):
        return self.array.__array_interface__["data"][0]


class Tensor:
    """A fake tensor: an array, of a storage."""

    def __init__(self, array, pinned=False, storage=None):
        self.array = array
        self.dtype = Kind(array.dtype)
        self.storage = Storage(array, pinned, own=True) if storage is None else storage

    @property
    def __array_interface__(self):
        return self.array.__array_interface__

    def numpy(self):
        return np.asarray(self)

    def untyped_storage(self):
        return self.storage

    @property
    def pinned(self):
        """Whether it is page-locked, and of a storage of torch's own."""
        return self.is_pinned() and self.storage.own

    def is_pinned(self):
        """By the address, as CUDA tells it, whosever the storage is."""
        with PINNED_LOCK:
            pinned = [one.array for each in PINNED if (one := each()) is not None]
            return any(np.may_share_memory(self.array, array) for array in pinned)

    def pin_memory(self):
        return self if self.is_pinned() else Tensor(self.array.copy(), pinned=True)

    def clone(self):
        return Tensor(self.array.copy())

    def set_(self, storage, begin, shape):
        itemsize = self.array.itemsize
        size = itemsize * int(np.prod(shape, dtype=int))
        array = storage.bytes[itemsize * begin :][:size].view(str(self.dtype)).reshape(shape)
        return Tensor(array, storage=storage)


def empty(shape, dtype, device, pin_memory=False):
    assert isinstance(dtype, Kind)
    assert device == "cpu"
    return Tensor(np.empty(shape, str(dtype)), pin_memory)


def from_numpy(array):
    if array.dtype.kind not in "biufc":
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}")
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order")
    if min(array.strides, default=0) < 0:
        raise ValueError("at least one stride in the given numpy array is negative")
    if any(step % array.itemsize for step in array.strides):
        raise ValueError("given numpy array strides not a multiple of the element byte size")
    assert array.flags.writeable
    return Tensor(array, storage=Storage(array, pinned=False, own=False))


@pytest.fixture
def torch(monkeypatch):
    """Puts a fake torch with a CUDA device into the place of any real one."""
    fake = SimpleNamespace(
        __version__="0.fake",
        Tensor=Tensor,
        from_numpy=from_numpy,
        empty=empty,
        cuda=SimpleNamespace(is_available=lambda: True),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake
