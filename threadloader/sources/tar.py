"""Samples in tar archives, each of several members, as WebDataset writes them.

The rules:

- A member's name is split at the first dot of its last part: ``a/7.seg.png`` belongs to the
  sample ``a/7`` and is its field ``seg.png``, in lower case. A ``./`` at the start of a name
  does not count.
- The members of a sample need not stand side by side, but in one archive; samples are in
  the order of their first members, archives in the order given.
- All samples have the same fields, or at least those of ``fields``.
- Folders, and files whose own name begins with a dot, are passed over. So is what WebDataset
  reserves, at the top: a file ``__meta__``, and all in a folder of such a name. A file without a
  dot, a name twice, an absolute name and one with ``..`` are errors; so are links, devices
  and sparse files, and an archive that is cut, damaged or compressed (`_tar_headers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError
from ._closing import close_all
from ._decode import Decoders, apply, decoder_of, image_options
from ._fields import chosen_fields, in_pointer, near
from ._files import FileReader, kept_open
from ._fingerprint import sha256
from ._named import named_files
from ._progress import ProgressLog
from ._row_numbers import part_of
from ._tar_headers import members

__all__ = ["KEY", "TarSource", "open_tar"]

KEY = "__key__"
"""The field with the key of a sample: what its members have in common."""

DECODE = {"cls": "int", "json": "json", "npy": "npy", "text": "text", "txt": "text"}
"""How members are decoded, by what follows the last dot; all others are bytes."""


def open_tar(
    spec: Mapping[str, Any], base: Path, root: Path | None = None, decoders: Decoders | None = None
) -> TarSource:
    """Open ``{"type": "tar", "path": names or patterns, "fields": null, "decode": {}}``."""
    return TarSource(
        named_files(spec, base, root),
        spec.get("fields"),
        spec.get("decode"),
        decoders=decoders,
        image=image_options(spec),
    )


class TarSource:
    """Samples are dicts: ``"__key__"`` and a value for each field.

    An index (16 bytes for each member, and the keys) is made at opening, from the headers alone.

    Args:
        paths: the archives, at least one.
        fields: the fields that make a sample; None for those of the first sample, which
            all others must have too, and no more.
        decode: how members are decoded, by their field (``seg.png``) or by what follows
            its last dot (``png``); those that it does not name, as `DECODE` says.
        decoders: makes the decoders that need a package.
        image: the options of images, as `image_options` gives them.

    Attributes:
        fields: the fields of a sample, in the order given or sorted.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        fields: Iterable[str] | None = None,
        decode: Mapping[str, str] | None = None,
        *,
        decoders: Decoders | None = None,
        image: Mapping[str, Any] | None = None,
    ) -> None:
        names = chosen_fields(fields, "those of the first sample")
        chosen = None if names is None else tuple(names)
        files = list(paths)
        self._archives: list[_Archive] = []
        most = kept_open()
        with ExitStack() as undo:
            for path in files:
                reader = FileReader(path)
                undo.callback(reader.close)
                archive = _Archive(reader, chosen, exact=fields is None)
                chosen = chosen or archive.fields
                if len(self._archives) >= most:
                    archive.let_go()
                self._archives.append(archive)
            self._firsts = [0, *accumulate(len(archive.keys) for archive in self._archives)]
            if chosen is None or not self._firsts[-1]:
                raise SourceError("expected at least one sample, got none; pack it again", files[0])
            self.fields = chosen
            kinds = self._kinds(decode or {}, chosen)
            made = [decoder_of(kind, decoders, image or {}) for kind in kinds]
            self._decoders = [decoder for decoder, _ in made]
            self._fingerprint = self._summed([said for _, said in made])
            undo.pop_all()

    def _kinds(self, decode: Mapping[str, str], fields: Sequence[str]) -> list[str]:
        rules = {**DECODE, **decode}
        parts = [(field, field.rpartition(".")[2]) for field in fields]
        kinds = [rules.get(field, rules.get(last, "bytes")) for field, last in parts]
        for name in decode:
            if not any(name in each for each in parts):
                pointer = f"/source/decode/{in_pointer(name)}"
                expected = "a field, or what follows the last dot of one"
                hint = f"{near(name, fields)}; all in lower case, without the dot before it"
                raise ConfigError(Problem(pointer, expected, repr(name), hint))
        return kinds

    def _summed(self, said: Sequence[str]) -> str:
        digest = sha256()
        for archive in self._archives:
            for key in archive.keys:
                digest.update(key.encode() + b"\0")
            digest.update(np.ascontiguousarray(archive.spans[:, :, 1], "<i8").tobytes())
        fields = ", ".join(f"{name} {kind}" for name, kind in zip(self.fields, said, strict=True))
        sizes = "+".join(str(archive.reader.size) for archive in self._archives)
        return f"tar, {len(self)} samples, {fields}, {sizes} bytes, sha256 {digest.hexdigest()}"

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Give one sample: its key, a str, and its fields, each as its decoder gives it."""
        archive, row = self._find(index)
        key, reader = archive.keys[row], archive.reader
        sample: dict[str, Any] = {KEY: key}
        spans = archive.spans[row].tolist()
        for field, decoder, (offset, size) in zip(self.fields, self._decoders, spans, strict=True):
            data = reader.read(offset, size)
            place = f"member {f'{key}.{field}'!r}, byte {offset}"
            sample[field] = apply(decoder, data, reader.path, place)
        return sample

    def locate(self, index: int) -> str:
        """Say where a sample stands: the archive, its key, and where its first field begins."""
        archive, row = self._find(index)
        return f"{archive.reader.path}: {archive.keys[row]!r}, byte {int(archive.spans[row, 0, 0])}"

    def _find(self, index: int) -> tuple[_Archive, int]:
        at, row = part_of(index, self._firsts)
        return self._archives[at], row

    def fingerprint(self) -> str:
        """Tell this data from other data: number, fields, sizes, checksum of keys and sizes."""
        return self._fingerprint

    def close(self) -> None:
        """Close the archives; a second time does nothing."""
        close_all([archive.reader.close for archive in self._archives])


class _Archive:
    """The index of one archive.

    Attributes:
        keys: of all samples, in their order.
        fields: those of each sample; None without a sample.
        spans: int64, ``(samples, fields, 2)``: offset and size of each member.
    """

    def __init__(self, reader: FileReader, fields: tuple[str, ...] | None, *, exact: bool) -> None:
        self.reader = reader
        found = self._grouped()
        self.keys = list(found)
        if fields is None and found:
            fields = tuple(sorted(found[self.keys[0]]))
        self.fields = fields
        spans = [self._spans(key, found[key], fields or (), exact) for key in self.keys]
        self.spans: npt.NDArray[np.int64] = np.array(spans, np.int64).reshape(
            len(spans), len(fields or ()), 2
        )

    def let_go(self) -> None:
        """Hold the file open no longer: it is opened for each read from now on."""
        again = FileReader(self.reader.path, keep=False)
        # The first reader still has its file open, so that no other file can get its inode.
        if again.size != self.reader.size or not self.reader.same_file(again):
            raise SourceError(
                "expected a file at rest, got one that grows, shrinks or was replaced; "
                "open it when nobody writes to it",
                again.path,
            )
        self.reader.close()
        self.reader = again

    def _fault(self, message: str, key: str, at: int) -> SourceError:
        return SourceError(message, self.reader.path, f"{key!r}, byte {at}")

    def _grouped(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Give offset and size of each member, by key and field."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        progress = ProgressLog()
        for member in members(self.reader):
            key, field = self._parted(member.name, member.offset)
            if not field:
                continue
            fields = found.setdefault(key, {})
            if field in fields:
                raise self._fault(
                    f"expected each field once, got {field!r} again; the first is at byte "
                    f"{fields[field][0]}; pack the archive again",
                    key,
                    member.offset,
                )
            fields[field] = member.offset, member.size
            done = 100 * member.offset // self.reader.size
            progress.tell("%s: %d samples found, %d%%", self.reader.path, len(found), done)
        return found

    def _parted(self, name: str, at: int) -> tuple[str, str]:
        """Give key and field of a member's name; an empty field where it is passed over."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or not parts:
            message = 'expected a name inside the archive, without ".."; pack it from its folder'
            raise self._fault(message, name, at)
        *folders, last = parts
        reserved = parts[0].startswith("__") and parts[0].endswith("__") and len(parts[0]) > 3
        if last.startswith(".") or reserved:
            return "", ""
        stem, _, field = last.partition(".")
        if field.lower() == KEY:
            text = f"expected another field than {KEY!r}, which is the sample's name; rename it"
            raise self._fault(text, name, at)
        if not field:
            raise self._fault(
                "expected a name with a field after its first dot, as in 0001.png; leave the "
                "file out of the archive",
                name,
                at,
            )
        return "/".join([*folders, stem]), field.lower()

    def _spans(
        self, key: str, found: Mapping[str, tuple[int, int]], fields: Sequence[str], exact: bool
    ) -> list[tuple[int, int]]:
        if not found.keys() >= set(fields) or (exact and len(found) != len(fields)):
            wanted, got = (", ".join(map(repr, names)) for names in (fields, sorted(found)))
            raise self._fault(
                f"expected the fields {wanted}, got {got}; "
                'choose fields that every sample has with "fields"',
                key,
                next(iter(found.values()))[0],
            )
        return [found[field] for field in fields]
