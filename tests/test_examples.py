"""The examples train, in a child interpreter each, and print what they promise."""

import hashlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from frameworks import framework

from threadloader import Loader

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DIGITS = EXAMPLES / "data" / "digits.npz"
# One thread for the arithmetic: on a busy machine more of them wait for each other.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


def printed(example: str, *arguments: object) -> str:
    """What an example prints, run to its end without a word on stderr."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / example, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    return ran.stdout


@pytest.fixture(scope="module")
def digits() -> str:
    return printed("digits.py", "--epochs", 4, "--read-ms", 0.1)


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed("characters.py", "--epochs", 2, "--folder", tmp_path_factory.mktemp("text"))


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]


def test_the_digits_are_recognised(digits: str) -> None:
    """The network recognises at least 95 of 100 digits that it has not seen."""
    accuracy = re.search(r"^test accuracy: (0\.\d{3})$", digits, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) >= 0.95


def test_the_digits_train_alike_with_and_without_threads(digits: str) -> None:
    """The losses of the threaded run are those of the run without threads, and they fall."""
    both = losses(digits)
    assert both[:4] == both[4:]
    assert both[:4] == sorted(both[:4], reverse=True)
    assert "losses of both runs: identical" in digits


def test_the_digits_show_both_data_waits(digits: str) -> None:
    """The data waits of both runs stand side by side, each with its band."""
    wait = r"(\d+\.\d)% \((excellent|good|fair|poor)\)"
    line = re.search(
        f"^data wait: {wait} with num_workers 0, {wait} with num_workers 8$", digits, re.MULTILINE
    )
    assert line is not None
    assert float(line[3]) < float(line[1])


def test_the_digits_say_that_their_reads_are_slowed(digits: str) -> None:
    """The example prints that it makes reads wait, and for how long."""
    assert "each read made to wait 0.1 ms" in digits


def test_the_characters_are_learned(characters: str) -> None:
    """The loss falls by more than half a bit from one epoch to the next, from below 7 bits."""
    first, second = losses(characters)
    assert first < 7
    assert second < first - 0.5


def test_the_characters_show_rate_and_data_wait(characters: str) -> None:
    """Every epoch tells its characters per second and its data wait."""
    line = (
        r"^epoch +\d  loss .* bits per character +[\d,]+ characters/s  data wait \d+\.\d% \(\w+\)$"
    )
    assert 2 == len(re.findall(line, characters, re.MULTILINE))


@pytest.mark.parametrize("example", ["digits", "characters"])
def test_the_configs_are_right_and_explained_by_an_editor(example: str) -> None:
    """Each config reads without a problem, and names the schema at the root."""
    config = EXAMPLES / f"{example}.json"
    assert Loader(config).config.source is not None
    (schema,) = re.findall(r'"\$schema": "(.*)"', config.read_text(encoding="utf-8"))
    assert (ROOT / "config_schema.json").samefile(EXAMPLES / schema)


@pytest.mark.parametrize(
    "arguments",
    [
        ("digits.py", "--epochs", "0"),
        ("digits.py", "--workers", "0"),
        ("characters.py", "--workers", "-1"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    """An argument out of bounds ends in a line that says what was expected, and exit code 2."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / arguments[0], *arguments[1:]],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 2 == ran.returncode
    assert "expected --epochs" in ran.stderr


def test_the_digits_are_what_their_readme_records() -> None:
    """The file has the size and the checksum of its record, and its arrays the stated form."""
    record = (EXAMPLES / "data" / "README.md").read_text(encoding="utf-8")
    content = DIGITS.read_bytes()
    assert f"| {len(content):,} | `{hashlib.sha256(content).hexdigest()}` |" in record
    with np.load(DIGITS, allow_pickle=False) as arrays:
        forms = {name: (arrays[name].dtype.name, arrays[name].shape) for name in arrays}
    assert {"images": ("uint8", (1797, 8, 8)), "labels": ("uint8", (1797,))} == forms


def test_the_digits_are_written_alike_every_time(tmp_path: Path) -> None:
    """The script's way of writing arrays gives the same bytes again, on any machine and day."""
    script = runpy.run_path(str(EXAMPLES / "data" / "make_digits.py"))
    with np.load(DIGITS, allow_pickle=False) as arrays:
        script["write_npz"](tmp_path / "digits.npz", dict(arrays))
    assert DIGITS.read_bytes() == (tmp_path / "digits.npz").read_bytes()


def test_the_digits_are_those_of_scikit_learn() -> None:
    """The file holds the images and labels that scikit-learn carries."""
    expected = framework("sklearn.datasets").load_digits()
    with np.load(DIGITS, allow_pickle=False) as arrays:
        assert (expected.images == arrays["images"]).all()
        assert (expected.target == arrays["labels"]).all()
