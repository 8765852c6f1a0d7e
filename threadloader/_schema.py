"""Checks JSON values against a schema: the part of JSON Schema that our schema uses.

Draft 2020-12, the keywords of ``config_schema.json``. Any other is refused. One of these where it
can have no effect is ignored; a test checks that the schema file has none. Numbers are as JSON
Schema has them: 4.0 is an integer, ``true`` is not a number.

What a check reports is made for people: one mismatch for one wrong value, said
in one phrase; for a union of objects the mismatches of the branch that the key
``type`` names; for an array the first hundred, and that there are more. How deep a
check goes is decided by the schema, never by the value. (It is past 300 lines: the
checks, and the words for what they expect and what came, read the same keywords.)

>>> shape = Schema({"type": "integer", "minimum": 1})
>>> shape.check(4.0)
[]
>>> [(found.expected, found.got) for found in shape.check(True)]
[('an integer >= 1', 'true')]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

__all__ = ["Mismatch", "Place", "Schema", "pointer", "show"]

Place = tuple[str | int, ...]

_TYPES = {
    "null": "null",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_SCALARS = frozenset({"null", "boolean", "integer", "number", "string"})
_LEAST = {"string": "minLength", "array": "minItems", "object": "minProperties"}
_KEYWORDS = {"$schema", "title", "description", "default", "type", "enum", "const", "anyOf"}
_KEYWORDS |= {"minimum", "maximum", "items", "uniqueItems", "properties", "required"}
_KEYWORDS |= {"additionalProperties", "dependentRequired", *_LEAST.values()}
_MOST_WRONG = 100  # of one array: nobody reads more, and a file may hold a million
_NO_DEFAULT: Any = object()


class Mismatch(NamedTuple):
    """One value that is not as the schema has it.

    Attributes:
        path: keys and positions from the root to the value.
        expected: what would be right there.
        got: what stands there, shortened.
        known: the words that would be right there; empty when it is not about words.
        at_key: whether it is the key that is wrong, not its value.
    """

    path: Place
    expected: str
    got: str
    known: tuple[str, ...] = ()
    at_key: bool = False


class Schema:
    """A schema whose parts are compiled when a value is checked against them.

    Args:
        schema: the schema, as JSON has it; known to be a JSON Schema, of any keywords.

    Raises:
        ValueError: it has a keyword that is not built; of its parts, once they are compiled.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        # True and False are schemas, too.
        others = schema.keys() - _KEYWORDS if isinstance(schema, dict) else {str(schema)}
        if others:
            raise ValueError(f"expected keywords that are built, got {', '.join(sorted(others))}")
        kinds = schema.get("type", [])
        self._kinds = [kinds] if isinstance(kinds, str) else kinds
        self._words = [schema["const"]] if "const" in schema else schema.get("enum", [])
        self._schema = schema
        self._default = schema.get("default", _NO_DEFAULT)

    @cached_property
    def _items(self) -> Schema | None:
        return Schema(self._schema["items"]) if "items" in self._schema else None

    @cached_property
    def _branches(self) -> list[Schema]:
        return [Schema(branch) for branch in self._schema.get("anyOf", [])]

    @cached_property
    def properties(self) -> dict[str, Schema]:
        """The schema of each named property."""
        return {name: Schema(child) for name, child in self._schema.get("properties", {}).items()}

    @cached_property
    def _others(self) -> Schema | None:
        others = self._schema.get("additionalProperties", False)
        return None if others is False else Schema(others)

    def check(self, value: object) -> list[Mismatch]:
        """All that is wrong with a value, in the order of the document.

        Args:
            value: a JSON value as Python has it; anything else matches no type.

        Returns:
            The mismatches; an empty list says that the value is valid.
        """
        return list(self._walk(value, ()))

    def fill(self, value: Any) -> Any:
        """A copy of a valid value, with its defaults filled in and 4.0 as 4.

        Args:
            value: a value of which `check` says nothing.

        Returns:
            A new value that shares no array or object with ``value``, as far as
            the schema describes it; objects have their keys in the schema's order.
        """
        for branch in self._branches:
            if branch._valid(value):
                return branch.fill(value)
        if isinstance(value, list):
            return [self._items.fill(item) if self._items else item for item in value]
        if isinstance(value, dict):
            filled = {
                name: child.fill(value.get(name, child._default))
                for name, child in self.properties.items()
                if name in value or child._default is not _NO_DEFAULT
            }
            for name, item in value.items():
                if name not in filled:
                    filled[name] = self._others.fill(item) if self._others else item
            return filled
        if isinstance(value, float) and "integer" in self._kinds and "number" not in self._kinds:
            return int(value)
        return value

    @cached_property
    def _flat(self) -> bool:
        """Whether `_fits` is all that there is to check."""
        return _SCALARS.issuperset(self._kinds or [""]) and not self._branches

    def _valid(self, value: Any) -> bool:
        return next(self._walk(value, ()), None) is None

    def _walk(self, value: Any, path: Place) -> Iterator[Mismatch]:
        if not self._fits(value):
            yield Mismatch(path, self._expected, show(value), _texts(self._words))
            return
        if self._branches and not any(branch._valid(value) for branch in self._branches):
            yield from self._walk_branch(value, path)
        if isinstance(value, list):
            yield from self._walk_array(value, path)
        elif isinstance(value, dict):
            yield from self._walk_object(value, path)

    def _fits(self, value: Any) -> bool:
        """Whether the value is right as far as one sees without looking into it."""
        kind, bounds = _kind(value), self._schema
        if self._kinds and not _is_one_of(kind, self._kinds):
            return False
        if self._words and not any(_same(value, word) for word in self._words):
            return False
        if kind in _LEAST:
            return bool(len(value) >= bounds.get(_LEAST[kind], 0))
        if kind in ("integer", "number"):
            return bool(bounds.get("minimum", value) <= value <= bounds.get("maximum", value))
        return True

    def _walk_branch(self, value: Any, path: Place) -> Iterator[Mismatch]:
        """The mismatches of the branch that the value most likely means."""
        named: dict[str, Schema] = {}
        for branch in self._branches:
            for word in branch.properties["type"]._words if "type" in branch.properties else ():
                if isinstance(word, str):
                    named.setdefault(word, branch)
        close = [branch for branch in self._branches if _is_one_of(_kind(value), branch._kinds)]
        if isinstance(value, dict) and named:
            expected = f"one of {', '.join(map(show, named))}"
            name = value.get("type")
            if "type" not in value:
                yield Mismatch(path, f'the key "type", {expected}', "an object without it")
            elif isinstance(name, str) and name in named:
                yield from named[name]._walk(value, path)
            else:
                yield Mismatch((*path, "type"), expected, show(name), tuple(named))
        elif len(close) == 1:
            yield from close[0]._walk(value, path)
        else:
            known = _texts(word for branch in self._branches for word in branch._words)
            yield Mismatch(path, self._expected, show(value), known)

    def _walk_array(self, value: list[Any], path: Place) -> Iterator[Mismatch]:
        for number, mismatch in enumerate(self._walk_items(value, path)):
            if number == _MOST_WRONG:
                yield Mismatch(mismatch.path, f"at most {_MOST_WRONG} wrong items", "more")
                return
            yield mismatch

    def _walk_items(self, value: list[Any], path: Place) -> Iterator[Mismatch]:
        seen = set()
        items, unique = self._items, self._schema.get("uniqueItems")
        for number, item in enumerate(value):
            # Most items of a long list are right, and have nothing inside.
            if items and not (items._flat and items._fits(item)):
                yield from items._walk(item, (*path, number))
            if unique and _kind(item) in _SCALARS:
                # In Python 1 == True, in JSON not; 1 == 1.0 in both.
                key = (isinstance(item, bool), item)
                if key in seen:
                    yield Mismatch((*path, number), "each item once", f"{show(item)} again")
                seen.add(key)

    def _walk_object(self, value: dict[str, Any], path: Place) -> Iterator[Mismatch]:
        for name in self._schema.get("required", ()):
            if name not in value:
                yield Mismatch(path, f"the key {show(name)}", "an object without it")
        for name, others in self._schema.get("dependentRequired", {}).items():
            for other in others if name in value else ():
                if other not in value:
                    expected = f"the key {show(other)} beside {show(name)}"
                    yield Mismatch(path, expected, "an object without it")
        for name, item in value.items():
            child = self.properties.get(name, self._others)
            if child:
                yield from child._walk(item, (*path, name))
            elif self._schema.get("additionalProperties") is False:
                known = tuple(self.properties)
                yield Mismatch((*path, name), "a known key", show(name), known, at_key=True)

    @cached_property
    def _expected(self) -> str:
        """What a value should be, in words: ``an integer from 1 to 8 or null``."""
        if self._words:
            words = ", ".join(map(show, self._words))
            return words if len(self._words) == 1 else f"one of {words}"
        if self._branches:
            return " or ".join(dict.fromkeys(branch._expected for branch in self._branches))
        bounds, phrases = self._schema, []
        for kind in self._kinds:
            phrase = _TYPES[kind]
            least = bounds.get(_LEAST.get(kind, ""), 0)
            if kind in ("integer", "number"):
                low, high = bounds.get("minimum"), bounds.get("maximum")
                if low is not None:
                    phrase += f" >= {low}" if high is None else f" from {low} to {high}"
                elif high is not None:
                    phrase += f" <= {high}"
            elif least:
                phrase = f"a non-empty {kind}" if least == 1 else f"{phrase} of at least {least}"
            phrases.append(phrase)
        return " or ".join(phrases) or "another value"


def pointer(path: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path; cut where it is longer than a screen.

    >>> pointer(["a/b", 0, "~"])
    '/a~1b/0/~0'
    """
    text = "".join(
        f"/{key}" if isinstance(key, int) else "/" + key.replace("~", "~0").replace("/", "~1")
        for key in path
    )
    return text if len(text) <= 2000 else f"{text[:2000]}..."


def show(value: object) -> str:
    r"""A value in a few words for a message, safe to print whatever it holds.

    >>> print(show("two\nlines"), show([1, 2]), show(None), show(set()), sep=", ")
    "two\nlines", an array of 2, null, a Python set
    """
    if isinstance(value, str):
        shown = "".join(
            char if char.isprintable() and char not in '"\\' else json.dumps(char)[1:-1]
            for char in value[:40]
        )
        return f'"{shown}..."' if len(value) > 40 else f'"{shown}"'
    if isinstance(value, int) and value.bit_length() > 128:
        sign = "a negative" if value < 0 else "an"
        return f"{sign} integer of {value.bit_length()} bits"
    if type(value) is int:
        return repr(value)
    if isinstance(value, list):
        return f"an array of {len(value)}" if value else "an empty array"
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if value is None or isinstance(value, (int, float)):
        return json.dumps(value)
    return f"a Python {type(value).__name__}"


def _texts(words: Iterable[object]) -> tuple[str, ...]:
    return tuple(word for word in words if isinstance(word, str))


_NAMES = {type(None): "null", int: "integer", str: "string", list: "array", dict: "object"}


def _kind(value: object) -> str:
    """The narrowest JSON type of a Python value; ``""`` for what JSON cannot say."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number" if isfinite(value) else ""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    return next((name for kind, name in _NAMES.items() if isinstance(value, kind)), "")


def _is_one_of(kind: str, kinds: Iterable[str]) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _same(one: object, other: object) -> bool:
    """Whether two values, the second a scalar, are equal in JSON."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other
