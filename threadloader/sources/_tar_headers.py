"""The headers of a tar archive, read one after the other, with mistrust.

Python's own `tarfile` ends without a word where an archive is cut between members or
lacks its end; here every archive ends with two blocks of zeros and nothing but zeros
after them, and anything else is an error with its offset.

Formats: ustar, pax (``path``, ``size``) and GNU (long names, sizes above 8 GiB), as
"pax interchange format" of POSIX.1-2001 and the manual of GNU tar describe them. Folders
are passed over. Links, devices, sparse files and parts of files on several volumes are
errors, since a sample would be missing without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import SourceError, by_handler
from ._files import FileReader

__all__ = ["Member", "members"]

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_WINDOW = 8 * _BLOCK
"""Bytes read at once: headers of small members come together, and few bytes of large ones."""

_LONGEST = 1 << 20
"""Bytes of a long name or of pax records. Chosen: no system has names as long."""

_DAMAGED = "copy the archive again, or make it again"

# How compressed files begin. In UTF-8 no name of a first member does, but for "BZh91AY&SY".
_PACKERS = {
    re.compile(rb"\x1f\x8b"): ("gzip", "gunzip"),
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): ("bzip2", "bunzip2"),
    re.compile(rb"\xfd7zXZ"): ("xz", "unxz"),
    re.compile(rb"\x28\xb5\x2f\xfd"): ("zstd", "unzstd"),
}

# What is not a file or a folder, and what makes an archive without it.
_REFUSED = {
    b"1": ("a hard link", "pack with --hard-dereference"),
    b"2": ("a symbolic link", "pack with --dereference"),
    b"3": ("a device", "leave it out"),
    b"4": ("a device", "leave it out"),
    b"6": ("a pipe", "leave it out"),
    b"S": ("a sparse file", "pack without --sparse"),
    b"M": ("a part of a file", "pack without --multi-volume"),
}

_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")
_RECORD = re.compile(rb"([1-9][0-9]{0,6}) ([^=]+)=")


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its path there, the byte at which it begins, and how many it has."""

    name: str
    offset: int
    size: int


class _Entry(NamedTuple):
    """What the headers of a member say: its type, its path, where it begins, how long it is."""

    kind: bytes
    name: bytes
    begin: int
    length: int


def members(reader: FileReader) -> Iterator[Member]:
    """Give the files of an archive, in their order.

    An archive that is cut, damaged, compressed, or holds what is refused is a SourceError.
    """
    return _Walk(reader).members()


class _Walk:
    """One walk from the first header to the end."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._window = b""
        self._begin = 0  # of the window

    def _fault(self, message: str, at: int) -> SourceError:
        return SourceError(message, self._reader.path, f"byte {at}")

    def _block(self, at: int) -> bytes:
        inside = at - self._begin
        if not 0 <= inside <= len(self._window) - _BLOCK:
            if at + _BLOCK > self._reader.size:
                raise self._fault(
                    f"expected a header or the end of the archive, {_BLOCK} bytes, got "
                    f"{max(self._reader.size - at, 0)}: it has been cut; {_DAMAGED}",
                    at,
                )
            self._begin, inside = at, 0
            self._window = self._reader.read(at, min(_WINDOW, self._reader.size - at))
        return self._window[inside : inside + _BLOCK]

    def _check_plain(self) -> None:
        begin = self._reader.read(0, min(_BLOCK, self._reader.size))
        for magic, (name, command) in _PACKERS.items():
            if magic.match(begin):
                raise self._fault(
                    f"expected a tar archive that is not compressed, got {name}, of which no "
                    f"part can be read by itself; unpack it: {command} {self._reader.path.name}",
                    0,
                )

    def members(self) -> Iterator[Member]:
        self._check_plain()
        at = 0
        while (entry := self._entry(at)) is not None:
            start, at = at, entry.begin
            if entry.kind in (b"5", b"V") or (entry.kind == b"\0" and entry.name.endswith(b"/")):
                continue  # whatever size it announces, nothing follows it
            at += _in_blocks(entry.length)
            if entry.kind != b"D":  # a folder of an incremental archive, with a list of its files
                yield self._file(entry, start)

    def _entry(self, start: int) -> _Entry | None:
        """Read the headers from `start` to a member's own; give what they say together.

        Before a member's own header there may be headers with a long name or pax records. None:
        the archive ends here.
        """
        at, name, size = start, None, None
        while True:
            block = self._block(at)
            if block == _ZEROS:
                if at > start:
                    raise self._fault(f"expected a member, got the end; {_DAMAGED}", at)
                self._check_end(at + _BLOCK)
                return None
            kind, length = self._header(block, at)
            begin = at + _BLOCK
            if kind not in (b"L", b"K", b"x", b"g"):
                length = length if size is None else self._number(size, begin)
                return _Entry(kind, self._name(block) if name is None else name, begin, length)
            at = begin + _in_blocks(length)
            data = self._extra(begin, length)
            if kind == b"L":
                name = data.partition(b"\0")[0]
            elif kind == b"x":
                records = self._records(data, begin)
                name = records.get(b"path") or name
                size = records.get(b"size", size)
            elif kind == b"g" and self._records(data, begin).keys() & {b"path", b"size"}:
                raise self._fault(
                    f"expected a path and a size for each member, got one for all; {_DAMAGED}",
                    begin,
                )

    def _file(self, entry: _Entry, start: int) -> Member:
        """Give the file that a member is; refuse one that is none, or that has been cut."""
        kind, name, begin, length = entry
        shown = name.decode("utf-8", "backslashreplace")
        if kind not in (b"0", b"\0", b"7"):
            what, advice = _REFUSED.get(kind, (f"one of type {kind!r}", "leave it out"))
            raise self._fault(f"expected files, got {what}, {shown!r}; {advice}", start)
        if begin + length > self._reader.size:
            raise self._fault(
                f"expected {length} bytes of {shown!r}, got {self._reader.size - begin}: "
                f"the archive has been cut; {_DAMAGED}",
                begin,
            )
        try:
            return Member(name.decode("utf-8"), begin, length)
        except UnicodeDecodeError as error:
            if by_handler(error):
                raise
            raise self._fault(
                f"expected a name in UTF-8, got {shown!r}; rename it", start
            ) from error

    def _check_end(self, at: int) -> None:
        """Refuse an end that is not a second block of zeros, with nothing but zeros behind it."""
        if self._block(at) != _ZEROS:
            text = f"expected a second block of zeros as the end, got another; {_DAMAGED}"
            raise self._fault(text, at)
        while at < self._reader.size:
            rest = self._reader.read(at, min(_LONGEST, self._reader.size - at))
            if rest.strip(b"\0"):
                raise self._fault(
                    "expected nothing after the end of the archive, got more; give archives that "
                    "were joined as several files in a list, not as one file",
                    at + len(rest) - len(rest.lstrip(b"\0")),
                )
            at += len(rest)

    def _header(self, block: bytes, at: int) -> tuple[bytes, int]:
        """Give type and size of a header, once its checksum has been found right."""
        match = _OCTAL.fullmatch(block[148:156])
        stated = int(match[1], 8) if match else -1
        bare = block[:148] + b" " * 8 + block[156:]
        # Some old systems added up signed bytes.
        if stated != sum(bare) and stated != sum(bare) - 256 * sum(byte > 127 for byte in bare):
            raise self._fault(
                "expected a tar header that matches its checksum, got one that does not; "
                f"{_DAMAGED}",
                at,
            )
        field = block[124:136]
        if field[0] == 0x80:  # GNU: a binary number, where octal digits do not reach
            return block[156:157], int.from_bytes(field[1:], "big")
        match = _OCTAL.fullmatch(field)
        if not match and field.strip(b" \0"):
            raise self._fault(f"expected a size, got {field!r}; {_DAMAGED}", at)
        return block[156:157], int(match[1], 8) if match else 0

    @staticmethod
    def _name(block: bytes) -> bytes:
        name = block[:100].partition(b"\0")[0]
        prefix = block[345:500].partition(b"\0")[0]
        # GNU's own format ("ustar  ") has times in place of the prefix.
        return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name

    def _extra(self, begin: int, length: int) -> bytes:
        if length > _LONGEST or begin + length > self._reader.size:
            raise self._fault(
                f"expected a long name or pax records of at most {_LONGEST} bytes inside "
                f"the archive, got {length}; {_DAMAGED}",
                begin,
            )
        return self._reader.read(begin, length)

    def _records(self, data: bytes, begin: int) -> dict[bytes, bytes]:
        """Give the records of a pax header: each its length, a key, ``=``, a value, a line end."""
        records = {}
        at = 0
        while at < len(data):
            match = _RECORD.match(data, at)
            end = at + int(match[1]) if match else 0
            if not match or end > len(data) or match.end() >= end or data[end - 1 : end] != b"\n":
                raise self._fault(
                    f"expected a pax record, got {data[at : at + 40]!r}; {_DAMAGED}", begin + at
                )
            if match[2].startswith(b"GNU.sparse."):
                raise self._fault("expected files, got a sparse file; pack without --sparse", begin)
            records[match[2]] = data[match.end() : end - 1]
            at = end
        return records

    def _number(self, digits: bytes, begin: int) -> int:
        if not digits.isdigit() or len(digits) > 18:
            raise self._fault(f"expected a size, got {digits[:40]!r}; {_DAMAGED}", begin)
        return int(digits)


def _in_blocks(length: int) -> int:
    """Give how many bytes of whole blocks a content takes."""
    return -(-length // _BLOCK) * _BLOCK
