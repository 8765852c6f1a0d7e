"""Runs by number whose batches and states are the same everywhere, and what they come to.

`goldens/runs.json` has a line for each. Nothing here may itself differ between versions: draws
use `random.random`, the only one that Python promises to keep, and transforms raw random bits,
the only ones that numpy promises to keep.
"""

import itertools
import json
import random
import sqlite3
import tarfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from threadloader import Loader
from threadloader.fingerprint import digest

GOLDENS = Path(__file__).parent / "goldens" / "runs.json"

RUNS = 240

WAYS = list(itertools.product((0, 1, 2, 4, 8, 16), (1, 2, 8, 64)))
"""Numbers of workers and of batches ahead: what a run is must not depend on them."""

ROWS = 37
"""Samples in each data file."""


class Plain:
    """A source that is read sample by sample."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return 3 * index + 1

    def fingerprint(self):
        return f"{type(self).__name__} of {self.n}"


class Rows(Plain):
    """One that reads all samples of a batch at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Uneven(Plain):
    """One whose reads take 0 to 0.4 ms, so that the later ones often end first."""

    def __getitem__(self, index):
        time.sleep(index * 7 % 5 * 1e-4)
        return {"x": np.full(2, index, np.int16), "name": f"sample {index}"}


class Failing(Plain):
    """One of whose samples every fifth cannot be read."""

    def __getitem__(self, index):
        if index % 5 == 3:
            raise ValueError(index)
        return index / 8


IN_CODE = {
    "list": lambda n: list(range(0, 3 * n, 3)),
    "array": lambda n: np.arange(2 * n, dtype=np.int32).reshape(n, 2),
    "fields": lambda n: {
        "x": np.arange(n, dtype=np.float32) / 7,
        "y": np.arange(n, dtype=np.int64) % 3,
    },
    "ragged": lambda n: [np.arange(i % 6, dtype=np.int64) for i in range(n)],
    "rows": Rows,
    "uneven": Uneven,
    "failing": Failing,
}

IN_FILES = {
    "npy": {"type": "npy", "path": "x.npy"},
    "npy, mapped": {"type": "npy", "fields": {"a": "x.npy", "b": "n.npy"}, "mmap": True},
    "npz": {"type": "npz", "path": "x.npz"},
    "csv": {"type": "csv", "path": "x.csv", "dtypes": {"y": "float64"}, "missing": {"y": None}},
    "jsonl": {"type": "jsonl", "path": "x.jsonl", "dtypes": {"x": "float32"}},
    "text": {"type": "text", "path": "x.txt"},
    "tokens": {"type": "tokens", "path": "x.bin", "dtype": "uint16", "window": 4, "targets": True},
    "files": {"type": "files", "folder": "f", "decode": "int", "label": "folder"},
    "tar": {"type": "tar", "path": "x.tar"},
    "sqlite": {"type": "sqlite", "path": "x.db", "query": "SELECT id, x, s FROM t", "key": "id"},
}

MLM = {"type": "mlm", "vocabulary": 60, "mask_token": 3, "special": [0, 1, 2], "field": "x"}

SAMPLERS = [None, None, "weighted", "weighted_without_replacement", "balanced", "subset"]
SAMPLERS += ["sequence", "callable"]


def make_data(folder: Path) -> None:
    """Make the data files, `ROWS` samples each."""
    numbers = range(ROWS)
    np.save(folder / "x.npy", np.arange(3 * ROWS, dtype=">i4").reshape(ROWS, 3))
    np.save(folder / "n.npy", np.arange(ROWS, dtype=np.int64) % 4)
    np.savez(folder / "x.npz", a=np.arange(ROWS, dtype=np.float16), b=np.arange(ROWS) % 2 == 0)
    texts = {
        "x.csv": "x,y\n" + "".join(f"name {n},{n / 3 if n % 9 else ''}\n" for n in numbers),
        "x.jsonl": "".join(f'{{"x": {n / 3}, "s": "\\u00e9{n}"}}\n' for n in numbers),
        "x.txt": "".join(f"l\u00efne {n}\n" for n in numbers),
        "labels.txt": "".join(f"{n % 4}\n" for n in numbers),
        **{f"f/{'ab'[n % 2]}/{n}.txt": f"{n}" for n in numbers},
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    tokens = np.arange(4 * ROWS + 1, dtype=np.int64) * 17 % 60
    (folder / "x.bin").write_bytes(tokens.astype("<u2").tobytes())
    with tarfile.open(folder / "x.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for n, name in itertools.product(numbers, ("cls", "txt")):
            info = tarfile.TarInfo(f"{n:03}.{name}")
            info.size = 2
            tar.addfile(info, BytesIO(b"%02d" % n))
    with closing(sqlite3.connect(folder / "x.db")) as base, base:
        base.execute("PRAGMA page_size = 512")
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, s TEXT)")
        rows = [(n, n / 3, f"text {n}") for n in numbers]
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)


class Draw:
    """Draws that are the same in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def below(self, count: int) -> int:
        return int(self.random() * count)

    def one(self, choices: Any) -> Any:
        return choices[self.below(len(choices))]


def noisy(sample, rng):
    """A transform whose result tells its place in the order."""
    return {"sample": sample, "raw": int(rng.bit_generator.random_raw()) >> 2}


@dataclass
class Run:
    """What is drawn of a run, but for the numbers of workers and of batches ahead.

    `cut` is the number of batches after which it goes on from its state, in another way.
    """

    kind: str
    n: int
    cut: int
    config: dict
    given: dict = field(default_factory=dict)

    def loader(self, folder: Path, way: tuple[int, int], resume: Any = None) -> Loader:
        """A loader that has so many workers and batches ahead."""
        config = {**self.config, "num_workers": way[0], "prefetch_batches": way[1]}
        if self.kind in IN_CODE:
            return Loader(config, IN_CODE[self.kind](self.n), resume=resume, **self.given)
        source = dict(IN_FILES[self.kind])
        for name in ("path", "folder"):
            if name in source:
                source[name] = str(folder / source[name])
        if "fields" in source:
            fields = source["fields"].items()
            source["fields"] = {name: str(folder / path) for name, path in fields}
        if self.config.get("sampler", {}).get("labels"):
            config["sampler"] = {**config["sampler"], "labels": str(folder / "labels.txt")}
        return Loader({**config, "source": source}, resume=resume, **self.given)


def drawn(number: int) -> Run:
    """The run of this number."""
    draw = Draw(number)
    kind = draw.one([*IN_CODE, *IN_FILES])
    n = ROWS if kind in IN_FILES else draw.one([1, 2, *[3 + draw.below(40)] * 6])
    count = draw.one([1, 1, 2, 3])
    config = {
        "batch_size": draw.one([1, 2, 3, 4, 7, 12]),
        "drop_last": draw.random() < 0.2,
        "shard": {
            "index": draw.below(count),
            "count": count,
            "remainder": draw.one(["pad", "drop", "keep"]),
        },
        "seed": draw.below(2**53),
        "shuffle": draw.random() < 0.8,
        "num_epochs": 1 + draw.below(3),
        "fingerprint": draw.random() < 0.5,
        "max_bytes": draw.one([None, None, 200]),
        "cache": draw.one([None, None, {"max_samples": 20}]),
    }
    run = Run(kind, n, draw.below(2 * n), config)
    if kind == "ragged":
        config["collate"] = {"type": "pad", "multiple_of": draw.one([1, 4]), "value": -1}
    if kind == "failing":
        config["on_error"] = {"skip": 10_000}
    if draw.random() < 0.2:
        config["exclude"] = [i for i in range(n) if draw.random() < 0.3]
    _draw_sampler(draw, run)
    if kind == "tokens" and draw.random() < 0.7:
        config["transform"] = MLM
    elif kind != "ragged" and draw.random() < 0.4:
        run.given["transform"] = noisy
    return run


def _draw_sampler(draw: Draw, run: Run) -> None:
    n, kind = run.n, draw.one(SAMPLERS)
    specs = {
        "weighted": {"weights": [1 + i % 3 / 3 for i in range(n)], "num_samples": 30},
        "weighted_without_replacement": {"weights": [1 + i % 5 / 7 for i in range(n)]},
        "balanced": {"labels": "labels.txt"},
        "subset": {"indices": list(range(0, n, 2)), "shuffle": True},
    }
    if kind in ("sequence", "callable"):
        lists = [[draw.below(n) for _ in range(20)] for _ in range(3)]
        run.given["sampler"] = lists[0] if kind == "sequence" else lambda epoch, n: lists[epoch]
    elif kind in specs and (kind != "balanced" or run.kind in IN_FILES):
        run.config["sampler"] = {"type": kind, **specs[kind]}
    else:
        return
    # A sampler of one's own says by itself which samples come.
    run.config["shuffle"] = False
    if "sampler" in run.given:
        run.config.pop("exclude", None)


def played(run: Run, folder: Path, *ways: tuple[int, int]) -> dict[str, Any]:
    """What a run comes to that begins in one way and goes on, from its state, in another.

    Returns:
        The number of its batches, a checksum of them and of what is told about each, and one
        of the states behind each.
    """
    contents, states = blake2b(digest_size=8), blake2b(digest_size=8)
    made, state = 0, None
    for last, way in enumerate(ways, 1 - len(ways)):
        with run.loader(folder, way, state) as batches:
            for batch in _first(batches, None if last == 0 else run.cut):
                info = batches.info
                contents.update(digest(batch))
                told = info.epoch, info.step, info.indices.tolist(), info.valid.tolist()
                contents.update(json.dumps(told).encode())
                states.update(json.dumps(batches.state_dict()).encode())
                made += 1
            state = json.loads(json.dumps(batches.state_dict()))
    states.update(json.dumps(state).encode())  # of the end, also where there was no batch
    return {"batches": made, "contents": contents.hexdigest(), "states": states.hexdigest()}


def _first(batches, count):
    taken = itertools.chain.from_iterable(batches.epochs())
    return taken if count is None else itertools.islice(taken, count)


def goldens() -> dict[int, dict[str, Any]]:
    """What each run came to when it was written down."""
    lines = json.loads(GOLDENS.read_text(encoding="utf-8"))
    return {line.pop("run"): line for line in lines}
