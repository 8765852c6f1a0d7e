"""One field of every sample, and lists of numbers in files: what samplers ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError, by_handler, from_signal, log
from ._open_file import open_regular, read_all, readable
from ._paths import inside
from ._progress import ProgressLog
from ._strict_json import STRICT

__all__ = ["column", "read_numbers"]

_MAGIC = b"\x93NUMPY"

# Nothing is tried twice (++, *+), or a long line of digits would take hours.
_NUMBER = re.compile(
    rb"[ \t\r]*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[ \t\r]*+"
)
"""What a cell of a csv may hold as a number; JSON has no ``.5``, ``5.``, ``+1`` and ``01``."""


_MOST_DIGITS = 25
"""Digits of an integer that is written with a point or an exponent; int64 has 19."""


def column(
    source: Any,
    field: str | int,
    pointer: str,
    passes: Callable[[int, Exception], bool] = lambda index, error: False,
) -> npt.NDArray[Any] | Sequence[Any]:
    """Give one field of every sample: an array, shape ``(n, ...)``, or a list.

    A source that has its fields apart gives them by a method ``column(field)``; of any
    other every sample is read, once, and the log tells how far it is.

    Args:
        source: the source.
        field: the name of a field, or its position.
        pointer: the option that names it, for messages.
        passes: is given a sample's index and the error of reading it or its field, and tells
            whether to pass over the error; the sample's value is None then.

    Raises:
        ConfigError: samples have no such field.
        Exception: whatever the source raises, with a note of the sample if it takes one.
    """
    own = getattr(source, "column", None)
    given: npt.NDArray[Any] | Sequence[Any] | None = own(field) if callable(own) else None
    if given is not None:
        return given
    values = []
    progress = ProgressLog()
    for index in range(len(source)):
        read = False
        try:
            sample = source[index]
            read = True
            value = _field_of(sample, index, field, pointer)
        except Exception as error:
            if not passes(index, error):
                if not read:
                    _note(error, index, field)
                raise
            value = None
        values.append(value)
        progress.tell("field %r: read %d of %d samples", field, index + 1, len(source))
    return values


def _note(error: Exception, index: int, field: str | int) -> None:
    try:
        error.add_note(f"threadloader: raised for sample {index}, read for its {field!r}")
    except Exception as refused:  # what the source has raised counts, not this
        if from_signal(refused):
            raise


def _field_of(sample: Any, index: int, field: str | int, pointer: str) -> Any:
    if isinstance(sample, (str, bytes)):  # `[]` would give a character
        got = f"{type(sample).__name__}, sample {index}, which has none"
        raise ConfigError(Problem(pointer, "a field that each sample has", got))
    named = isinstance(field, str) and isinstance(sample, tuple)
    names = getattr(sample, "_fields", None) if named else None  # its `[]` takes no names
    try:
        return sample[names.index(field) if names and field in names else field]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if from_signal(error):
            raise
        got, hint = f"{type(error).__name__}: {error}, in sample {index}", ""
        if named and not names:
            hint = "give its position: a tuple has no names"
        elif named or type(sample) is dict:
            from ._fields import near  # it imports difflib

            hint = near(str(field), [str(it) for it in names or sample if type(it) in (str, int)])
        raise ConfigError(Problem(pointer, "a field that each sample has", got, hint)) from error


def read_numbers(
    path: str,
    base: Path,
    root: Path | None,
    *,
    option: str = "",
    whole: bool = False,
    torn: Callable[[bytes], bool] | None = None,
) -> npt.NDArray[Any] | list[float]:
    """Read a list of numbers from a file.

    Args:
        path: a ``.npy`` file with one row of numbers, told by its first bytes; or text with
            one number a line. Empty lines do not count.
        base: the folder to which the path is relative.
        root: a folder that it may not leave.
        option: the JSON pointer of the option that names it.
        whole: whether each line has to be an integer, as 3.0 is.
        torn: for a quarantine file: is given a last line that lacks its end, and tells whether a
            kill has torn it while it was written; the line is passed over then, and the log says
            so. With ``torn`` a line may be a JSON object, too, whose ``"index"`` is the number.

    Returns:
        int64 or float64 of shape ``(n,)`` from text, or a list where one is too large for
        that; of a ``.npy`` file what stands in it.
    """
    file = inside(base / path, root, option)
    with readable(file), open_regular(file) as handle:
        start = read_all(handle, len(_MAGIC))
        data = b"" if start == _MAGIC else start + handle.readall()
    if start == _MAGIC:
        return _from_npy(file)
    if not data and file.suffix == ".npy":  # as `numpy.save` leaves it where it is killed
        raise SourceError("expected numbers, got an empty file; write it again", file)
    lines = data.removeprefix(b"\xef\xbb\xbf").splitlines()
    if torn is not None and lines and not data.endswith((b"\n", b"\r")) and torn(lines[-1]):
        lines.pop()
        log("warning", "%s: line %d is cut short, and passed over", file, len(lines) + 1)
    values = [
        _number(line, file, number, whole=whole, objects=torn is not None)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    try:
        integers = all(isinstance(value, int) for value in values)
        return np.array(values, np.int64 if integers else np.float64)
    except OverflowError as error:
        if by_handler(error):
            raise
        return values


def _from_npy(file: Path) -> npt.NDArray[Any]:
    from .npy import NpySource  # imported when it is asked for, as every kind

    with closing(NpySource(file)) as source:
        none = source.take(np.arange(0))
        # Before rows are read: of rows without bytes, any number fits into a small file.
        if none.ndim != 1 or not none.dtype.itemsize:
            got = f"shape {(len(source), *none.shape[1:])}, dtype {none.dtype}"
            raise SourceError(f"expected one row of numbers, got {got}", file)
        numbers: npt.NDArray[Any] = source.take(np.arange(len(source)))
    return numbers


def _number(line: bytes, file: Path, number: int, *, whole: bool, objects: bool) -> int | float:
    try:
        # Decoded here: from bytes with zeros in them json guesses UTF-16.
        pairs, real = STRICT["object_pairs_hook"], _whole_or_real if whole else float
        value = json.loads(line.decode(), object_pairs_hook=pairs, parse_float=real)
    # Not UTF-8, not JSON, a key twice, or absurdly deep.
    except (ValueError, RecursionError) as error:
        if by_handler(error):
            raise
        value = _as_in_a_cell(line, whole=whole)
    if objects and isinstance(value, dict):
        value = value.get("index")
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        got = line[:40].decode(errors="replace")
        expected = "an integer" if whole else "a number"
        if objects:
            expected += ', or an object with an "index"'
        raise SourceError(f"expected {expected}, got {got!r}", file, f"line {number}")
    return value


def _whole_or_real(text: str) -> int | float:
    """Give a number with a point or an exponent as the integer that it is exactly; else as float.

    >>> _whole_or_real("9007199254740993.0"), _whole_or_real("1e-400"), _whole_or_real("2.50e1")
    (9007199254740993, 0.0, 25)
    """
    from decimal import Decimal, InvalidOperation  # imported when it is asked for

    try:
        number = Decimal(text.strip())
    except InvalidOperation as error:  # the exponent has some twenty digits
        if by_handler(error):
            raise
        return float(text)
    # No list has longer ones, and `int` of 1e999999 would take long.
    short = not number or number.adjusted() < _MOST_DIGITS
    whole = short and number == number.to_integral_value()
    return int(number) if whole else float(number)


def _as_in_a_cell(line: bytes, *, whole: bool) -> int | float | None:
    """Give what a line is as a number in csv files, though not in JSON; None if it is none."""
    if not _NUMBER.fullmatch(line):
        return None
    try:
        if not re.search(rb"[.eE]", line):
            return int(line)
        return _whole_or_real(line.decode()) if whole else float(line)
    except ValueError as error:  # too many digits
        if by_handler(error):
            raise
        return None
