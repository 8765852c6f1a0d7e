"""Which parts of a record become which fields of a sample, as a config says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ConfigError, Problem

__all__ = [
    "NEAREST",
    "chosen_fields",
    "in_pointer",
    "listed",
    "near",
    "nearest",
    "repeated",
    "unknown_fields",
]

NEAREST = 10
"""Unknown names of one option for which the nearest is sought, which is slow among thousands."""


def in_pointer(name: str) -> str:
    """Give a name as it stands in a JSON pointer (RFC 6901).

    >>> in_pointer("a/b~")
    'a~1b~0'
    """
    return name.replace("~", "~0").replace("/", "~1")


def chosen_fields(
    fields: Iterable[Any] | Mapping[str, Any] | None, everything: str
) -> dict[Any, Any] | None:
    """Give the choice of fields (or positions) as field -> name in the file; None for all.

    A field twice, or none at all, is a ConfigError; if there is none, its hint says that null takes
    ``everything``.
    """
    if fields is None:
        return None
    if isinstance(fields, Mapping):
        chosen = dict(fields)
    else:
        names = list(fields)
        chosen = dict(zip(names, names, strict=True))
        if len(chosen) < len(names):
            twice = f"{repeated(names)!r} twice"
            raise ConfigError(Problem("/source/fields", "each field once", twice, "name it once"))
    if not chosen:
        raise ConfigError(
            Problem("/source/fields", "at least one field", "none", f"null takes {everything}")
        )
    return chosen


def unknown_fields(
    option: str, named: Iterable[str], fields: Iterable[str], file: object = ""
) -> list[Problem]:
    """Give a problem for each name in an option that is not the name of a field.

    ``file`` is the file that says which fields there are, if one does: the fault may be there.
    """
    there = list(fields)
    known = set(there)
    see = f"see {file}" if file else ""
    problems: list[Problem] = []
    for name in named:
        if name not in known:
            hint = near(name, there) if len(problems) < NEAREST else ""
            hint = "; ".join(part for part in (hint, see) if part)
            problems.append(Problem(f"/source/{option}", "the name of a field", repr(name), hint))
    return problems


def near(name: str, names: Iterable[str]) -> str:
    """List the names that there are, and the nearest one.

    >>> near("colour", ["color", "size"])
    "there are 'color', 'size'; did you mean 'color'?"
    """
    there = list(names)
    likely = nearest(name, there)
    return f"there are {listed(there) or 'none'}" + (f"; {likely}" if likely else "")


def nearest(name: str, names: Iterable[str]) -> str:
    """Ask whether the nearest of the names was meant; "" if none is near.

    >>> nearest("colour", ["color", "size"]), nearest("x", ["size"])
    ("did you mean 'color'?", '')
    """
    import difflib  # imported when it is asked for

    likely = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {likely[0]!r}?" if likely else ""


def listed(names: Iterable[object], most: int = 20) -> str:
    """List names, the first of them where they are many.

    >>> listed("abc", 2), listed([])
    ("'a', 'b', ...", '')
    """
    there = list(names)
    return ", ".join(map(repr, there[:most])) + (", ..." if len(there) > most else "")


def repeated(names: Iterable[str]) -> str:
    """Give the first of some names that is there more than once; there must be one.

    >>> repeated("abcb")
    'b'
    """
    counts = Counter(names)
    return next(name for name, count in counts.items() if count > 1)
