"""What a type checker says of code that uses the package: `py.typed` is a promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is one of the tools of tools/test")

ROOT = Path(__file__).parent.parent

RIGHT = """
from pathlib import Path
from typing import Any

import numpy as np

import threadloader
from threadloader import Batches, BatchInfo, Loader, LoaderConfig, per_thread
from threadloader.collate import Pad
from threadloader.sources import open_source

def train(config: LoaderConfig, rows: list[dict[str, float]]) -> None:
    fills: dict[str, float] = {"x": 1.0}
    loader = Loader(config, rows, collate=Pad(value=fills), shard="auto", unknown="ignore")
    source = open_source(loader.config.source)
    print(source.classes, len(source))
    with loader as batches:
        for epoch in batches.epochs(2):
            for batch in epoch:
                print(batch["x"], batches.info.step, batches.info.indices.tolist())
        batches.save(Path("state"))
        print(batches.stats().data_wait_seconds + 1.0)

def known(batches: Batches) -> BatchInfo:
    info = batches.info
    assert isinstance(info, BatchInfo)
    return info

train(LoaderConfig(batch_size=8), [])
Loader("train.json", (np.zeros(3), np.ones(3)), transform=lambda x, rng: x, sampler=[2, 0])
Loader({"batch_size": 2}, per_thread(lambda: [1, 2]), shard={"index": 0, "count": 2})
print(threadloader.Stats, threadloader.__version__)
"""

WRONG = """
from threadloader import Loader, Loadr
from threadloader.collate import Padd
from threadloader.sources import open_sorce
from threadloader.stats import Stat
import threadloader
threadloader.per_tread
Loader({}, sorce=[1])
Loader({}, [1], unknown="ignor")
Loader({}, [1], shard="auot")
Loader({}, [1], transform=3)
list(Loader({}, [1]))
len(Loader({}, [1]))
Loader({}, [1]).epochs(3)
with Loader({}, [1]) as batches: next(batches)
with Loader({}, [1]) as batches: batches.stats().data_wait
"""


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Gives a function that checks a text, and gives the numbers of the lines with an error."""
    folder = tmp_path_factory.mktemp("typing")

    def run(name, text):
        file = folder / name
        file.write_text(text.lstrip(), encoding="utf-8")
        found = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder), str(file)],
            env={**os.environ, "MYPYPATH": str(ROOT)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "" == found.stderr
        return {int(n) for n in re.findall(rf"^{name}:([0-9]+): error", found.stdout, re.MULTILINE)}

    return run


def test_right_code_passes_without_a_cast(check):
    assert set() == check("right.py", RIGHT)


def test_what_types_can_tell_of_wrong_code_is_told(check):
    """A name that there is not, in any module; a word that is none of two; a recipe in a loop."""
    lines = WRONG.strip().splitlines()
    assert set(range(1, len(lines) + 1)) - {lines.index("import threadloader") + 1} == check(
        "wrong.py", WRONG
    )
