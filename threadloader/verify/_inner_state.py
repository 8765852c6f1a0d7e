"""What a function or an object holds that may change from call to call.

A transform that counts, or draws from a generator of its own, keeps that somewhere: in a
variable of its module, in what it closes over, in an attribute. `held` takes a mark of
each such place, so that two marks tell which of them a call has changed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import operator
import random
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, GeneratorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..errors import from_signal, signature
from ..fingerprint import digest

__all__ = ["changed", "held"]

CALLED = ("__call__", "__getitem__", "__getitems__", "take")
"""Methods by which the loader uses an object: what they name is looked at."""

DEEPEST = 3
"""How far attributes of attributes, and functions that functions call, are followed. Chosen: deep
enough for what people write, and quick."""

MOST_BYTES = 1 << 16
"""Arrays above this are not looked at: they are data, and would take long."""

MOST_ITEMS = 1000
"""How many items of a container are looked at, and how many places altogether."""

CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset, deque)


def held(thing: Any) -> dict[str, bytes]:
    """Give a mark of each place in which a thing keeps something, by its name as the user wrote it.

    >>> draws = random.Random(0)
    >>> def noise(sample):
    ...     return sample + draws.random()
    >>> before = held(noise)
    >>> _ = noise(0)
    >>> changed(before, held(noise))
    ['draws']
    """
    name = getattr(thing, "__name__", None)
    if not isinstance(name, str):  # a class with __getattr__ may give anything
        name = type(thing).__name__
    marks: dict[str, bytes] = {}
    for place, mark in itertools.islice(_places(thing, name, DEEPEST, set()), MOST_ITEMS):
        # An object and its class may have a place of the same name: neither may hide the other.
        marks[place] = marks.get(place, b"") + mark
    return marks


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """List the places whose marks differ, shortest names first, without those inside of others."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    inside = tuple(f"{name}{sign}" for name in names for sign in ".[")
    return sorted(
        (name for name in names if not name.startswith(inside)), key=lambda name: (len(name), name)
    )


def _places(thing: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, bytes]]:
    if depth < 0 or id(thing) in seen or isinstance(thing, ModuleType):
        return
    try:
        mark, inside = _looked(thing)
    except Exception as error:  # of code of the user's, or what another thread changes now
        if from_signal(error):
            raise
        return
    if mark is not None:
        yield name, mark
    if inside:  # not for constants: one object may stand in two places, and both have a mark
        seen.add(id(thing))
    for key, it in inside.items():
        joined = f"{name}{key}" if key.startswith((".", "[")) else key or name
        yield from _places(it, joined, depth - 1, seen)


def _looked(thing: Any) -> tuple[bytes | None, dict[str, Any]]:
    """Give the mark of a thing, else of a container's size, and what inside is to be looked at."""
    mark = _mark(thing)
    if mark is not None:
        return mark, {}
    kind = _container(thing)
    return None if kind is None else b"%d" % kind.__len__(thing), _inside(thing)


def _inside(thing: Any) -> dict[str, Any]:
    """Give what a thing refers to by name: ``.attribute``, ``[item]``, ``variable``."""
    if isinstance(thing, functools.partial):
        items = {f"[{number}]": it for number, it in enumerate(thing.args)}
        return {"": thing.func, **items, **thing.keywords}
    if isinstance(thing, MethodType):
        return {"self": thing.__self__, "": thing.__func__}
    if isinstance(thing, FunctionType):
        return _variables(inspect.unwrap(thing))
    if isinstance(thing, type):
        return {f".{key}": it for key, it in vars(thing).items() if not key.startswith("__")}
    inside = _contents(thing)
    inside |= {f".{key}": it for key, it in getattr(thing, "__dict__", {}).items()}
    kind = type(thing)
    if kind.__module__ != "builtins":
        inside |= dict(_slots(thing))
        inside[kind.__name__] = kind
        for name in CALLED:
            method = inspect.getattr_static(kind, name, None)
            if isinstance(method, FunctionType):
                inside |= _variables(method)
    return inside


def _contents(thing: Any) -> dict[str, Any]:
    """Give the items of a container, or what a generator that has been stopped goes on with."""
    if isinstance(thing, dict):
        some = list(itertools.islice(dict.items(thing), MOST_ITEMS))
        return {f"[{key!r}]": it for key, it in some if type(key) in (str, int)}
    if isinstance(thing, (list, tuple, deque)):
        return {f"[{number}]": it for number, it in enumerate(_items(thing))}
    if isinstance(thing, GeneratorType):
        own = inspect.getgeneratorlocals(thing).items()
        at = thing.gi_frame.f_lasti if thing.gi_frame is not None else None
        return {"": at} | {f".{key}": it for key, it in own}
    return {}


def _slots(thing: Any) -> Iterator[tuple[str, Any]]:
    """Give what an object has in slots, which are no part of its `__dict__`."""
    for kind in type(thing).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and not name.startswith("__"):
                with contextlib.suppress(AttributeError):  # nothing is in it yet
                    yield f".{name}", slot.__get__(thing)


def _variables(function: Any) -> dict[str, Any]:
    """Give what a function names from outside of it, its attributes and its defaults."""
    try:
        found = inspect.getclosurevars(function)
        parameters = signature(function).parameters
    except (TypeError, ValueError) as error:  # not in Python, or a variable not yet there
        if from_signal(error):
            raise
        return {}
    home = getattr(function, "__module__", None)
    # Not functions and classes of other modules: what they keep has no name in this function.
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
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "get_state"):
        return _digest(value.get_state())  # a generator; it is not imported for this
    if isinstance(value, itertools.count):
        return repr(value).encode()  # the only way to see where it stands, without moving it
    if isinstance(value, itertools.cycle):
        return _round(value)
    if type(value) is deque and len(value) <= MOST_ITEMS:
        value = list(value)
    if type(value) in (set, frozenset):
        return _of_set(value)
    return _digest(value) if _is_small(value) else None


def _round(cycle: itertools.cycle[Any]) -> bytes | None:
    """Take the mark of a cycle: how many items of its first round it has kept, or which is next."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of CPython 3.12, which will not always have it
            state: Any = cycle.__reduce__()
        _, (rest,), (kept, again) = state
    except Exception as error:  # CPython 3.14 has it no more
        if from_signal(error):
            raise
        return None
    return f"{len(kept)} {operator.length_hint(rest) if again else ''}".encode()


def _of_set(value: Any) -> bytes | None:
    """Take the mark of a set, in no order: of its size, and of the constants in it."""
    items = list(value) if len(value) <= MOST_ITEMS else []
    marks = (_digest(it) for it in items if _is_small(it))
    return _digest([len(value), *sorted(mark for mark in marks if mark is not None)])


def _container(thing: Any) -> Any:
    """Give the builtin container that a thing is: its methods run no code of a subclass."""
    return next((kind for kind in CONTAINERS if isinstance(thing, kind)), None)


def _items(thing: Any) -> list[Any]:
    """Give the first items of a container."""
    return list(itertools.islice(_container(thing).__iter__(thing), MOST_ITEMS))


def _is_small(value: Any, depth: int = DEEPEST) -> bool:
    if isinstance(value, (dict, list, tuple)):
        items = value.values() if isinstance(value, dict) else value
        within = depth > 0 and len(value) <= MOST_ITEMS
        return within and all(_is_small(item, depth - 1) for item in items)
    if isinstance(value, (type(None), bool, int, float, complex, np.generic)):
        return True
    if isinstance(value, (str, bytes, bytearray)):
        return len(value) <= MOST_BYTES
    is_array = isinstance(value, np.ndarray) or hasattr(type(value), "__dlpack__")  # or a tensor
    return is_array and getattr(value, "nbytes", math.inf) <= MOST_BYTES


def _digest(value: Any) -> bytes | None:
    try:
        return digest(value)
    except Exception as error:  # it has none; or another thread changes it now
        if from_signal(error):
            raise
        return None
