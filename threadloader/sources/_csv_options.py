"""How a config says that csv files are read, and which columns become which fields."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import numpy as np

from ..errors import ConfigError, Problem
from ._csv_columns import Categories, Column, Numbers, Texts
from ._dtypes import DTYPES, UnfitError
from ._fields import chosen_fields, repeated, unknown_fields

__all__ = ["CsvOptions"]

_OTHERS = "*"
"""The name that stands for every field that is not named."""

_AS_TEXT = 'or take the dtype "str" for the field and convert it in the transform'


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """How csv files are read.

    Attributes:
        header: whether the first row of each file names the columns. Without it they are
            called "0", "1" and so on.
        fields: field of the sample -> name or position of a column; or a list of columns,
            which are fields of their own names. None: all.
        dtypes: field -> dtype or ``"str"``; ``"*"`` for every field that is not named.
            Without one a field is text.
        categories: field -> list of texts; a text becomes its place in the list, as int64.
        missing: field -> number for a missing value, None for NaN; ``"*"`` for all fields that
            are not named and can hold it.
        missing_text: the texts that stand for a missing value.
        delimiter: one character.
        quote: one character; "" where quotes mean nothing.
        skip_blank: leave out lines that are empty, or white space alone without a delimiter.

    Raises:
        ConfigError: the options do not fit together.
    """

    header: bool = True
    fields: Iterable[str | int] | Mapping[str, str | int] | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missing: Mapping[str, float | None] = field(default_factory=dict)
    missing_text: Sequence[str] = ("",)
    delimiter: str = ","
    quote: str = '"'
    skip_blank: bool = False

    def __post_init__(self) -> None:
        chosen_fields(self.fields, "every column")
        expected = "one character, neither NUL nor that of a line end"
        problems = [
            Problem(f"/source/{option}", expected, repr(value))
            for option, value, least in (("delimiter", self.delimiter, 1), ("quote", self.quote, 0))
            if not least <= len(value) <= 1 or value in ("\r", "\n", "\0")
        ]
        if self.delimiter == self.quote:
            expected = "another character than the delimiter"
            problems.append(Problem("/source/quote", expected, repr(self.quote)))
        for name, dtype in self.dtypes.items():
            if dtype not in (*DTYPES, "str"):
                expected = f"one of str, {', '.join(DTYPES)}"
                problems.append(Problem("/source/dtypes", expected, f"{dtype!r} for {name!r}"))
        for name in self.categories:
            if name in self.dtypes:
                expected = "a field without categories"
                problems.append(Problem("/source/dtypes", expected, repr(name), "choose one"))
        if problems:
            raise ConfigError(problems)

    def columns_of(self, names: Sequence[str]) -> dict[str, int]:
        """Give field -> position, for a file that has these columns.

        Names or positions that no column has, and names that several have, are a KeyError with
        them as its arguments (if all columns are taken, with the first such name). Two entries of
        a list that mean fields of one name are a ConfigError.
        """
        fields = chosen_fields(self.fields, "every column")
        if fields is None:
            fields = dict(zip(names, range(len(names)), strict=True))
            if len(fields) < len(names):
                raise KeyError(repeated(names))
        # A name of no column, or of several, is as wrong as a position that is not there: -1.
        counts = Counter(names)
        once = {name: at for at, name in enumerate(names) if counts[name] == 1}
        ats = {it: it if isinstance(it, int) else once.get(it, -1) for it in fields.values()}
        wrong = [column for column, at in ats.items() if not 0 <= at < len(names)]
        if wrong:
            raise KeyError(*wrong)
        chosen: dict[str, int] = {}
        for name, it in fields.items():
            column = ats[it]
            called = names[column] if isinstance(name, int) else name
            if called in chosen:
                raise _called_again(called, chosen[called], column)
            chosen[called] = column
        return chosen

    def check_fields(self, fields: Iterable[str], file: object) -> None:
        """Raise a ConfigError if options name a field that is not one of these, of this file."""
        there = [*fields, _OTHERS]
        problems = [
            *unknown_fields("dtypes", self.dtypes, there, file),
            *unknown_fields("categories", self.categories, there[:-1], file),
            *unknown_fields("missing", self.missing, there, file),
        ]
        if problems:
            raise ConfigError(problems)

    def column(self, name: str) -> Column:
        """Make the column that takes a field's texts, with its number for a missing value."""
        dtype = self.dtypes.get(name, self.dtypes.get(_OTHERS, "str"))
        names = self.categories.get(name)
        if names is None and dtype == "str":
            if name in self.missing:
                expected = "a field of numbers; a missing text is given as it is"
                raise ConfigError(Problem("/source/missing", expected, f"{name!r}, a text"))
            return Texts()

        def make(missing: Iterable[str] = (), fill: float | None = None) -> Column:
            if names is not None:
                return Categories(names, missing, fill)
            return Numbers(np.dtype(dtype), missing, fill)

        if name in self.missing:
            try:
                return make(self.missing_text, _number(self.missing[name]))
            except UnfitError as error:
                got = f"{error.got if self.missing[name] is not None else 'null'} for {name!r}"
                raise ConfigError(Problem("/source/missing", error.expected, got)) from error
        if _OTHERS in self.missing:
            with suppress(UnfitError):  # "*" is for the fields that can hold its number
                return make(self.missing_text, _number(self.missing[_OTHERS]))
        return make()

    def meaning(self, name: str, cell: str) -> str:
        """Say which option would give a meaning to a cell that does not fit this field."""
        listed = cell in self.missing_text
        may_lack = name in self.missing or self.missing.get(_OTHERS) is not None
        if name in self.categories:
            what = 'name it in "categories" or "missing"'
            if may_lack and not listed:
                what = 'name it in "categories", or in "missing_text" if the value is missing'
        elif listed:
            what = 'say what it means with "dtypes" and "missing"'
        else:
            what = f'say by "missing" and "missing_text" what a missing value is, {_AS_TEXT}'
            if name in self.missing or _OTHERS in self.missing:
                what = f'add it to "missing_text" if the value is missing, {_AS_TEXT}'
            of_integers = "int" in (self.dtypes.get(name) or self.dtypes.get(_OTHERS) or "")
            if of_integers and cell.strip()[:1].isalpha():
                classes = 'list the texts in "categories", not the dtype, if they name classes'
                what = f"{classes}, {what}"
        if listed and _OTHERS in self.missing and name not in self.missing:
            dtype = self.dtypes.get(name, self.dtypes.get(_OTHERS))
            if name in self.categories:
                dtype = "int64"
            what += f', whose number for "*" {dtype} does not hold'
        return what

    def __str__(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def _called_again(name: str, first: int, second: int) -> ConfigError:
    got, hint = f"{name!r} twice", "name it once"
    if first != second:
        got = f"columns {first} and {second}, both called {name!r}"
        hint = f'give each a name of its own, as in {{"x": {first}, "y": {second}}}'
    return ConfigError(Problem("/source/fields", "each field once", got, hint))


def _number(fill: float | None) -> float:
    return math.nan if fill is None else fill
