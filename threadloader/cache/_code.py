"""What the code of a function names, and what it imports when it runs."""

from __future__ import annotations

import dis
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec, resolve_name
from typing import Any

from ..errors import from_signal, log
from ._kinds import home, library_at
from ._walk import LONGEST, NAME, held

__all__ = ["imported", "named_in_texts", "names_used", "stood_for"]

_IMPORT = dis.opmap["IMPORT_NAME"]
_BY_NAME = {"import_module", "__import__"}

_OF_TYPES = {"types", "typing", "typing_extensions", "collections.abc"}
"""The modules whose classes are those of type aliases and type variables."""


def named_in_texts(kind: type, namespace: dict[str, Any]) -> dict[str, Any]:
    """Give what the annotations of a class name in texts, directly or inside type aliases.

    >>> class Pair:
    ...     one: "Part"
    ...     other: list["Part | None"]
    >>> named_in_texts(Pair, {"Part": 1, "Another": 2})
    {'Part': 1}
    """
    annotations = vars(kind).get("__annotations__")
    pending: list[Any] = list(annotations.values()) if type(annotations) is dict else []
    # From 3.14 on a function gives the annotations, and has them in its code.
    code = getattr(vars(kind).get("__annotate_func__"), "__code__", None)
    pending += [] if code is None else [*code.co_consts, *code.co_names]
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}  # by id; kept alive, so that no id is reused
    while pending:
        item = pending.pop()
        if type(item) is typing.ForwardRef:
            item = item.__forward_arg__
        if type(item) is str:
            names = set(NAME.findall(item)) if len(item) <= LONGEST else set()
            for name in (namespace.keys() & names) - found.keys():
                found[name] = held(namespace, name)
                pending.append(found[name])
        # An object of another class may be anything, and is not asked for its attributes.
        elif id(item) not in seen and home(type(item)) in _OF_TYPES:
            seen[id(item)] = item
            # A GenericAlias passes look-ups on to its origin, which may be a class of the user's.
            alias = type(item) is types.GenericAlias
            stands = [item.__origin__] if alias else stood_for(item)
            # Constraints of a type variable are a tuple, the parameters of a callable a list.
            for part in (*stands, *typing.get_args(item)):
                pending += part if type(part) in (list, tuple) else [part]
    return found


def stood_for(thing: Any) -> list[Any]:
    """Give what a type variable, alias or NewType stands for; None for what it does not say."""
    found = []
    for name in ("__value__", "__bound__", "__constraints__", "__default__", "__supertype__"):
        value = None
        try:
            value = getattr(thing, name, None)
        except Exception as error:  # from 3.12 on: a name that only type checkers import, say
            if from_signal(error):
                raise
        found.append(value)
    return found


def names_used(code: types.CodeType) -> Iterator[str]:
    """Give the names that code and the functions inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_used(constant)


def imported(function: types.FunctionType, warned: set[str]) -> Iterator[types.ModuleType]:
    """Give the user's modules that a function imports in its body, if its own module has them, too.

    Warn of all others, but for those in ``warned``. No key can have what is in these: they may not
    be imported before the function runs.
    """
    names = function.__globals__
    for name in dict.fromkeys(_own_imports(function.__code__, names)):
        if (there := _there(name, names)) is not None:
            yield there
        elif name != names.get("__name__") and name not in warned:
            warned.add(name)
            text = (
                "cache: what is in the module %s does not count, since %s imports it in its body: "
                "samples made with another content of it are taken for those of this one; import "
                "it where the file begins"
            )
            log("warning", text, name, function.__qualname__)


def _there(name: str, namespace: dict[str, Any]) -> types.ModuleType | None:
    """Give the module of a name, if it has this namespace, or that has it or what leads to it.

    None also where it is not imported yet.
    """
    try:
        full = resolve_name(name, namespace.get("__package__"))
    except ImportError:  # beyond the top of the package
        return None
    module, first = sys.modules.get(full), full.partition(".")[0]
    if not isinstance(module, types.ModuleType):
        return None
    own = namespace.get("__name__") == full
    leads = first in namespace and held(namespace, first) is sys.modules.get(first)
    return module if own or leads or any(it is module for it in namespace.values()) else None


def _own_imports(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[str]:
    """Give the modules that code, or a function inside it, imports, but for those of libraries.

    A text may name them, in the code or in the ``namespace`` of its module. To find them nothing is
    imported but the parent package of a relative name. A module whose first name cannot be found is
    left out: to import it would fail.
    """
    steps = []
    if _IMPORT in code.co_code[::2]:  # to disassemble takes long
        steps = [it for it in dis.get_instructions(code) if it.opcode != dis.EXTENDED_ARG]
    for number, step in enumerate(steps):
        if step.opcode == _IMPORT:
            # The second instruction before it loads the level: 0, or how many packages up it is.
            name, up = step.argval, steps[number - 2].argval
            if up or _is_own(name.partition(".")[0]):
                yield "." * up + name
    used = set(code.co_names)
    texts: list[Any] = []
    if used & _BY_NAME or used >= {"sys", "modules"}:
        texts = [*code.co_consts, *(namespace.get(name) for name in code.co_names)]
    for text in texts:
        if type(text) is str and _may_be_own(text, namespace.get("__package__")):
            yield text
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _own_imports(constant, namespace)


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

    ``below`` are further parts of the name. With ``in_file`` one of all parts must have a file:
    the name may also be that of a folder of data, which has none.
    """
    try:
        spec = find_spec(name, package)
        for part in below:
            if spec is None or spec.has_location:
                break
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations or ()))
    except Exception as error:  # of any class: a finder of any package may be asked
        if from_signal(error):
            raise
        return False
    if spec is None or (in_file and not spec.has_location):
        return False
    folders = spec.submodule_search_locations or ()  # for a namespace package: it has no file
    file = spec.origin if spec.has_location else next(iter(folders), None)
    return not library_at(name, file or "")
