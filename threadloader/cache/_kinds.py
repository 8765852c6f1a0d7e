"""What can be asked of a thing, by its kind, to tell it from others: see `key_of`."""

from __future__ import annotations

import abc
import contextlib
import copyreg
import functools
import json.scanner
import os
import re
import struct
import sys
import types
import typing
from collections.abc import Callable
from enum import EnumMeta
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import PurePath
from typing import Any

import numpy as np

from ..errors import from_signal

__all__ = [
    "BY_CLASS",
    "DISPATCHER",
    "MADE_OF",
    "attributes",
    "buffered",
    "counts",
    "full_name",
    "hides_state",
    "home",
    "installed",
    "library_at",
    "pickled_as",
    "registered",
    "said",
    "tells_itself",
]

MADE_OF: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    types.BuiltinFunctionType: ("__module__", "__name__", "__self__"),  # a module or an object
    types.MethodWrapperType: ("__name__", "__self__"),
    types.WrapperDescriptorType: ("__name__", "__objclass__"),
    types.MethodDescriptorType: ("__name__", "__objclass__"),
    types.ClassMethodDescriptorType: ("__name__", "__objclass__"),
    types.MemberDescriptorType: ("__name__", "__objclass__"),
    types.GetSetDescriptorType: ("__name__", "__objclass__"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("dispatcher.registry",),
    np.vectorize: (),  # its attributes say all
    re.Pattern: ("pattern", "flags"),
    struct.Struct: ("format",),
    # Its pickle would have its module's whole namespace, and what it has been evaluated to.
    typing.ForwardRef: ("__forward_arg__",),
    typing.NewType: ("__name__", "__supertype__"),
}
"""For each class, the attributes that its objects are made of."""

_SCANNER = vars(json.scanner).get("c_make_scanner")  # a decoder of JSON has one
if _SCANNER is not None:
    MADE_OF[_SCANNER] = (
        *("strict", "object_hook", "object_pairs_hook"),
        *("parse_float", "parse_int", "parse_constant"),
    )

BY_CLASS = frozenset(
    {
        *("logging", "threading", "_thread", "queue", "_queue", "concurrent"),
        *("_abc", "PyCapsule", "SystemRandom", "_Environ"),
    }
)
"""Standard modules and classes whose objects say what a program does, not what it makes: they
count by their classes alone. Objects of ``_abc`` remember who asked (for the rest of them see
`registered`), a ``PyCapsule`` holds an address, a ``SystemRandom`` nothing, and ``os.environ`` much
that is new in each shell."""

DISPATCHER = "functools", "singledispatch.<locals>.wrapper"
"""Module and code of the functions that `functools.singledispatch` makes."""

_STANDARD = PurePath(os.__file__).parent, PurePath(types.__file__).parent
"""The folder of the standard library, or its archive. Where it is an archive, as in the embeddable
Python for Windows, `os.__file__` names a folder all the same."""

_ADDRESS = re.compile(
    r"(\bat|@) 0x[0-9A-Fa-f]|^<.*\b0x[0-9A-Fa-f]{6}"
    r"|^<cdata .*' (owning|sliced|buffer|handle|calling)\b",
    re.DOTALL,
)
"""Found in a repr that shows an address, or, of cffi's memory, nothing of what is in it."""

_POINTER = re.compile(r"[&PzOX]|Z(?![fdg])")
"""Found in a buffer's format if its items are addresses: what matters lies elsewhere."""

_TOLD_OF_CLASSES = frozenset(
    {"__annotations__", "__attrs_attrs__", "__dataclass_fields__", "__orig_bases__", "__slots__"}
)
"""Special names of a class that programs read, besides its code."""

_ASKED_FOR = frozenset({"__annotations__", "__annotate__", "__annotate_func__"})
"""Names that even a class without annotations has, empty, once it was asked for annotations."""

_WRITTEN = frozenset(
    {
        *("__doc__", "__firstlineno__", "__module__", "__qualname__", "__static_attributes__"),
        *("__annotations_cache__", "__callable_proto_members_only__", "__slotnames__"),
        "__non_callable_proto_members__",
    }
)
"""Names that say where and how a class is written, or are set when somebody first asks for them."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.EllipsisType)
_PLAIN_DEPTH = 8
"""How many containers inside each other a plain value may have. Chosen."""


def tells_itself(kind: type) -> bool:
    """Tell whether objects of a class have a method ``fingerprint``."""
    # First by `vars`: to `getattr` a metaclass may answer for any name, or raise.
    there = any("fingerprint" in vars(base) for base in kind.__mro__)
    return there and callable(getattr(kind, "fingerprint", None))


def attributes(
    thing: Any, library: Callable[[str], bool], *, of_libraries: bool
) -> dict[str, Any] | None:
    """Give the attributes that stand in an object; None if it does not let them be read.

    ``library`` tells whether a module is a library's. Slots of libraries' classes are left out; if
    ``of_libraries``, only those of classes written in C are.
    """
    try:
        found = dict(getattr(thing, "__dict__", {}))
    except Exception as error:  # of any class: a `__getattribute__` of yours may run
        if from_signal(error):
            raise
        return None
    for base in type(thing).__mro__:
        if not library(home(base)) or (of_libraries and "__slots__" in vars(base)):
            for name, slot in list(vars(base).items()):
                if type(slot) is types.MemberDescriptorType:
                    # A slot that was never assigned to has no value.
                    with contextlib.suppress(AttributeError):
                        found[name] = slot.__get__(thing)
    return found


def pickled_as(thing: Any) -> tuple[Any, ...] | str | None:
    """Give what an object would be pickled as; None if it cannot be.

    That is a global name, or a tuple: what to call, its arguments, and what to set on the result:
    state, items, items of a dict.
    """
    kind: Any = type(thing)
    try:
        reduce = copyreg.dispatch_table.get(kind)
        # Protocol 2 loses the fold of a time. Only times with a fold take 4: other keys stay.
        protocol = 4 if kind.__module__ == "datetime" and getattr(thing, "fold", 0) else 2
        found = reduce(thing) if reduce else kind.__reduce_ex__(thing, protocol)
    except Exception as error:  # of any class: each library chooses its own
        if from_signal(error):
            raise
        return None
    return found if isinstance(found, (tuple, str)) else None


def buffered(thing: Any) -> bytes | None:
    """Give an object's buffer: format, shape and bytes; None if it has none, or of addresses."""
    try:
        with memoryview(thing) as view:
            if _POINTER.search(re.sub(":[^:]*:", "", view.format)):  # without the names of fields
                return None
            return f"{view.format} {view.shape} ".encode() + view.tobytes()
    except (TypeError, ValueError, BufferError, NotImplementedError) as error:
        if from_signal(error):
            raise
        return None


def said(thing: Any) -> str | None:
    """Give an object's repr; None if it shows an address, or raises, as an int of many digits."""
    try:
        text = repr(thing)
    except Exception as error:
        if from_signal(error):
            raise
        return None
    return None if _ADDRESS.search(text) else text


def counts(kind: type, name: str, value: Any) -> bool:
    """Tell whether what a class has under a name was put there by whoever wrote the class.

    Ordinary names always count. Special ones, as ``__hash__``, count if their value is callable, a
    descriptor, or says the fields of the class, or is plain data other than where and how the class
    is written; an enumeration's own, as ``_missing_``, if it is callable or a descriptor. Others
    may be a library's notes of who has asked, which do not count.
    """
    special = name.startswith("__") and name.endswith("__")
    if name in _ASKED_FOR and (value is None or (type(value) is dict and not value)):
        return False
    if special and (name in _TOLD_OF_CLASSES or (name not in _WRITTEN and is_plain(value))):
        return True
    if isinstance(kind, EnumMeta) and name not in ("_member_map_", "_boundary_"):
        special = special or (name.startswith("_") and name.endswith("_"))
    return not special or callable(value) or hasattr(type(value), "__get__")


def registered(kind: type) -> set[Any]:
    """Give the classes that an abstract base class was told of by its method ``register``."""
    dump = getattr(abc, "_get_dump", None)  # an interpreter without it keeps them in attributes
    if dump is None or not isinstance(kind, abc.ABCMeta):
        return set()
    return {each() for each in dump(kind)[0]} - {None}  # of a class that is no more


def is_plain(value: Any, depth: int = _PLAIN_DEPTH) -> bool:
    """Tell whether a value is a number, a text or an array of such, or a container of plain ones.

    >>> is_plain({"a": [1, (2.0, None)]}), is_plain([object()])
    (True, False)
    """
    kind = type(value)
    if kind in _PLAIN or issubclass(kind, np.generic):
        return True
    if kind in (np.ndarray, np.memmap):
        return not value.dtype.hasobject
    if kind is dict:
        return depth > 0 and all(is_plain(item, depth - 1) for item in value.items())
    if kind in (list, tuple, set, frozenset):
        return depth > 0 and all(is_plain(each, depth - 1) for each in value)
    return False


def hides_state(thing: Any) -> bool:
    """Tell whether an object holds something in C beside its attributes."""
    kind: Any = type(thing)
    for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        method = getattr(kind, name, None)
        if method is not getattr(object, name, None):
            return not isinstance(method, types.FunctionType)
    try:
        object.__reduce_ex__(thing, 2)
    except Exception as error:  # of any class: a `__getattr__` of yours may run
        if from_signal(error):
            raise
        # Python's words for: the object has state that `object.__reduce_ex__` cannot see.
        return type(error) is TypeError and str(error).startswith("cannot pickle")
    return False


def installed(module: str) -> bool:
    """Tell whether a module is of the standard library or installed, or written in C."""
    if module == "__main__":
        return False  # its file may be that of an installed program that runs a script of yours
    # Not asked of the module itself, whose `__getattr__` may raise anything.
    return library_at(
        module, getattr(sys.modules.get(module), "__dict__", {}).get("__file__") or ""
    )


def library_at(module: str, file: str) -> bool:
    """Tell whether a module is as `installed` says, by its file; "" if it has none."""
    if not {"site-packages", "dist-packages"}.isdisjoint(PurePath(file).parts):
        return True
    # The file must fit: a module of yours may have a standard module's name, as `code`. Modules
    # that are part of the interpreter have no file.
    in_place = not file or any(map(PurePath(file).is_relative_to, _STANDARD))
    if in_place and module.partition(".")[0] in sys.stdlib_module_names:
        return True
    return file.endswith(tuple(EXTENSION_SUFFIXES))


def home(thing: type | types.FunctionType) -> str:
    """Give the name of the module in which a class or a function is written."""
    if isinstance(thing, types.FunctionType):
        # Not its `__module__`, which `functools.wraps` takes from the wrapped function.
        written_in = thing.__globals__.get("__name__")
        return written_in if isinstance(written_in, str) else ""
    module = thing.__module__
    # A class in C can have a descriptor there, which gives the module of its objects; and the
    # classes that all modules made by Cython share name a module that is in no file.
    written = isinstance(module, str) and not module.startswith("_cython_")
    return module if written else "builtins"


def full_name(kind: type) -> str:
    """Give the name of a class, with its module."""
    return f"{home(kind)}.{kind.__qualname__}"
