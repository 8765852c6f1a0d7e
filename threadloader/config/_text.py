r"""Strict JSON, with comments, and the place of every value in it.

The grammar is that of RFC 8259 plus ``//`` comments, to the end of the line, and ``/* */``
comments, which do not nest. Beyond the grammar these are refused: a key that comes twice in one
object, NaN and infinities, numbers too large for a float, integers of more than 4,300 digits, lone
surrogates, commas before a closing bracket, nesting deeper than 64, texts larger than 4 MiB.

Bytes are UTF-8. A byte order mark at the very start is skipped, in bytes and in strings alike
(editors on Windows write it); elsewhere, but in strings and comments, it is refused. A line ends
with LF, CR LF or CR; columns count characters from 1. Reading takes time linear in the text.

>>> document = parse('{"seed": 7} // as last time')
>>> document.value, document.place(("seed",)), document.place(("seed",), at_key=True)
({'seed': 7}, (1, 10), (1, 2))
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from math import isfinite
from typing import Any, NoReturn

from .._schema import Place, pointer, show
from ..errors import ConfigError, Problem, by_handler
from ._file import DEEPEST, LARGEST_TEXT, Document, Spot, half_in

__all__ = ["parse"]

_LONGEST_INTEGER = 4300  # digits: what Python itself converts by default
_SHORT_INTEGER = 640  # digits: no process can set a shorter limit
_MOST_PROBLEMS = 100  # reading stops at the next one

# No pattern goes back over what it has read: a character class is possessive, and `_end_of_all`
# takes the pieces of blanks and strings one by one. No pattern repeats a group of them: CPython
# before 3.11.5 loses its place in a possessive group (gh-106052), and a greedy one keeps some
# hundred bytes for each repetition. They are texts, which `re` compiles at their first use and
# remembers: a config that is no file needs none of them.
_BLANK = r"[ \t\n\r]++|//[^\n\r]*+|/\*(?s:.*?)\*/"
_PIECE = r'[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_WORD = r"[-+.\w]++"
_NUMBER = r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)"
_ESCAPE = r"\\(?:u([dD][89abAB]..)\\u([dD][c-fC-F]..)|u(....)|(.))"  # a pair, one unit, a letter
_LINE_END = r"\r\n|\n|\r"

_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
_HINTS = {
    "'": "strings stand in double quotes",
    "#": "comments begin with // or stand between /* and */",
    "True": "write true",
    "False": "write false",
    "None": "write null",
}


def parse(text: bytes | str, file: str = "") -> Document:
    """Reads a JSON text.

    Args:
        text: the text, or its UTF-8 bytes.
        file: the name of the file, for messages.

    Returns:
        The document; see its ``problems``.

    Raises:
        ConfigError: a text that is not of the grammar, or that is too large or
            nested too deeply, or that has more than a hundred problems; with the problems
            found before that place.
    """
    if len(text) > LARGEST_TEXT:
        problem = Problem("", f"at most {LARGEST_TEXT} bytes", "more", line=1, column=1)
        raise ConfigError(problem, file)
    reader = _Reader(_decoded(text, file) if isinstance(text, bytes) else text, file)
    reader.skip()
    value, spot = reader.value()
    reader.skip()
    if reader.at < len(reader.text):
        reader.fail("the end of the text", hint="one value is all that a file holds")
    return Document(value, reader.problems, reader.refused, spot, reader.place)


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if by_handler(error):
            raise
        reader = _Reader(data[: error.start].decode(), file)
        reader.at = len(reader.text)
        got, hint = f"the byte 0x{data[error.start]:02x}", "save the file as UTF-8"
        # A zero is in no text but one of UTF-16, which begins with a mark or with "{" and a zero.
        if b"\0" in data[:512] and data[:2] not in (b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{"):
            hint = "this is no text; a config names data: "
            hint += '{"source": {"type": "npz", "path": "x.npz"}}'
        reader.fail("text in UTF-8", got, hint)


class _Reader:
    """Reads one text from left to right; ``at`` is where it stands."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text.removeprefix("\ufeff")
        self.file = file
        self.at = 0
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self.refused: set[Place] = set()
        self._lines: list[int] = []
        # Asked for once: a long list has many items.
        self._word_at = re.compile(_WORD).match
        self._number = re.compile(_NUMBER).fullmatch

    def place(self, at: int) -> tuple[int, int]:
        if not self._lines:
            self._lines = [0, *(match.end() for match in re.finditer(_LINE_END, self.text))]
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def note(self, at: int, expected: str, got: str, hint: str = "") -> None:
        """Notes what is wrong at ``at``; the reading goes on, but for one problem too many."""
        line, column = self.place(at)
        where = pointer(self.path)
        if more := len(self.problems) == _MOST_PROBLEMS:
            where, got = "", "more"
            expected = f"at most {_MOST_PROBLEMS} problems of the text"
            hint = "the text from here on was not read; repair those before it"
        self.problems.append(Problem(where, expected, got, hint, line, column))
        if more:
            raise ConfigError(self.problems, self.file)

    def refuse(self, at: int, expected: str, got: str) -> None:
        """Notes that there is no value, or no key, at this path."""
        self.refused.add(tuple(self.path))
        self.note(at, expected, got)

    def refuse_half_characters(self, at: int, text: str) -> None:
        if half := half_in(text):
            self.refuse(at, "whole characters", f"the lone surrogate {show(half)}")

    def fail(self, expected: str, got: str = "", hint: str = "") -> NoReturn:
        """Notes what is wrong where the reading stands, and ends it."""
        if not got:
            match = self._word_at(self.text, self.at)
            got = match[0] if match else self.text[self.at : self.at + 1]
            hint = _HINTS.get(got, hint)
            if self.text.startswith("/*", self.at):
                expected, hint, got = "a comment that ends", "close it with */", ""
            got = show(got) if got else "the end of the text"
        self.note(self.at, expected, got, hint)
        raise ConfigError(self.problems, self.file)

    def skip(self) -> str:
        """Passes over blanks and comments; gives the character after them."""
        following = self.text[self.at : self.at + 1]
        if following not in " \t\n\r/":  # as between most items of a long list
            return following
        self.at = _end_of_all(_BLANK, self.text, self.at)
        return self.text[self.at : self.at + 1]

    def value(self) -> tuple[Any, Spot]:
        start, first = self.at, self.text[self.at : self.at + 1]
        if first in ("{", "["):
            if len(self.path) == DEEPEST:
                self.fail(f"at most {DEEPEST} arrays and objects in one another", "one more")
            return self.object() if first == "{" else self.array()
        if first == '"':
            text = self.string()
            self.refuse_half_characters(start, text)
            return text, start
        match = self._word_at(self.text, start)
        word = match[0] if match else ""
        self.at = start + len(word)
        if word in _WORDS:
            return _WORDS[word], start
        if word in _NOT_FINITE:
            self.refuse(start, "a finite number", word)
            return None, start
        number = self._number(word)
        if number is None:
            self.at = start
            self.fail("a JSON value")
        return self.number(start, *number.groups()), start

    def number(self, start: int, whole: str, rest: str) -> int | float | None:
        if rest:
            number = float(whole + rest)
            if isfinite(number):
                return number
            self.refuse(start, "a number that fits a float, to 1.8e308", show(whole + rest))
            return None
        if len(whole) <= _SHORT_INTEGER:
            return int(whole)
        # A shorter limit that somebody set for the whole process holds here as well.
        most = min(_LONGEST_INTEGER, sys.get_int_max_str_digits() or _LONGEST_INTEGER)
        digits = len(whole.lstrip("-"))
        if digits <= most:
            return int(whole)
        self.refuse(start, f"an integer of at most {most} digits", f"one of {digits}")
        return None

    def string(self) -> str:
        start = self.at + 1
        self.at = _end_of_all(_PIECE, self.text, start)
        body, end = self.text[start : self.at], self.text[self.at : self.at + 1]
        if end == "\\":
            got = show(self.text[self.at : self.at + 6])
            self.fail(r"one of \" \\ \/ \b \f \n \r \t \uXXXX", got, r"a backslash is written \\")
        if end in ("", "\n", "\r"):
            self.at = start - 1
            self.fail("a string that ends on its line", show(body), 'close it with "')
        if end != '"':
            self.fail("no control character in a string", show(end), "write it as " + show(end))
        self.at += 1
        return re.sub(_ESCAPE, _unescaped, body) if "\\" in body else body

    def object(self) -> tuple[dict[str, Any], Spot]:
        start = self.at
        value: dict[str, Any] = {}
        spots: dict[str, tuple[int, Spot]] = {}
        self.at += 1
        following = self.skip()
        while following != "}":
            if following != '"':
                self.fail('a key in double quotes or "}"')
            key_at = self.at
            key = self.string()
            self.path.append(key)
            self.refuse_half_characters(key_at, key)
            again = key in value
            if again:
                line, column = self.place(spots[key][0])
                first = f"the first stands at {line}:{column}"
                self.note(key_at, "each key once", f"{show(key)} again", first)
            if self.skip() != ":":
                self.fail('":" after the key')
            self.at += 1
            self.skip()
            before = self.refused.copy() if again else None
            item, spot = self.value()
            if before is None:
                value[key], spots[key] = item, (key_at, spot)
            else:  # the first value stands, whatever this one is
                self.refused = before
            self.path.pop()
            following = self.comma(start, "}")
        self.at += 1
        return value, (start, spots)

    def array(self) -> tuple[list[Any], Spot]:
        start = self.at
        value: list[Any] = []
        spots: list[Spot] = []
        self.at += 1
        following = self.skip()
        while following != "]":
            self.path.append(len(value))
            item, spot = self.value()
            self.path.pop()
            value.append(item)
            spots.append(spot)
            following = self.comma(start, "]")
        self.at += 1
        return value, (start, spots)

    def comma(self, start: int, closing: str) -> str:
        """Passes over what stands between two items; gives the character after it."""
        following = self.skip()
        if following == ",":
            comma_at = self.at
            self.at += 1
            following = self.skip()
            if following == closing:
                self.note(
                    comma_at, "another item after the comma", show(closing), "take the comma away"
                )
        elif following != closing:
            line, column = self.place(start)
            opened = f"{show(self.text[start])} at {line}:{column} is not closed"
            self.fail(f'"," or "{closing}"', hint="" if following else opened)
        return following


def _end_of_all(pattern: str, text: str, at: int) -> int:
    """Where the last of the matches ends that follow one another from ``at`` on."""
    matches = re.compile(pattern).match
    while match := matches(text, at):
        at = match.end()
    return at


def _unescaped(escape: re.Match[str]) -> str:
    high, low, unit, letter = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    return chr(int(unit, 16)) if unit else _LETTERS.get(letter, letter)
