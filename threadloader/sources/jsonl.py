r"""JSON Lines: each line of the files is a JSON value, and a sample.

What a line is, and how it is found, stands in `_lines`. What is not strict JSON in UTF-8
is an error when it is read, with file, line and byte, never left out: a key twice in an
object, ``NaN`` and infinities, numbers too large for a float, a blank line (unless
``skip_blank`` leaves those out), and the half of a line with which a file ends that was cut.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from ._dtypes import UnfitError, number_dtype, say, to_array
from ._fields import chosen_fields, near, unknown_fields
from ._lines import Line, LineFiles, line_options
from ._strict_json import STRICT

__all__ = ["JsonlSource", "open_jsonl"]

_ONE_A_LINE = "write one value a line, without line ends inside"

_DEEPEST = 32
"""Lists in each other that make one array: what every numpy can hold."""


def open_jsonl(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> JsonlSource:
    """Open ``{"type": "jsonl", "path": names or patterns, "fields": ..., "dtypes": {}}``.

    ``skip_blank`` and ``index`` are as for text.
    """
    shape = Shape(spec.get("fields"), spec.get("dtypes") or {})
    return JsonlSource(shape, **line_options(spec, base, root))


class Shape:
    """Which parts of a line's value make the sample, and in which dtypes.

    ``fields`` maps a field of the sample to a key of the line's object; or is a list of keys, each
    a field of the same name; None for the value as it is. ``dtypes`` maps a field to its dtype: a
    number, a bool, or a list of such (perhaps in lists of equal length) becomes a numpy scalar or
    array of it, as by `to_array`. Options that do not fit together are a ConfigError.
    """

    def __init__(
        self,
        fields: Iterable[str] | Mapping[str, str] | None = None,
        dtypes: Mapping[str, str] | None = None,
    ) -> None:
        self._fields: dict[str, str] | None = chosen_fields(fields, "the whole value")
        if self._fields is not None:
            problems = unknown_fields("dtypes", dtypes or (), self._fields)
            if problems:
                raise ConfigError(problems)
        self._dtypes = {field: number_dtype(name) for field, name in (dtypes or {}).items()}

    def sample(self, line: Line, value: Any) -> Any:
        """Make a sample of a line's value.

        A value that is no object, lacks a field, or has one that its dtype cannot hold: a
        SourceError.
        """
        if self._fields is None and not self._dtypes:
            return value
        if type(value) is not dict:
            raise line.error(
                f"expected an object, of which fields are taken, got {say(value)}; write one, or "
                'leave "fields" and "dtypes" out'
            )
        sample = value
        if self._fields is not None:
            for key in self._fields.values():
                if key not in value:
                    raise line.error(_missing(key, value))
            sample = {field: value[key] for field, key in self._fields.items()}
        for field, dtype in self._dtypes.items():
            if field not in sample:
                raise line.error(_missing(field, value))
            try:
                sample[field] = _exact(sample[field], dtype)
            except UnfitError as error:
                hint = "correct the line, or choose another dtype"
                if error.got.startswith(say(None)):  # null, and not a text, which is called one
                    hint = 'leave the field out of "dtypes", and replace None in the transform'
                raise line.error(f"field {field!r}: {error}; {hint}") from None
        return sample

    def __str__(self) -> str:
        parts = [] if self._fields is None else [f", fields {json.dumps(self._fields)}"]
        if self._dtypes:
            names = {field: str(dtype) for field, dtype in self._dtypes.items()}
            parts.append(f", dtypes {json.dumps(names, sort_keys=True)}")
        return "".join(parts)


class JsonlSource(LineFiles):
    """Samples are the JSON values of lines; see `LineFiles`.

    Objects are dicts, arrays lists, and the rest str, int, float, bool and None, as
    Python's `json` gives them. `shape` says what of a line's value makes the sample.
    """

    def __init__(self, shape: Shape, paths: Iterable[Path], **options: Any) -> None:
        self._shape = shape
        self._decoders = _Decoders()
        super().__init__(paths, **options)

    def __getitem__(self, index: int) -> Any:
        """Give the value of one line, newly made; with ``fields`` a dict of them, in order."""
        line = self.line(index)
        return self._shape.sample(line, self._parsed(line))

    def _parsed(self, line: Line) -> Any:
        text = line.text()
        try:
            return self._decoders.strict.decode(text)
        except json.JSONDecodeError as error:
            if not text or text.isspace():
                hint = '"skip_blank": true leaves blank lines out'
                raise line.error(f"expected a JSON value, got a blank line; {hint}") from error
            at = len(text[: error.pos].encode())
            rest = text[error.pos : error.pos + 20]
            got = repr(rest) if rest else "the end of the line"
            if rest[:1] in ("}", "]") and not text[: error.pos].strip():
                hint = _ONE_A_LINE  # this line ends a value that is spread over several
            elif not line.ended:
                hint = "the file ends in this line: was it cut? copy it again"
            elif not rest or error.msg == "Extra data":
                hint = _ONE_A_LINE
            elif rest[0] == "'":
                hint = "strings and keys stand in double quotes"
            else:
                hint = "correct the line"
            raise line.error(f"expected JSON ({error.msg}), got {got}; {hint}", at) from error
        except RecursionError as error:
            message = "expected JSON, got lists and objects nested too deeply; correct the line"
            raise line.error(message) from error
        except ValueError as error:
            if "integer string conversion" in str(error):
                got = "an integer of more digits than Python reads; write it as a text"
                raise line.error(f"expected JSON, got {got}") from error
            raise line.error(f"expected strict JSON, got {error}; correct the line") from error

    def fingerprint(self) -> str:
        """Tell this data from other data: number of lines, sizes in bytes, the options."""
        return f"jsonl, {super().fingerprint()}{self._shape}"


class _Decoders(threading.local):
    """A decoder for each thread: a decoder has state while it decodes."""

    def __init__(self) -> None:
        self.strict = json.JSONDecoder(**STRICT)


def _exact(value: Any, dtype: np.dtype[Any]) -> Any:
    """Make a numpy scalar of a number, or an array of lists of equal length."""
    shape: list[int] = []
    flat = [value]
    while flat and type(flat[0]) is list and set(map(type, flat)) == {list}:
        lengths = set(map(len, flat))
        if len(lengths) > 1:
            one = len(flat[0])
            other = next(length for length in map(len, flat) if length != one)
            raise UnfitError("lists of equal length in it", f"lengths {one} and {other}")
        if len(shape) == _DEEPEST:
            raise UnfitError(f"at most {_DEEPEST} lists in each other", "more")
        shape.append(lengths.pop())
        flat = list(chain.from_iterable(flat))
    try:
        array = to_array(flat, dtype)
    except UnfitError as error:
        if not shape:
            raise
        place = "".join(f"[{at}]" for at in np.unravel_index(error.row, shape))
        raise UnfitError(error.expected, f"{error.got} at {place}") from None
    # Without a list, the one item: a numpy scalar.
    return array.reshape(shape) if shape else array[0]


def _missing(key: str, value: Mapping[str, Any]) -> str:
    return f"expected an object with {key!r}, got one without it: {near(key, value)}"
