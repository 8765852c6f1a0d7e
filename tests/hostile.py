"""Configs and files that want what they should not get: code run, other files, all memory."""

import io
import os
import pickle
import sqlite3
import tarfile
import zipfile
from contextlib import closing

import numpy as np

KINDS = {
    "npz": {"type": "npz"},
    "npy": {"type": "npy"},
    "csv": {"type": "csv"},
    "jsonl": {"type": "jsonl"},
    "txt": {"type": "text"},
    "bin": {"type": "tokens", "dtype": "uint16", "window": 2},
    "tar": {"type": "tar"},
    "db": {"type": "sqlite", "query": "SELECT id, x FROM t", "key": "id"},
}
LISTS = {
    "exclude": lambda path: {"exclude": path},
    "weights": lambda path: {"sampler": {"type": "weighted", "weights": path}},
    "labels": lambda path: {"sampler": {"type": "balanced", "labels": path}},
    "indices": lambda path: {"sampler": {"type": "subset", "indices": path}},
}
QUERIES = [
    *("SELECT load_extension('evil') AS id", "ATTACH '../outside/d.db' AS other"),
    *("PRAGMA writable_schema = ON", "SELECT writefile('../outside/x', 'x') AS id"),
    *("SELECT readfile('/etc/hostname') AS id", "SELECT zeroblob(999999999) AS id"),
    *("VACUUM INTO '../outside/copy.db'", "CREATE TABLE u (id)", "SELECT 1 AS id; DROP TABLE t"),
    *("DELETE FROM t", "SELECT hex(zeroblob(900000000)) AS id", "SELECT id FROM v"),
    "WITH w AS (SELECT edit('x') AS id) SELECT id FROM w",
    *("SELECT fts3_tokenizer('x', x'4141414141414141') AS id", "SELECT FTS3_TOKENIZER('simple')"),
]
NAMES = ["evil", "evil.run", "evil:run", "os.system", "antigravity", "this", "builtins.eval"]


class Payload:
    """Runs a program, wherever it is unpickled."""

    def __reduce__(self):
        return os.system, ("exit 1",)


def make(folder):
    """Make data of every kind in a folder: four samples each, and a list of numbers."""
    (folder / "f" / "a").mkdir(parents=True)
    (folder / "f" / "a" / "1.json").write_text("[1]", encoding="utf-8")
    np.save(folder / "d.npy", np.arange(8).reshape(4, 2))
    np.savez(folder / "d.npz", x=np.arange(8).reshape(4, 2))
    (folder / "d.csv").write_bytes(b"x,y\n1,2\n3,4\n5,6\n7,8\n")
    (folder / "d.jsonl").write_bytes(b"[1]\n[2]\n[3]\n[4]\n")
    (folder / "d.txt").write_bytes(b"0\n1\n2\n3\n")
    (folder / "d.bin").write_bytes(bytes(16))
    with tarfile.open(folder / "d.tar", "w") as archive:
        for number in range(4):
            archive.addfile(tarfile.TarInfo(f"{number}.x"))
    with closing(sqlite3.connect(folder / "d.db")) as base, base:
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(n, n / 2) for n in range(4)])
        base.execute("CREATE VIEW v AS SELECT load_extension('evil') AS id")


def config(source, **options):
    return {"source": source, "batch_size": 2, "num_workers": 0, **options}


def good(folder):
    """Give configs that are all right, one for each kind, for the files that `inputs` makes."""
    root = folder / "root"
    for kind, spec in KINDS.items():
        yield config({**spec, "path": str(root / f"d.{kind}")}, root=str(root))
    files = {"type": "files", "folder": str(root / "f"), "decode": "json", "label": "folder"}
    yield config(files, root=str(root))
    text = {"type": "text", "path": str(root / "d.txt")}
    yield config({**text, "index": {"folder": str(root / "index")}})
    yield config(text, cache={"folder": str(root / "kept")})
    yield config(text, cache={"max_samples": 2})
    for option in LISTS.values():
        yield config({"type": "text", "path": str(root / "d.txt")}, **option(str(root / "d.txt")))


def inputs(folder):
    """Make all files; list the (name, config) of each thing to try."""
    root, outside = folder / "root", folder / "outside"
    for each in (root, outside):
        each.mkdir()
        make(each)
    (root / "evil.py").write_text("import os\nos.system('exit 1')\n", encoding="utf-8")
    for name in [f"d.{kind}" for kind in KINDS]:
        (root / f"link-{name}").symlink_to(outside / name)
    (root / "linked").symlink_to(outside)
    os.mkfifo(root / "fifo")
    found = [*paths(root, outside), *names(root), *queries(root)]
    found += [(name, str(path)) for name, path in texts(root)]
    found += files(root)
    return found


def paths(root, outside):
    """Paths that lead out of the root, or to what is no file."""
    for kind, spec in KINDS.items():
        name = f"d.{kind}"
        bad = [f"../outside/{name}", str(outside / name), f"link-{name}", f"linked/{name}"]
        bad += [f"f/../../outside/{name}", f"~/{name}", f"$HOME/{name}", f"file://{outside}/{name}"]
        bad += ["http://127.0.0.1:9/x", "fifo", "/dev/zero", "/dev/tty", ".", "a\0b", "x" * 5000]
        patterns = ["../outside/*", f"linked/*.{kind}", "../**", "/etc/*", "**/../../outside/*"]
        for path in bad + (patterns if kind not in ("npz", "npy", "db") else []):
            at = {
                **spec,
                "path": path if path.startswith(("/", "http", "file")) else f"{root}/{path}",
            }
            yield f"{kind} {path:.60}", config(at, root=str(root))
            if path in ("fifo", "/dev/zero", "/dev/tty", "."):  # also where nothing bounds it
                yield f"{kind} {path} without a root", config(at)
    text = {"type": "text", "path": f"{root}/d.txt"}
    more = ["../outside/d.txt", "link-d.txt", "fifo", "/dev/zero", str(outside / "d.npy")]
    for path in more:
        path = path if path.startswith("/") else f"{root}/{path}"
        for name, option in LISTS.items():
            yield f"{name} {path}", config(text, root=str(root), **option(path))
        label = {"csv": path, "file": "x", "label": "y"}
        at = {"type": "files", "folder": f"{root}/f", "label": label}
        yield f"label {path}", config(at, root=str(root))
        yield f"index {path}", config({**text, "index": {"folder": path}}, root=str(root))
        yield f"cache {path}", config(text, root=str(root), cache={"folder": path})
    for at in ("../outside/f", "linked/f", "linked"):
        spec = {"type": "files", "folder": f"{root}/{at}", "pattern": "**/*"}
        yield f"folder {at}", config(spec, root=str(root))
    spec = {"type": "files", "folder": f"{root}", "pattern": ["../outside/f/*/*", "linked/f/*/*"]}
    yield "pattern", config(spec, root=str(root))


def names(root):
    """Names of code, wherever a config has words or keys of ours."""
    text = {"type": "text", "path": f"{root}/d.txt"}
    for name in NAMES:
        yield f"type {name}", config({"type": name, "path": f"{root}/d.txt"})
        for option in ("transform", "sampler", "collate"):
            yield f"{option} {name}", config(text, **{option: {"type": name}})
        for key in ("_target_", "__class__", "__reduce__", "py/object", "$ref", "!!python/name"):
            yield f"{key} {name}", config({**text, key: name})
            yield f"{key} {name} above", config(text, **{key: name})
        spec = {"type": "files", "folder": f"{root}/f", "decode": name}
        yield f"decode {name}", config(spec)
        csv = {"type": "csv", "path": f"{root}/d.csv", "dtypes": {"x": name}}
        yield f"dtype {name}", config(csv)


def queries(root):
    for query in QUERIES:
        spec = {"type": "sqlite", "path": f"{root}/d.db", "query": query, "key": "id"}
        yield query, config(spec, root=str(root))


def texts(root):
    """Config files that are too much."""
    blank = root / "blank.json"
    with blank.open("wb") as file:
        file.truncate(1 << 30)  # of zeros, and nearly none of them on the disk
    deep = {"arrays": b"[" * 10**6, "objects": b'{"a":' * 10**5, "digits": b"9" * 4_000_000}
    deep |= {"string": b'"' + b"a" * 3_999_999, "escapes": b'"' + b"\\u0041" * 600_000}
    deep |= {"comment": b"/*" * 1_900_000, "keys": b"{" + b'"a":1,' * 600_000 + b"}"}
    for name, data in deep.items():
        (root / f"{name}.json").write_bytes(data)
        yield f"config of {name}", root / f"{name}.json"
    yield "config of blanks", blank
    yield "config that is a FIFO", root / "fifo"
    yield "config that is a device", "/dev/zero"


def header(text, body=b""):
    """Give an npy file with a header of one's own."""
    data = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data + body


def shaped(shape, descr="'<f8'"):
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}", bytes(64))


def arrays():
    """Npy files that lie, or want to run."""
    stream = io.BytesIO()
    np.save(stream, np.array([Payload()], dtype=object), allow_pickle=True)
    call = "__import__('os').system('exit 1')"
    return {
        "pickle": stream.getvalue(),
        "bare pickle": pickle.dumps(Payload()),
        "call": header(call),
        "call as shape": shaped(call),
        "call as dtype": shaped("(4,)", call),
        "huge": shaped(f"({10**18},)"),
        "huge and empty": shaped(f"(0, {2**62}, {2**62})"),
        "no bytes a value": shaped(f"({2**40},)", "'|V0'"),
        "wide": shaped("(1,)", "'<U999999999'"),
        "deep": header("(" * 9000 + ")" * 9000),
        "object within": shaped("(1,)", "[('a', '|O')]"),
        "long header": b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little"),
    }


def files(root):
    """Data files that lie, or want to run; each by every way that reads such a file."""
    found = []
    text = {"type": "text", "path": f"{root}/d.txt"}
    folder = root / "bad"
    folder.mkdir()
    for number, (name, data) in enumerate(arrays().items()):
        (place := folder / f"{number}").mkdir()
        (place / "x.npy").write_bytes(data)
        with zipfile.ZipFile(place / "x.npz", "w") as archive:
            archive.writestr("x.npy", data)
        with tarfile.open(place / "x.tar", "w") as archive:
            info = tarfile.TarInfo("0.npy")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for mapped in (False, True):
            spec = {"type": "npy", "path": f"{place}/x.npy", "mmap": mapped}
            found.append((f"npy {name}", config(spec)))
        found += [
            (f"{kind} {name}", config({"type": kind, "path": f"{place}/x.{kind}"}))
            for kind in ("npz", "tar")
        ]
        spec = {"type": "files", "folder": f"{place}", "pattern": "*.npy", "decode": "npy"}
        found.append((f"files {name}", config(spec)))
        for option, make_option in LISTS.items():
            found.append((f"{option} {name}", config(text, **make_option(f"{place}/x.npy"))))
    bombs = {
        "deep.jsonl": b"[" * 10**6 + b"]" * 10**6,
        "digits.jsonl": b"9" * 10**6,
        "keys.jsonl": b"{" + b'"a":1,' * 10**5 + b'"a":1}',
        "quote.csv": b'"' + b"a\n" * 10**6,
        "wide.csv": b"," * 10**6 + b"\n",
        "many.bin": np.array([20240520, 1, 2**31 - 1, *[0] * 253], "<i4").tobytes(),
        "less.bin": np.array([20240520, 1, -1, *[0] * 253], "<i4").tobytes(),
    }
    for name, data in bombs.items():
        (folder / name).write_bytes(data)
        spec = dict(KINDS[name.partition(".")[2]], path=f"{folder}/{name}")
        spec |= {"format": "shard"} if spec["type"] == "tokens" else {}
        found.append((name, config({**spec, "dtype": "uint16"} if "format" in spec else spec)))
    for name, data in archives().items():
        (folder / f"{name}.tar").write_bytes(data)
        found.append((f"tar {name}", config({"type": "tar", "path": f"{folder}/{name}.tar"})))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", shaped(f"({2**37},)") + bytes(1 << 20))
    data = (folder / "bomb.npz").read_bytes()
    at = data.index(b"PK\x01\x02")
    lie = data[: at + 24] + (2**32 - 2).to_bytes(4, "little") + data[at + 28 :]
    (folder / "lie.npz").write_bytes(lie)
    return found + [
        (f"npz {name}", config({"type": "npz", "path": f"{folder}/{name}.npz"}))
        for name in ("bomb", "lie")
    ]


def archives():
    """Tar archives with members that no sample has."""
    made = {}
    kinds = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}
    for name, kind in {**kinds, "pipe": tarfile.FIFOTYPE, "sparse": b"S"}.items():
        info = tarfile.TarInfo("0.txt")
        info.type, info.linkname = kind, "/etc/passwd"
        made[name] = info.tobuf() + bytes(1024)
    for name in ("../../outside/x.txt", "/etc/passwd.txt", "a/../../x.txt", "..txt/../x.txt"):
        made[f"name {len(made)}"] = tarfile.TarInfo(name).tobuf() + bytes(1024)
    for name, size in {"large": 2**62, "long": 8**11 - 1}.items():
        info = tarfile.TarInfo("0.txt")
        info.size = size
        made[name] = info.tobuf(tarfile.GNU_FORMAT) + bytes(2048)
    info = tarfile.TarInfo("0.txt")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**40
    made["name too long"] = info.tobuf(tarfile.GNU_FORMAT) + bytes(2048)
    return made
