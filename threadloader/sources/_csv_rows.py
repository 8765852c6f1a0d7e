r"""The rows of a csv file, read in blocks, each character accounted for.

The rules: the text is UTF-8; a byte order mark at its start is left out. Rows end with LF
or CR LF; the last one may end with the file. A field either begins with a quote and ends
with the next one that is not doubled, holding delimiters and line ends as they are and
doubled quotes as one; or it has no quote, no CR and no LF in it at all. White space belongs
to the field. Every row has as many fields as the first. An empty line is a row of one empty
field, unless blank lines are left out. Anything else is an error, which names the line in
which the row, or the field, begins; of bytes that are no UTF-8, the line they are in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import SourceError, by_handler
from ._csv_options import CsvOptions
from ._files import FileReader
from ._line_scan import first_byte, tell
from ._open_file import not_utf8
from ._progress import ProgressLog

__all__ = ["Block", "read_blocks"]


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows that follow one another."""

    cells: list[str]  # the rows' fields, row by row; column c of n is ``cells[c::n]``
    lines: Sequence[int]  # the line in which each row begins, from 1


def read_blocks(
    reader: FileReader, options: CsvOptions, chunk: int
) -> Iterator[tuple[Block, list[str] | None]]:
    """Read a file to its end, ``chunk`` bytes at a time; a row that is longer is read whole.

    Yields:
        The rows, and the first row of the file: the header if there is one. Without a header
        that row is also the first of the first block. A file without any row, or with no
        more than a header, gives one block of no rows.
    """
    rows = _Rows(reader, options)
    at, left = first_byte(reader), b""
    given = False
    progress = ProgressLog()
    while at < reader.size or left:
        # At least as much as is left over: else a long row would be parsed again at each chunk.
        raw = reader.read(at, min(max(chunk, len(left)), reader.size - at))
        at += len(raw)
        data, last = left + raw, at == reader.size
        cut = len(data) if last else data.rfind(b"\n") + 1
        text = rows.decoded(data[:cut])
        block, used = rows.parse(text, last=last)
        left = text[used:].encode() + data[cut:]
        if block.cells:
            given = True
            yield block, rows.first
        tell(progress, reader, "read rows", at)
    if not given:
        yield Block([], []), rows.first


class _Rows:
    """Takes rows from the text of a file, piece after piece; ``first`` is the file's first row."""

    def __init__(self, reader: FileReader, options: CsvOptions) -> None:
        self._path = reader.path
        self._options = options
        self._line = 1  # the line in which the next row begins
        self.first: list[str] | None = None
        delimiter, quote = re.escape(options.delimiter), re.escape(options.quote)
        # All repeats are possessive: what one has matched is never tried again.
        plain = rf"([^{quote}{delimiter}\r\n]*+)"
        self._plain = re.compile(plain)
        quoted = rf"{quote}([^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+){quote}|"
        self._field = re.compile(
            rf"(?:{quoted if quote else '(?!)()|'}{plain})({delimiter}|\r?\n|\Z)"
        )

    def _fault(self, message: str, line: int) -> SourceError:
        return SourceError(message, self._path, f"line {line}")

    def decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if by_handler(error):
                raise
            raise self._fault(
                not_utf8(self._path, error), self._line + data.count(b"\n", 0, error.start)
            ) from error

    def parse(self, text: str, *, last: bool) -> tuple[Block, int]:
        """Take the rows of a piece of text that ends with a line, and perhaps with the file.

        Returns:
            The rows, and how many characters they take. What follows is the beginning of a
            row that goes on in the next piece.
        """
        if self.first is None:
            cells: list[str] = []
            lines: list[int] = []
            used = self._slowly(text, 0, cells, lines, last=last, rows=1)
            if not cells:
                return Block([], []), used
            self.first = list(cells)
            if self._options.header:
                cells, lines = [], []
        else:
            cells, lines, used = [], [], 0
        block = None if cells or used == len(text) else self._quickly(text[used:])
        if block is not None:
            return block, len(text)
        used = self._slowly(text, used, cells, lines, last=last)
        return Block(cells, lines), used

    def _quickly(self, text: str) -> Block | None:
        """Take all rows of a text that has no quotes, and nothing but plain rows.

        The block is the one that `_slowly` makes. None: the text is not like that.
        """
        quote, delimiter = self._options.quote, self._options.delimiter
        if (quote and quote in text) or self.first is None:
            return None
        if "\r" in text:
            if text.count("\r") != text.count("\r\n"):
                return None
            text = text.replace("\r\n", "\n")
        text = text.removesuffix("\n")
        lines = text.split("\n")
        if self._options.skip_blank and len(self.first) == 1 and not all(map(str.strip, lines)):
            return None
        if {line.count(delimiter) for line in lines} != {len(self.first) - 1}:
            return None
        if self._is_header(self.first) and delimiter.join(self.first) in lines:
            return None
        first = self._line
        self._line += len(lines)
        return Block(text.replace("\n", delimiter).split(delimiter), range(first, self._line))

    def _is_header(self, row: list[str]) -> bool:
        """Tell whether a later row is the header again.

        In a file of one column, such a row may well be a value.
        """
        return self._options.header and len(row) > 1 and row == self.first

    def _slowly(
        self,
        text: str,
        at: int,
        cells: list[str],
        lines: list[int],
        *,
        last: bool,
        rows: int | None = None,
    ) -> int:
        """Add row after row to cells and lines, at most ``rows``; give where the next begins."""
        while at < len(text) and rows != 0:
            row, end = self._row(text, at, last=last)
            if row is None:
                break
            line, self._line = self._line, self._line + text.count("\n", at, end)
            begin, at = at, end
            if self._options.skip_blank and len(row) == 1 and not text[begin:end].strip():
                continue
            if self.first is not None:
                if len(row) != len(self.first):
                    raise self._fault(self._ragged(row), line)
                if self._is_header(row):
                    raise self._fault(
                        "expected values, got the names of the columns again; remove this line "
                        "(files that were joined have it)",
                        line,
                    )
            cells += row
            lines.append(line)
            rows = rows and rows - 1
        return at

    def _ragged(self, row: list[str]) -> str:
        expected = f"expected {len(self.first or ())} fields, as in the first row, got {len(row)}"
        if not "".join(row).strip():
            # A blank row that has delimiters is no blank line.
            hint = '"skip_blank": true leaves blank lines out' if len(row) == 1 else "remove it"
            return f"{expected}, all blank; {hint}"
        if not "".join(self.first or ()).strip():
            return f'{expected}; the first row is blank: remove it, or set "skip_blank" to true'
        return f'{expected}; correct the line, or the options "delimiter" and "quote"'

    def _row(self, text: str, at: int, *, last: bool) -> tuple[list[str] | None, int]:
        """Give one row and where the next begins; None for a row that goes on in the next piece."""
        begin, row = at, []
        while True:
            match = self._field.match(text, at)
            if match is None:
                self._refuse(text, begin, at, last=last)
                return None, begin
            quoted, plain, end = match.groups()
            if quoted is None:
                row.append(plain)
            else:
                quote = self._options.quote
                row.append(quoted.replace(quote + quote, quote) if quote in quoted else quoted)
            at = match.end()
            if end != self._options.delimiter:
                return row, at

    def _refuse(self, text: str, begin: int, at: int, *, last: bool) -> None:
        """Raise what is wrong with the field at ``at``, unless it goes on in the next piece."""
        line = self._line + text.count("\n", begin, at)
        quote = self._options.quote
        alone = "expected LF or CR LF at the end of a line, got a CR alone; "
        if not quote or text[at] != quote:
            stop = self._plain.match(text, at)
            if stop and text.startswith("\r", stop.end()):
                hint = "put quotes around the field, or convert the line ends"
                raise self._fault(alone + (hint if quote else "convert the line ends"), line)
            raise self._fault(
                f"expected a field without quotes, or one with quotes around it, got {quote} "
                f"inside {text[at : at + 40]!r}; put quotes around it and double those inside, "
                'or say "quote": null if quotes mean nothing, or what "delimiter" the file has, '
                f"if not {self._options.delimiter!r}",
                line,
            )
        end = at + 1
        while (end := text.find(quote, end)) >= 0 and text.startswith(quote, end + 1):
            end += 2
        if end >= 0 and text.startswith("\r", end + 1):
            raise self._fault(f"{alone}convert the line ends", line)
        if end >= 0:
            raise self._fault(
                f"expected {self._options.delimiter!r} or the end of the line after a field in "
                f"quotes, got {text[end + 1 : end + 21]!r} (the field begins in this line); double "
                "the quotes that are inside a field",
                line,
            )
        if last:
            raise self._fault(
                f"expected a closing {quote} for the field that begins in this line, got the end "
                "of the file; was it cut?",
                line,
            )
