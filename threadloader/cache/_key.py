"""What kept samples depend on, as a short text: another source or transform, another key."""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from ..errors import ConfigError, Problem
from ._arrays import module_class, tell_array, tell_dtype, tell_tensor, tensor_class
from ._code import imported, named_in_texts, names_used, stood_for
from ._graph import digest_of
from ._kinds import (
    BY_CLASS,
    DISPATCHER,
    MADE_OF,
    attributes,
    buffered,
    counts,
    full_name,
    hides_state,
    home,
    pickled_as,
    registered,
    said,
    tells_itself,
)
from ._walk import Walk, held

__all__ = ["key_of"]


def key_of(*parts: Any) -> str:
    """Give what changes when one of these changes, and is the same in every run otherwise.

    Args:
        parts: plain values, and what is called to make a sample. Of a

            - function: name, code, parameters, defaults, attributes, what it closes over, and the
              values, functions and classes of its module that it names (a module of yours that
              it imports in its body does not count: a warning says so);
            - class: all that it has, its bases and its metaclass too: functions, values, objects;
            - object: its class, its attributes, and the value that it has beside them (a class
              may derive from str or deque); or, if it has a method ``fingerprint() -> str``,
              what that says;
            - module of yours: the values of those of its names that occur in any code or string
              that is reached (``settings.SIZE``, ``package.texts.clean``);
            - ``functools.partial``, bound method, property, wrapped function and the like: what
              they are made of;
            - dict, list, tuple, set, numpy array, tensor of torch: all that is in it.

            Functions, classes and modules of the standard library and of installed packages
            count by their names alone (a function that one of theirs has made also by what it
            was given: defaults, attributes, what it closes over); objects of theirs by what they
            would be pickled as, else by the bytes that they show, else by their ``repr``.
            Loggers, locks, queues and threads count by the names of their classes.

    Returns:
        64 hexadecimal digits.

    Raises:
        ConfigError: a ``fingerprint()`` gives something else than a str.
        UntoldError: an object can be told in none of these ways.

    >>> key_of("a", lambda x: x + 1) == key_of("a", lambda x: x + 1)
    True
    >>> key_of("a", lambda x: x + 1) == key_of("a", lambda x: x + 2)
    False
    """
    return digest_of(Walk(_tell).go(list(parts)))


_REACH_ALL = {"globals", "eval", "exec"}
"""Code that names one of these can reach all of its module."""

_SETS = (set, frozenset, weakref.WeakSet)


class _AnyOrder(list[Any]):
    """The things that a set holds besides constants: they have no order."""


def _tell(walk: Walk, thing: Any) -> None:
    kind = type(thing)
    if tells_itself(kind):
        text = thing.fingerprint()
        if not isinstance(text, str):
            expected, got = "a str from its fingerprint()", type(text).__name__
            raise ConfigError(Problem(full_name(kind), expected, got))
        walk.put("fingerprint", full_name(kind), text)
        return
    base = next((each for each in kind.__mro__ if each in _HOW), None)
    if base is not None:
        walk.put(base.__name__)
        _HOW[base](walk, thing, base)
    elif issubclass(kind, tensor_class()):
        tell_tensor(walk, thing)
    if kind is not base and base not in (np.dtype, np.generic, type, types.ModuleType):
        _object(walk, thing, base)


def _items(walk: Walk, thing: Any, base: Any) -> None:
    items = list(base.__iter__(thing))  # not by a method with which its class overrides that
    walk.put(str(len(items)))
    walk.add(*items)


def _dict(walk: Walk, thing: Any, base: Any) -> None:
    items = list(base.items(thing))
    walk.put(str(len(items)))
    for item in items:
        walk.add(*item)


def _set(walk: Walk, thing: Any, base: Any) -> None:
    items = list(base.__iter__(thing))
    texts = [walk.text(each) for each in items]
    walk.put(str(len(items)), *sorted(text for text in texts if text is not None))
    others = [each for each, text in zip(items, texts, strict=True) if text is None]
    if others:
        walk.add(_AnyOrder(others))


def _any_order(walk: Walk, things: Any, base: Any) -> None:
    walk.any_order()
    walk.add(*things)


def _made_of(walk: Walk, thing: Any, base: Any) -> None:
    if walk.stands(thing):
        walk.put("of a library", thing.__name__)
    else:
        walk.add(*[attrgetter(name)(thing) for name in MADE_OF[base]])
        if type(thing) in (partial, np.vectorize) and vars(thing):
            found = dict(vars(thing))
            if base is np.vectorize:
                found.pop("_ufunc", None)  # a cache that its calls fill
            walk.add(found)


def _module(walk: Walk, module: Any, base: Any) -> None:
    walk.put(module.__name__)
    if not walk.library(module.__name__):
        walk.name_in()


def _function(walk: Walk, function: Any, base: Any) -> None:
    code, namespace = function.__code__, function.__globals__
    library = walk.library(home(function))
    if library:
        walk.put(home(function), function.__qualname__, code.co_qualname)
        if walk.stands(function):
            return
        if (home(function), code.co_qualname) == DISPATCHER:  # the rest changes with its calls
            walk.add(function.registry)
            return
    # A function that a library has made may have something of yours in all of these.
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        # From 3.14 on the function that gives a class's annotations may hold the namespace of the
        # class, with its line and who asked for them; or a class that `dataclasses` has replaced.
        if name != "__classdict__":
            _cell(walk, cell, base)
    added = dict(function.__dict__)
    added.pop("_torchdynamo_wrapper_id", None)  # set by torch.compile: an address
    walk.add(function.__defaults__, function.__kwdefaults__, added)
    if library:
        return
    walk.put(function.__name__, function.__qualname__)
    # From 3.14 on a function gives the annotations; it is told as a function, and not called.
    walk.add(code, getattr(function, "__annotate__", None) or function.__annotations__)
    walk.add(*imported(function, walk.imports))
    names = set(names_used(code))
    for name in sorted(names):
        if name in namespace:
            walk.put(name)
            walk.add(held(namespace, name))
    # The code can reach all of its module: by `globals()`, say, or `sys.modules[__name__]`.
    if _REACH_ALL & (names - set(namespace)) or {"modules", "__name__"} <= names:
        walk.add(sys.modules.get(home(function)))


def _cell(walk: Walk, cell: Any, base: Any) -> None:
    # From 3.14 on functions that give annotations also hold cells as objects.
    try:
        contents = cell.cell_contents
    except ValueError:  # not assigned to yet
        walk.put("empty")
    else:
        walk.add(contents)


def _code(walk: Walk, code: Any, base: Any) -> None:
    takes = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    # Names of variables count: parameters come first, and `locals`, `dir` and `eval` show all.
    names = (code.co_varnames, code.co_cellvars, code.co_freevars)
    # attrs writes the hash() of a text into the constants, another one in each run; what it has
    # made the code from stands in the class.
    consts = () if code.co_filename.startswith("<attrs generated") else code.co_consts
    does = (code.co_code, code.co_names, consts, code.co_exceptiontable)
    walk.add(*takes, *names, *does)


def _class(walk: Walk, kind: Any, base: Any) -> None:
    walk.put(full_name(kind))
    if walk.library(home(kind)):
        return
    walk.add(type(kind), kind.__bases__, registered(kind))
    for name, value in list(vars(kind).items()):  # in their order, which code can see
        if counts(kind, name, value):
            walk.put(name)
            walk.add(value)
    # Annotations may be texts (a future import makes all of them so). What reads them, as pydantic
    # does, looks up in the module what they name.
    namespace = getattr(sys.modules.get(home(kind)), "__dict__", {})
    for name, value in sorted(named_in_texts(kind, namespace).items(), key=itemgetter(0)):
        walk.put(name)
        walk.add(value)


def _object(walk: Walk, thing: Any, told: type | None) -> None:
    """Say what an object has besides what it holds as ``told``: a list, a dict and the like."""
    kind = type(thing)
    walk.add(kind)
    mine = not walk.library(home(kind))
    if not mine and walk.stands(thing):
        walk.put("of a library", thing.__name__)
        return
    if thing is getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None):
        # numpy's global generator, which scipy's distributions hold: another state in each run.
        walk.put("numpy.random")
        return
    # A wrapper, as a compiled function is: the rest of it changes with the first call.
    wraps = not mine and inspect.getattr_static(thing, "__wrapped__", None) is not None
    whole = told in (np.ndarray, *_SETS) or issubclass(kind, tensor_class())
    # Not a compiled module: it has attributes of this run alone, which its pickle leaves out.
    whole = whole or (issubclass(kind, module_class()) and pickled_as(thing) is None)
    if mine or wraps or whole:
        found = attributes(thing, walk.library, of_libraries=wraps)
        if found is None:
            raise walk.untold()
        walk.add(found)
    if wraps:
        walk.add(thing.__wrapped__)
    base = next((each for each in kind.__mro__[:-1] if walk.library(home(each))), None)
    if wraps or whole or base in _HOW or (base is None and not hides_state(thing)):
        return
    holds = base is not None and full_name(base) == "concurrent.futures._base.Future"
    if holds and not thing.done():
        raise walk.untold()
    if base is None or holds or not {home(base).partition(".")[0], base.__name__} & BY_CLASS:
        _value(walk, thing)


def _value(walk: Walk, thing: Any) -> None:
    """Say what an object would be pickled as, else its bytes, else its repr."""
    pickled = pickled_as(thing)
    if isinstance(pickled, tuple):
        walk.add(*pickled[:3], more_steps=1)
        for items in pickled[3:5]:
            walk.add(None if items is None else list(items), more_steps=1)
        return
    if isinstance(pickled, str):
        # No name by which it can be found, as "f (vectorized)", which numpy has made of f.
        if not pickled.replace(".", "").isidentifier():
            raise walk.untold()
        walk.put(str(getattr(thing, "__module__", "")), pickled)
        walk.add(*stood_for(thing))
        return
    text = buffered(thing) or said(thing)
    if not text:
        raise walk.untold()
    walk.put(text)


_HOW: dict[type, Callable[[Walk, Any, Any], None]] = {
    _AnyOrder: _any_order,
    **dict.fromkeys((list, tuple), _items),
    **dict.fromkeys((type({}.keys()), type({}.values()), type({}.items())), _items),
    **dict.fromkeys((dict, OrderedDict, types.MappingProxyType), _dict),
    **dict.fromkeys(_SETS, _set),
    **dict.fromkeys(MADE_OF, _made_of),
    **dict.fromkeys((weakref.ref, weakref.KeyedRef), lambda walk, it, base: walk.add(it())),
    **dict.fromkeys((np.ndarray, np.memmap, np.generic), tell_array),
    np.dtype: tell_dtype,
    types.FunctionType: _function,
    types.CellType: _cell,
    types.CodeType: _code,
    types.ModuleType: _module,
    type: _class,
}
"""How a thing of each class is told; of an object of a subclass, the part that it inherits."""
