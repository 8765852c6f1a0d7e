"""What kept samples depend on, as a short text: another source or transform, another key."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import EnumMeta
from operator import attrgetter
from pathlib import PurePath
from typing import Any

import numpy as np

from threadloader.errors import ConfigError, Problem

from ._samples import CONSTANTS, DEEPEST

__all__ = ["key_of"]


def key_of(*parts: Any) -> str:
    """Give what changes when one of these changes, and is the same in every run otherwise.

    Args:
        parts: plain values, and what is called to make a sample. Of a

            - function: its code, defaults, what it closes over, and the values, functions
              and classes of its module that it names, or that it names of other modules
              of yours (``settings.SIZE``, ``package.texts.clean``);
            - class: all that it has, its bases too: functions, values, objects, classes;
            - object: its class and its attributes; or, if it has a method
              ``fingerprint() -> str``, what that says;
            - ``functools.partial``, bound method, property, wrapped function and the like: what
              they are made of;
            - dict, list, tuple, numpy array: what is in it, in its order; of a set: the plain
              values in it.

            Functions and classes of the standard library and of installed packages count by
            their names alone, objects of the standard library by their ``repr``; and by name
            what is written in C, or further than 32 steps away.

    Returns:
        64 hexadecimal digits.

    Raises:
        ConfigError: a ``fingerprint()`` gives something else than a str.

    >>> key_of("a", lambda x: x + 1) == key_of("a", lambda x: x + 1)
    True
    >>> key_of("a", lambda x: x + 1) == key_of("a", lambda x: x + 2)
    False
    """
    teller = _Teller()
    for part in parts:
        teller.tell(part, DEEPEST)
    return teller.digest.hexdigest()


_MADE_OF: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("dispatcher.registry",),
    re.Pattern: ("pattern", "flags"),
}
"""What a thing of such a class is made of."""

_TOLD_BY_CONTENTS = frozenset(
    {list, tuple, dict, types.MappingProxyType, set, frozenset, np.ndarray, *_MADE_OF}
)
"""Of other classes, of lists for instance, there are functions and attributes besides."""

_TOLD_BY_ATTRIBUTES = frozenset({"argparse.Namespace", "types.SimpleNamespace"})
"""Classes of the standard library that are nothing but what they hold."""


class _Teller:
    """Walks through things and hashes what it comes by."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=32)
        # By id: in which order things were met. They are held, so that no id comes twice.
        self._met: dict[int, tuple[int, Any]] = {}

    def tell(self, thing: Any, deepest: int) -> None:
        """Hash a thing, and what it is made of."""
        kind = type(thing)
        if kind in CONSTANTS or thing is Ellipsis:
            self._put(kind.__name__, _text(thing))
        elif id(thing) in self._met:
            self._put("again", str(self._met[id(thing)][0]))
        elif deepest == 0:
            self._put("far", _name(kind))
        else:
            self._met[id(thing)] = len(self._met), thing
            self._tell_once(thing, deepest - 1)

    def _put(self, *words: str | bytes) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word
            self.digest.update(b"%d:" % len(data) + data)

    def _all(self, kind: str, things: Any, deepest: int) -> None:
        self._put(kind, str(len(things)))
        for thing in things:
            self.tell(thing, deepest)

    def _tell_once(self, thing: Any, deepest: int) -> None:
        parts = next((names for kind, names in _MADE_OF.items() if isinstance(thing, kind)), ())
        if parts:
            self._all("made of", [attrgetter(name)(thing) for name in parts], deepest)
        elif isinstance(thing, (list, tuple)):
            self._all("list", thing, deepest)
        elif isinstance(thing, Mapping):
            self._all("dict", [each for item in thing.items() for each in item], deepest)
        elif isinstance(thing, (set, frozenset)):
            # Their order differs from run to run.
            self._put("set", *sorted(_text(each) if _plain(each) else "" for each in thing))
        elif isinstance(thing, (np.ndarray, np.generic)):
            self._array(thing, deepest)
        if type(thing) in _TOLD_BY_CONTENTS:
            self._put(type(thing).__name__)
        elif isinstance(thing, types.FunctionType):
            self._function(thing, deepest)
        elif isinstance(thing, types.CodeType):
            self._code(thing, deepest)
        elif isinstance(thing, np.dtype):
            self._put("dtype", _described(thing))
        elif isinstance(thing, type):
            self._class(thing, deepest)
        elif isinstance(thing, types.BuiltinFunctionType):
            self._put("built in", thing.__name__)
            self.tell(thing.__self__, deepest)  # its module, or what it is bound to
        elif isinstance(thing, types.ModuleType):
            self._put("module", thing.__name__)
        else:
            self._object(thing, deepest)

    def _array(self, array: Any, deepest: int) -> None:
        self._put("array", _described(array.dtype), str(array.shape))
        if array.dtype.hasobject:  # what is stored there are addresses
            self._all("items", np.asarray(array).reshape(-1).tolist(), deepest)
        else:
            self._put(array.tobytes())

    def _function(self, function: types.FunctionType, deepest: int) -> None:
        if _installed(function.__module__):
            self._put("function", function.__module__, function.__qualname__)
            return
        self.tell(function.__code__, deepest)
        self.tell(function.__defaults__, deepest)
        self.tell(function.__kwdefaults__, deepest)
        for cell in function.__closure__ or ():
            try:
                self.tell(cell.cell_contents, deepest)
            except ValueError:  # not assigned to yet
                self._put("empty")
        names = sorted(set(_names(function.__code__)))
        values = {
            name: function.__globals__[name] for name in names if name in function.__globals__
        }
        # It grows while it is gone through: a package has modules, and those have what is named.
        modules = list(values.values())
        for module in modules:
            if isinstance(module, types.ModuleType) and not _installed(module.__name__):
                its = vars(module)
                for name in names:
                    where = f"{module.__name__}.{name}"
                    if name in its and where not in values:
                        values[where] = its[name]
                        modules.append(its[name])
        self.tell(values, deepest)

    def _code(self, code: types.CodeType, deepest: int) -> None:
        takes = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        does = (code.co_code, code.co_names, code.co_consts, code.co_exceptiontable)
        self._all("code", (*takes, *does), deepest)

    def _class(self, kind: type, deepest: int) -> None:
        self._put("class", _name(kind))
        for base in kind.__mro__:
            self._put("base", _name(base))
            if _installed(base.__module__):
                continue
            for name, value in sorted(vars(base).items()):
                if _counts(base, name, value):
                    self._put(name)
                    self.tell(value, deepest)

    def _object(self, thing: Any, deepest: int) -> None:
        kind = type(thing)
        library = kind.__module__.partition(".")[0]
        wraps = inspect.getattr_static(thing, "__wrapped__", None) is not None
        if callable(getattr(kind, "fingerprint", None)):
            text = thing.fingerprint()
            if not isinstance(text, str):
                raise ConfigError(
                    Problem(_name(kind), "a str from its fingerprint()", type(text).__name__)
                )
            self._put("object", _name(kind), text)
            return
        if wraps:
            self._put("wrapped", _name(kind))
            self.tell(getattr(thing, "__wrapped__", None), deepest)
        if library not in sys.stdlib_module_names:
            self._put("object", str(getattr(thing, "__qualname__", getattr(thing, "__name__", ""))))
            self.tell(kind, deepest)
            self.tell(dict(_attributes(thing)), deepest)
        elif _name(kind) in _TOLD_BY_ATTRIBUTES:
            self._put("object", _name(kind))
            self.tell(dict(vars(thing)), deepest)
        elif not wraps:
            # Their attributes may hold anything, as those of a logger hold all loggers. Of
            # containers, which have been told, a repr has sets in it in the order of this run; that
            # of a logger says its level.
            told = isinstance(thing, (list, tuple, Mapping, set, frozenset)) or library == "logging"
            self._put("object", _name(kind), "" if told else _said(thing))
            if isinstance(thing, defaultdict):
                self.tell(thing.default_factory, deepest)


def _counts(kind: type, name: str, value: Any) -> bool:
    """Tell whether what a class has under a name was put there by whoever wrote the class.

    Of names that are the interpreter's (or in an enumeration the library's) those that it calls;
    the others say where and how the class is written.
    """
    special = name.startswith("__") and name.endswith("__")
    if isinstance(kind, EnumMeta) and name != "_member_map_":
        special = special or (name.startswith("_") and name.endswith("_"))
    return not special or callable(value) or hasattr(type(value), "__get__")


def _plain(thing: Any) -> bool:
    return type(thing) in CONSTANTS or (type(thing) is tuple and all(map(_plain, thing)))


def _text(plain: Any) -> str:
    """Give a constant, or a tuple of such, as text; an integer in hexadecimal has no bound."""
    if type(plain) is tuple:
        return f"({','.join(map(_text, plain))})"
    return hex(plain) if type(plain) is int else repr(plain)


def _said(thing: Any) -> str:
    """Give what an object says of itself, unless it says its address, or has too many digits."""
    try:
        text = repr(thing)
    except ValueError:
        return ""
    return "" if " at 0x" in text else text


def _described(dtype: np.dtype[Any]) -> str:
    """Give all that a dtype is: byte order, size, fields and where they stand."""
    return f"{dtype.str} {_said(dtype)}"


def _names(code: types.CodeType) -> Iterator[str]:
    """Give the names that code and the functions inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from dict(getattr(thing, "__dict__", {})).items()
    for base in type(thing).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield name, getattr(thing, name)


def _installed(module: str | None) -> bool:
    """Tell whether a module is of the standard library or of an installed package."""
    if module is None or module.partition(".")[0] in sys.stdlib_module_names:
        return module is not None
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not {"site-packages", "dist-packages"}.isdisjoint(PurePath(file).parts)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
