"""What the code of a function names, and what it imports when it runs."""

from __future__ import annotations

import dis
import types
import typing
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from ..errors import from_signal, log
from ._kinds import home, library_at
from ._walk import LONGEST, NAME

__all__ = ["named_in_texts", "names_used", "stood_for", "warn_of_imports"]

_IMPORT = dis.opmap["IMPORT_NAME"]
_BY_NAME = {"import_module", "__import__"}

_OF_TYPES = {"types", "typing", "typing_extensions", "collections.abc"}
"""Modules of the classes of aliases and variables of types."""


def named_in_texts(kind: type, namespace: dict[str, Any]) -> dict[str, Any]:
    """Give what is named in those annotations of a class that are texts, or lead to such.

    >>> class Pair:
    ...     one: "Part"
    ...     other: list["Part | None"]
    >>> named_in_texts(Pair, {"Part": 1, "Another": 2})
    {'Part': 1}
    """
    said = vars(kind).get("__annotations__")
    told: list[Any] = list(said.values()) if type(said) is dict else []
    # From 3.14 on they stand in the code of what gives them.
    code = getattr(vars(kind).get("__annotate_func__"), "__code__", None)
    told += [] if code is None else [*code.co_consts, *code.co_names]
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}  # by id; held, so that no id comes twice
    while told:
        each = told.pop()
        if type(each) is typing.ForwardRef:
            each = each.__forward_arg__
        if type(each) is str:
            names = set(NAME.findall(each)) if len(each) <= LONGEST else set()
            for name in (namespace.keys() & names) - found.keys():
                found[name] = namespace[name]
                told.append(namespace[name])
        # Of other classes it may be anything, which is not to be asked what it is.
        elif id(each) not in seen and home(type(each)) in _OF_TYPES:
            seen[id(each)] = each
            # This alias hands a question on to what it is of, which may be a class of the user's.
            alias = type(each) is types.GenericAlias
            stands = [each.__origin__] if alias else stood_for(each)
            # Several are a tuple for a variable, a list for what a callable takes.
            for part in (*stands, *typing.get_args(each)):
                told += part if type(part) in (list, tuple) else [part]
    return found


def stood_for(thing: Any) -> list[Any]:
    """Give what a variable, an alias or a new type stands for; None for what cannot be said."""
    found = []
    for name in ("__value__", "__bound__", "__constraints__", "__default__", "__supertype__"):
        told = None
        try:
            told = getattr(thing, name, None)
        except Exception as error:  # from 3.12 on, names that only type checkers import, say
            if from_signal(error):
                raise
        found.append(told)
    return found


def names_used(code: types.CodeType) -> Iterator[str]:
    """Give the names that code and the functions inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_used(constant)


def warn_of_imports(function: types.FunctionType, told: set[str]) -> None:
    """Warn of modules of the user's that a function imports in its body.

    No key can have what stands in them: they may not be there before it runs.
    """
    names = function.__globals__
    for name in dict.fromkeys(_own_imports(function.__code__, names.get("__package__"))):
        if name == names.get("__name__") or isinstance(names.get(name), types.ModuleType):
            continue  # it counts, as the module of the function, or since that has it
        if name in told:
            continue
        told.add(name)
        text = (
            "cache: what is in the module %s does not count, since %s imports it in its body: "
            "samples made with another content of it are taken for those of this one; import it "
            "where the file begins"
        )
        log("warning", text, name, function.__qualname__)


def _own_imports(code: types.CodeType, package: str | None) -> Iterator[str]:
    """Give the modules that code, or a function inside it, imports, but for those of libraries.

    Nothing is imported for that but the package that a relative text is in. What cannot be
    found is left out: to import it would fail.
    """
    steps = []
    if _IMPORT in code.co_code[::2]:  # it takes long to go through them
        steps = [it for it in dis.get_instructions(code) if it.opcode != dis.EXTENDED_ARG]
    for number, step in enumerate(steps):
        if step.opcode == _IMPORT:
            # Two steps before it stands how many packages up a relative import begins.
            name, up = step.argval, steps[number - 2].argval
            if up or _is_own(name.partition(".")[0]):
                yield "." * up + name
    by_name = not _BY_NAME.isdisjoint(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _own_imports(constant, package)
        elif by_name and isinstance(constant, str) and _may_be_own(constant, package):
            yield constant


def _may_be_own(text: str, package: str | None) -> bool:
    """Tell whether a text may name a module that is not a library's."""
    name = text.lstrip(".")
    if not name.replace(".", "").isidentifier():
        return False
    first, *others = name.split(".")
    return _is_own(text[: len(text) - len(name)] + first, package, others, in_file=True)


def _is_own(
    name: str, package: str | None = None, below: Iterable[str] = (), *, in_file: bool = False
) -> bool:
    """Tell whether a module at the top, or of a package, is neither standard nor installed.

    ``below`` are further parts of the name, and ``in_file`` is whether one of all must have a
    file, as a folder of data of that name has none.
    """
    try:
        spec = find_spec(name, package)
        for part in below:
            if spec is None or spec.has_location:
                break
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations or ()))
    except Exception as error:  # finders are anybody's
        if from_signal(error):
            raise
        return False
    if spec is None or (in_file and not spec.has_location):
        return False
    folders = spec.submodule_search_locations or ()  # of what has no file, as several may share it
    file = spec.origin if spec.has_location else next(iter(folders), None)
    return not library_at(name, file or "")
