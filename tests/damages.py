"""Damage done to small files of every format, and what may come of it.

What may: the rows of the undamaged file, the rows that another reader finds in the damaged
bytes (`damage_kinds`), or an error of `threadloader.errors` that names the file. So a csv file
that is cut just between two rows gives the rows before the cut: nobody can notice that, and
what has no checksum (npy, tokens, csv, the contents of tar members, SQLite) may have other
values, which are then those that everybody reads.
"""

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from damage_kinds import KINDS, Kind

from threadloader.errors import LoaderError

SPARE = 1 << 30
"""Bytes of address space beside what there is: what a damaged file may make us ask for, and
far more than it should."""


def damaged(draw: Random, data: bytes) -> bytes:
    """Give bytes with one to three random damages."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        data = _once(draw, data)
    return data


def _once(draw: Random, data: bytes) -> bytes:
    # Half of all places are near the beginning, where headers are, or near the end.
    size = len(data)
    at = draw.choice([draw.randint(0, size), draw.randint(0, min(size, 128))])
    at = draw.choice([at, at, size - min(at, size)])
    to = min(size, at + draw.choice([1, 2, 4, 8, 64, 512]))
    kind = draw.randrange(11)
    if kind < 3 and at < size:  # a flipped bit
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 3:  # any bytes
        return data[:at] + draw.randbytes(to - at) + data[to:]
    if kind == 4:  # inserted, digits and marks among them
        new = draw.choice(
            [b"0", b"9", b'"', b"\n", b"\r", b",", b"-", b" ", b"\0", b"\xff", b"\xc3"]
        )
        return data[:at] + new * draw.choice([1, 1, 2, 9]) + data[at:]
    if kind == 5:  # lost
        return data[:at] + data[to:]
    if kind == 6:  # a block of zeros, as after a crash of the system
        return data[:at] + bytes(to - at) + data[to:]
    if kind == 7:  # cut
        return data[:at]
    if kind == 8:  # more behind the end
        more = [b"\0", b"\n", b"x", bytes(512), data, data[at:to], draw.randbytes(9)]
        return data + draw.choice(more)
    if kind == 9:  # two blocks in each other's place
        other = draw.randint(0, max(0, size - (to - at)))
        one, two = sorted([(at, to), (other, other + to - at)])
        if one[1] <= two[0]:
            parts = [data[: one[0]], data[slice(*two)], data[one[1] : two[0]]]
            return b"".join([*parts, data[slice(*one)], data[two[1] :]])
    # A number of a header, too large or negative, in one of the forms that numbers have.
    width = draw.choice([1, 2, 4, 8])
    number = draw.choice([2 ** (8 * width) - 1, 2 ** (8 * width - 1), 1 << 8 * width - 2, 0])
    end = draw.choice(["little", "big"])
    return data[:at] + number.to_bytes(width, end) + data[at + width :]


class Home:
    """One format: its file in a folder, damaged again and again."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        kind.make(folder)
        (self.file,) = folder.glob(kind.file)
        self.data = self.file.read_bytes()
        self.rows = kind.rows(folder)
        if kind.others is not None:
            assert kind.others(self.data) == self.rows, f"{kind.name}: the readers disagree"
        self.kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def look(self, data: bytes) -> str:
        """Read damaged bytes; give what came of it: "same", "others'" or "refused"."""
        if self.kind.name.startswith("cache"):  # its files come and go
            shutil.rmtree(self.folder / "kept")
            for path, kept in self.kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(kept)
        self.file.write_bytes(data)
        found, refused = None, None
        try:
            found = self.kind.rows(self.folder)
        except LoaderError as error:
            refused = str(error)
        if refused is not None:
            assert data != self.data, f"refused, though undamaged: {refused}"
            assert str(self.file) in refused, f"the file is not named: {refused}"
            return "refused"
        if self.kind.others is None:
            assert found == self.rows, f"other rows: {found}"
            return "same"
        try:
            others = self.kind.others(data)
        except Exception:  # whatever refuses it: the library did not
            others = self.rows
        assert others == found
        return "same" if found == self.rows else "others'"


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let no more than `SPARE` be taken: a header that lies is then a `MemoryError`.

    Where the system can do that (Linux); elsewhere it bounds nothing.
    """
    try:
        import resource  # not on Windows

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    bound = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (bound, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: a damaged index or cache is told of, each time."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def cuts(home: Home, step: int = 1) -> Iterator[bytes]:
    """Give the file cut at each byte."""
    return (home.data[:at] for at in range(0, len(home.data), step))


def at_random(home: Home, seed: int, numbers: range) -> Iterator[bytes]:
    """Give the file with the damages of some numbers."""
    return (damaged(Random(f"{home.kind.name}, {seed}, {at}"), home.data) for at in numbers)


def timed(home: Home, data: bytes) -> tuple[str, float]:
    """Look, and give the seconds that it took as well."""
    began = time.perf_counter()
    return home.look(data), time.perf_counter() - began


__all__ = ["KINDS", "Home", "at_random", "bounded_memory", "cuts", "damaged", "quiet", "timed"]
