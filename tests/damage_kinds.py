"""Small files of every format that is read, and what other readers say is in them.

A `Kind` makes its file, opens it as the library does, and reads it by other means (`csv`,
`json`, `tarfile`, `sqlite3`, numpy), so that the rows of a damaged file can be compared.
"""

import csv
import io
import json
import sqlite3
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from threadloader import Loader
from threadloader.cache import Folder
from threadloader.quarantine import is_torn
from threadloader.sources import open_source, read_numbers
from threadloader.state import read as read_state


@dataclass(frozen=True)
class Kind:
    """One format.

    Attributes:
        name: of the kind.
        file: the file that is damaged, below the folder.
        make: makes it, and what stands beside it, in a folder.
        rows: gives the rows as the library reads them.
        others: gives the rows of some bytes as another reader has them; raises for bytes that
            it refuses. None: rows are never other than those of the undamaged file.
    """

    name: str
    file: str
    make: Callable[[Path], None]
    rows: Callable[[Path], list[Any]]
    others: Callable[[bytes], list[Any]] | None


def plain(row: Any) -> Any:
    """Give a row as something that is equal only to what is the same, dtype and NaN included."""
    if isinstance(row, dict):
        return {name: plain(value) for name, value in row.items()}
    if isinstance(row, (list, tuple)):
        return [plain(value) for value in row]
    if isinstance(row, (np.ndarray, np.generic)):
        return np.asarray(row).dtype.str, np.shape(row), np.asarray(row).tobytes()
    return type(row).__name__, repr(row)


def source_rows(spec: dict[str, Any]) -> Callable[[Path], list[Any]]:
    """Give what reads a source, sample by sample, and as a batch where it can do that."""

    def rows(folder: Path) -> list[Any]:
        with closing(open_source(spec, folder)) as source:
            found = [plain(source[index]) for index in range(len(source))]
            if found and hasattr(source, "take"):
                batch = source.take(np.arange(len(source)))
                parts = batch.items() if isinstance(batch, dict) else [(None, batch)]
                for name, part in parts:
                    one = [row if name is None else row[name] for row in found]
                    if isinstance(part, np.ndarray):
                        part = [part[at, ...] for at in range(len(part))]
                    assert one == [plain(each) for each in part], "take gives other rows"
            return found

    return rows


def put(name: str, data: bytes) -> Callable[[Path], None]:
    """Give what makes a file of these bytes."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return make


def saved(array: Any) -> bytes:
    """Give the bytes of an ``.npy`` file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npy(data: bytes) -> list[Any]:
    with warnings.catch_warnings(action="ignore"):
        array = np.load(io.BytesIO(data), allow_pickle=False)
    return [plain(array[at, ...]) for at in range(len(array))]  # keeps the order of the bytes


NUMBERS = np.arange(-7, 8, dtype="<i4").reshape(5, 3)
FLOATS = np.linspace(-1, 1, 5)


def make_npz(save: Callable[..., None]) -> bytes:
    stream = io.BytesIO()
    save(stream, a=NUMBERS, b=FLOATS)
    return stream.getvalue()


def npz(data: bytes) -> list[Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        if archive.testzip() or len(names) != len(set(names)):
            raise ValueError("damaged")
        columns = {name.removesuffix(".npy"): npy(archive.read(name)) for name in names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


CSV = 'x,y\r\n"a, ""b""\r\nc",1\r\n\u00e9,-22\r\n"",333\n d ,+4\n'.encode()


def csv_rows(data: bytes) -> list[Any]:
    text = io.StringIO(data.decode("utf-8-sig"), newline="")
    names, *rows = csv.reader(text, strict=True)
    if sorted(set(names)) != sorted(names) or any(len(row) != len(names) for row in rows):
        raise ValueError("ragged")
    # The field y has a dtype, so it has to be there.
    return [
        {
            name: plain(np.int64(int(it)) if name == "y" else it)
            for name, it in zip(names, row, strict=True)
        }
        for row in rows
        if "y" in names
    ]


LINES = '{"x": [1, 2.5], "y": "\u00e9"}\r\n{"y": null, "x": []}\n[true, {"a": {"b": 1e3}}]\n"z"'


def lines(data: bytes) -> list[str]:
    parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended = parts[:-1] if not parts[-1] else parts
    kept = [
        part.removesuffix(b"\r") if number < len(parts) - 1 else part
        for number, part in enumerate(ended)
    ]
    return [part.decode() for part in kept]


def jsonl(data: bytes) -> list[Any]:
    return [plain(json.loads(line)) for line in lines(data)]


def text(data: bytes) -> list[Any]:
    return [plain(line) for line in lines(data)]


TEXT = "one\r\n\ntwo \u00e9\u20ac\n three\r\r\nlast".encode()
TOKENS = np.array([1, 60000, 3, 4, 5, 6, 7, 65535, 9], "<u2").tobytes()
SHARD = struct.pack("<256i", 20240520, 1, 9, *[0] * 253) + TOKENS


def windows(tokens: bytes) -> list[Any]:
    values = np.frombuffer(tokens, "<u2").astype(np.int64)
    return [plain(values[at : at + 3]) for at in range(0, len(values) - 2, 3)]


def shard(data: bytes) -> list[Any]:
    magic, version, count = struct.unpack_from("<3i", data)
    if (magic, version, 1024 + 2 * count) != (20240520, 1, len(data)):
        raise ValueError("damaged")
    return windows(data[1024:])


def tar_data() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        members = {"a/0.txt": b"zero", "a/0.cls": b"0", "b.txt": b"", "b.cls": b"12"}
        members["long" * 30 + ".txt"] = b"x" * 600
        members["long" * 30 + ".cls"] = b"-3"
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    packed = stream.getvalue().rstrip(b"\0")
    return packed + bytes(-len(packed) % 512 + 1024)


def tar(data: bytes) -> list[Any]:
    samples: dict[str, dict[str, Any]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if not member.isfile():
                raise ValueError("not a file")
            name = member.name
            key, _, field = name.rpartition("/")[2].partition(".")
            key = name[: len(name) - len(name.rpartition("/")[2])] + key
            content = archive.extractfile(member).read()
            value = int(content) if field.lower() == "cls" else content
            if field.lower() == "txt":
                value = content.decode("utf-8-sig")
            samples.setdefault(key, {"__key__": plain(key)})[field.lower()] = plain(value)
    return list(samples.values())


def make_database(folder: Path) -> None:
    (folder / "d.db").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "d.db")) as base, base:
        base.execute("PRAGMA page_size = 512")
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, s TEXT)")
        rows = [(3 * number, number / 2, f"text {number}" * number) for number in range(9)]
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)


def database(data: bytes) -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(data)
        rows = base.execute("SELECT id, x, s FROM t ORDER BY id").fetchall()
    return [{name: plain(it) for name, it in zip("ixs", row, strict=True)} for row in rows]


def database_rows(folder: Path) -> list[Any]:
    spec = {"type": "sqlite", "path": "d.db", "query": "SELECT id AS i, x, s FROM t", "key": "i"}
    return source_rows(spec)(folder)


def in_folder(decode: str, data: bytes) -> tuple[Callable[[Path], None], Callable[..., list[Any]]]:
    def make(folder: Path) -> None:
        put("f/a/1", data)(folder)
        put("f/b/2", data)(folder)

    spec = {"type": "files", "folder": "f", "decode": decode, "label": "folder"}
    return make, source_rows(spec)


def one_of_two(kind: str, decode: Callable[[bytes], Any], data: bytes) -> Kind:
    make, rows = in_folder(kind, data)

    def others(damaged: bytes) -> list[Any]:
        return [
            {"data": plain(decode(it)), "label": plain(label), "path": plain(path)}
            for label, (path, it) in enumerate({"a/1": damaged, "b/2": data}.items())
        ]

    return Kind(f"files {kind}", "f/a/1", make, rows, others)


JSON = '{"a": [1, 2.5, null], "\u00e9": {"b": "c"}}'.encode()


def state_rows(folder: Path) -> list[Any]:
    return [read_state(folder / "run.state")]


def make_state(folder: Path) -> None:
    with Loader({"num_workers": 0}, source=np.arange(9)) as batches:
        next(iter(batches))
        batches.save(folder / "run.state")


def cached(folder: Path) -> list[Any]:
    cache = Folder(folder / "kept", "key", 3)
    try:
        return [plain(cache.get(index, lambda n: {"x": np.arange(n + 2)})) for index in range(3)]
    finally:
        cache.close()


def indexed(folder: Path) -> list[Any]:
    (folder / "index").mkdir(exist_ok=True)
    spec = {"type": "text", "path": "t.txt", "index": {"folder": "index"}}
    return source_rows(spec)(folder)


def listed(folder: Path) -> list[Any]:
    numbers = read_numbers("list", folder, None, torn=is_torn)
    return [plain(number) for number in np.asarray(numbers).tolist()]


def list_of_lines(data: bytes) -> list[Any]:
    last = data[max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 :]
    begin = last.rstrip(b"\0")[:10]
    if begin and b'{"index": '.startswith(begin):  # as a kill tears a quarantine file, or a failure
        try:
            json.loads(last.decode("latin-1"))  # of bytes with zeros it guesses UTF-16
        except json.JSONDecodeError:
            data = data[: -len(last)]
    values = [number(line) for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    return [plain(it["index"] if isinstance(it, dict) else it) for it in values]


def number(line: str) -> Any:
    """What a line of a list says: JSON, or a number that may be written as in a csv, as ``09``."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return float(line) if set(line) & set(".eE") else int(line)


def list_of_npy(data: bytes) -> list[Any]:
    if data[:6] != b"\x93NUMPY":
        return list_of_lines(data)  # an empty file, for one, is a list of no lines
    return [plain(it) for it in np.load(io.BytesIO(data), allow_pickle=False).tolist()]


def kind(name: str, data: bytes, spec: dict[str, Any], others: Callable[..., Any]) -> Kind:
    """Give a kind whose one file a source reads."""
    return Kind(name, "d", put("d", data), source_rows({**spec, "path": "d"}), others)


def make_indexed(folder: Path) -> None:
    put("t.txt", TEXT)(folder)
    indexed(folder)


def make_cached(folder: Path) -> None:
    cached(folder)


RAW = {"type": "tokens", "window": 3, "dtype": "uint16"}
KINDS = [
    kind("npy", saved(NUMBERS), {"type": "npy"}, npy),
    kind("npy mapped", saved(FLOATS), {"type": "npy", "mmap": True}, npy),
    kind("npz", make_npz(np.savez), {"type": "npz"}, npz),
    kind("npz packed", make_npz(np.savez_compressed), {"type": "npz"}, npz),
    kind("csv", CSV, {"type": "csv", "dtypes": {"y": "int64"}}, csv_rows),
    kind("jsonl", LINES.encode(), {"type": "jsonl"}, jsonl),
    kind("text", TEXT, {"type": "text"}, text),
    kind("tokens", TOKENS, RAW, windows),
    kind("shard", SHARD, {"type": "tokens", "window": 3, "format": "shard"}, shard),
    kind("tar", tar_data(), {"type": "tar"}, tar),
    Kind("sqlite", "d.db", make_database, database_rows, database),
    one_of_two("bytes", lambda data: data, b"any bytes"),
    one_of_two("text", lambda data: data.decode("utf-8-sig"), "t\u00e9xt\n".encode()),
    one_of_two("json", json.loads, JSON),
    one_of_two("int", int, b" -1234\n"),
    one_of_two("npy", lambda data: np.load(io.BytesIO(data)), saved(NUMBERS)),
    Kind(
        "list", "list", put("list", b'0\n{"index": 12, "path": "x"}\n345\n'), listed, list_of_lines
    ),
    Kind("list npy", "list", put("list", saved(np.array([1, 20, 300]))), listed, list_of_npy),
    Kind("state", "run.state", make_state, state_rows, None),
    Kind("index", "index/.t.txt.*", make_indexed, indexed, None),
    Kind("cache records", "kept/**/*.data", make_cached, cached, None),
    Kind("cache index", "kept/**/*.index", make_cached, cached, None),
]
