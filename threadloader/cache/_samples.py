"""What a cache knows of a sample: how to make it safe to share, to own it, and to weigh it.

A sample is a tree. Its leaves are numpy arrays and scalars, numbers, texts, bytes and None;
its branches dicts, lists, tuples and named tuples. Leaves that cannot change are shared as
they are. Arrays go out as read-only views, and branches are built anew each time, so that
whoever changes a dict that came from a cache changes a dict of their own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["CONSTANTS", "DEEPEST", "ForeignError", "freeze", "give", "own", "size_of"]

DEEPEST = 32
"""Containers inside each other. Chosen: no sample needs as many; one that holds itself has more."""

CONSTANTS = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types whose objects cannot change. Exactly these: a subclass may have attributes that can."""

_ARRAY_BYTES = 192
"""What an array takes beside its contents: 112 the object, 33 and up to 15 the bytes object
that it is made of, 32 its shape and strides. CPython 3.11, numpy 2.4; rounded up."""

_ENTRY_BYTES = 128
"""What a sample takes beside itself: its index (32) and its place in a dict (up to 88)."""


class ForeignError(Exception):
    """A sample that no cache can keep; its text says what it is."""


def freeze(sample: Any, deepest: int = DEEPEST) -> Any:
    """Give a sample that its receivers cannot spoil for each other.

    It has the same values: new containers, and arrays as read-only views that share the memory of
    those given (a ``numpy.memmap`` as a plain array). A part of another type, which may be changed
    or cannot be copied, or more than ``deepest`` containers in each other, is a ForeignError.
    """
    kind = type(sample)
    if kind in CONSTANTS:
        return sample
    # Not `numpy.recarray`: a plain array does not have its fields as attributes, which a transform
    # after the cache may ask for; and files keep no dtype that has fields.
    if kind is np.ndarray or kind is np.memmap:
        if sample.dtype.hasobject:  # Python objects, or texts that numpy keeps elsewhere
            raise ForeignError(f"an array of dtype {sample.dtype}")
        view = sample.view(np.ndarray)
        view.setflags(write=False)
        return view
    # No subclasses, as for CONSTANTS: numpy's own types alone. Of those only a void can be changed:
    # a row of a structured array, and a `numpy.record`.
    own_type = isinstance(sample, np.generic) and kind is sample.dtype.type
    if own_type and not issubclass(kind, np.void):
        return sample
    if deepest == 0:
        raise ForeignError(f"more than {DEEPEST} containers inside each other")
    deepest -= 1
    if kind is dict:
        for key in sample:
            if type(key) not in CONSTANTS:
                raise ForeignError(f"a dict with a key of type {_name(type(key))}")
        return {key: freeze(value, deepest) for key, value in sample.items()}
    if kind is list:
        return [freeze(value, deepest) for value in sample]
    if kind is tuple:
        return tuple([freeze(value, deepest) for value in sample])
    if isinstance(sample, tuple) and hasattr(kind, "_make"):
        if getattr(sample, "__dict__", None):  # `_make` would lose them
            raise ForeignError(f"a named tuple of type {_name(kind)} with attributes of its own")
        return kind._make([freeze(value, deepest) for value in sample])
    raise ForeignError(f"an object of type {_name(kind)}")


def own(frozen: Any) -> Any:
    """Give a copy whose arrays nobody else can write, whatever flags they set.

    Each array is C-contiguous and made of a ``bytes`` object of its own.
    """
    kind = type(frozen)
    if kind is np.ndarray:
        # Over bytes, and not over an array, whose flag could be set back.
        return np.ndarray(frozen.shape, frozen.dtype, frozen.tobytes())
    if kind is dict:
        return {key: own(value) for key, value in frozen.items()}
    if kind is list:
        return [own(value) for value in frozen]
    if kind is tuple:
        return tuple([own(value) for value in frozen])
    if isinstance(frozen, tuple):
        return kind._make([own(value) for value in frozen])
    return frozen


def give(owned: Any) -> Any:
    """Give a sample out: the values of what `own` gave, in containers and views of their own."""
    kind = type(owned)
    if kind is np.ndarray:
        return owned.view()  # a new object: its shape and dtype can be assigned to
    if kind is dict:
        return {key: give(value) for key, value in owned.items()}
    if kind is list:
        return [give(value) for value in owned]
    if kind is tuple:
        return tuple([give(value) for value in owned])
    if isinstance(owned, tuple):
        return kind._make([give(value) for value in owned])
    return owned


def size_of(frozen: Any) -> int:
    """Give the bytes that a frozen sample takes when it is kept in memory.

    The contents of its arrays count exactly; for everything else it is an estimate that is
    rather high: what `sys.getsizeof` says of each object, as if none were shared.
    """
    return _ENTRY_BYTES + _weigh(frozen)


def _weigh(value: Any) -> int:
    if type(value) is np.ndarray:
        return int(value.nbytes) + _ARRAY_BYTES
    size = sys.getsizeof(value)
    if type(value) is dict:
        return size + sum(sys.getsizeof(key) + _weigh(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return size + sum(map(_weigh, value))
    return size


def _name(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
