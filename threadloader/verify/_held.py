"""What a function or an object holds that may change from call to call.

A transform that counts, or draws from a generator of its own, keeps that somewhere: in a
variable of its module, in what it closes over, in an attribute. `held` takes a mark of
each such place, so that two marks tell which of them a call has changed.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import random
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..fingerprint import digest

__all__ = ["changed", "held"]

CALLED = ("__call__", "__getitem__", "__getitems__", "take")
"""Methods by which the loader uses an object: what they name is looked at."""

DEEPEST = 3
"""Attributes of attributes, functions that functions call. Chosen: deep enough for what people
write, and quick."""

MOST_BYTES = 1 << 16
"""Arrays above this are not looked at: they are data, and would take long."""

MOST_ITEMS = 1000
"""The same for containers, and for places altogether."""


def held(thing: Any) -> dict[str, bytes]:
    """Take a mark of each place in which a function or an object keeps something.

    Args:
        thing: a function, or an object whose methods are called.

    Returns:
        From the name of the place, as the user wrote it, to its mark.

    >>> draws = random.Random(0)
    >>> def noise(sample):
    ...     return sample + draws.random()
    >>> before = held(noise)
    >>> _ = noise(0)
    >>> changed(before, held(noise))
    ['draws']
    """
    name = getattr(thing, "__name__", type(thing).__name__)
    return dict(itertools.islice(_places(thing, name, DEEPEST, set()), MOST_ITEMS))


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """List the places whose marks differ, shortest names first."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return sorted(names, key=lambda name: (len(name), name))


def _places(thing: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, bytes]]:
    if depth < 0 or id(thing) in seen or isinstance(thing, ModuleType):
        return
    seen.add(id(thing))
    mark = _mark(thing)
    if mark is not None:
        yield name, mark
        return
    for key, it in _inside(thing).items():
        joined = f"{name}{key}" if key.startswith((".", "[")) else key or name
        yield from _places(it, joined, depth - 1, seen)


def _inside(thing: Any) -> dict[str, Any]:
    """Give what a thing refers to by name: ``.attribute``, ``[item]``, ``variable``."""
    if isinstance(thing, functools.partial):
        items = {f"[{number}]": it for number, it in enumerate(thing.args)}
        return {"": thing.func, **items, **thing.keywords}
    if isinstance(thing, MethodType):
        return {"self": thing.__self__, "": thing.__func__}
    if isinstance(thing, FunctionType):
        return _variables(inspect.unwrap(thing))
    if isinstance(thing, (list, tuple)):
        return {f"[{number}]": it for number, it in enumerate(thing[:MOST_ITEMS])}
    if isinstance(thing, type):
        return {f".{key}": it for key, it in vars(thing).items() if not key.startswith("__")}
    inside = {f".{key}": it for key, it in getattr(thing, "__dict__", {}).items()}
    kind = type(thing)
    if kind.__module__ != "builtins":
        inside[kind.__name__] = kind
        for name in CALLED:
            method = inspect.getattr_static(kind, name, None)
            if isinstance(method, FunctionType):
                inside |= _variables(method)
    return inside


def _variables(function: Any) -> dict[str, Any]:
    """Give what a function names from outside of it, its attributes and its defaults."""
    try:
        found = inspect.getclosurevars(function)
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # not written in Python, or a variable not yet there
        return {}
    home = getattr(function, "__module__", None)
    # Functions and classes of other modules keep nothing for this one that one could name.
    outside = {
        name: it
        for name, it in {**found.globals, **found.nonlocals}.items()
        if not isinstance(it, (FunctionType, type)) or it.__module__ == home
    }
    own = {f"{function.__name__}.{name}": it for name, it in vars(function).items()}
    defaults = function.__defaults__ or ()
    return outside | own | dict(zip(reversed(parameters), reversed(defaults), strict=False))


def _mark(value: Any) -> bytes | None:
    """Take the mark of a value, or None if it is not one that can be marked by itself."""
    if isinstance(value, np.random.Generator):
        return _mark(value.bit_generator)
    if isinstance(value, np.random.BitGenerator):
        return _digest(dict(value.state))
    if isinstance(value, np.random.RandomState):
        return _digest(value.get_state(legacy=False))
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else _digest(value.getstate())
    if isinstance(value, itertools.count):
        return repr(value).encode()  # the only way to see where it stands, without moving it
    return _digest(value) if _is_small(value) else None


def _is_small(value: Any, depth: int = DEEPEST) -> bool:
    if isinstance(value, (dict, list, tuple)):
        items = value.values() if isinstance(value, dict) else value
        within = depth > 0 and len(value) <= MOST_ITEMS
        return within and all(_is_small(item, depth - 1) for item in items)
    if isinstance(value, (type(None), bool, int, float, complex, np.generic)):
        return True
    if isinstance(value, (str, bytes, bytearray)):
        return len(value) <= MOST_BYTES
    return isinstance(value, np.ndarray) and value.nbytes <= MOST_BYTES


def _digest(value: Any) -> bytes | None:
    try:
        return digest(value)
    except TypeError:
        return None
