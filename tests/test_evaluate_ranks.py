"""Four processes measure what one process measures, to the last bit, and it is seen if not."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_more_examples import EXAMPLES, ROOT, printed, run

from threadloader import Loader

EXAMPLE = "evaluate_ranks.py"


@pytest.fixture(scope="module")
def whole() -> str:
    return printed(EXAMPLE)


def metrics(name: str, output: str) -> tuple[str, str, str]:
    """Loss and accuracy of a line, as hex, and what stands behind them."""
    line = rf"^{name} +loss (\S+) \(\d\.\d{{6}}\)  accuracy (\S+) \(\d\.\d{{4}}\)(?:  (.*))?$"
    found = re.search(line, output, re.MULTILINE)
    assert found is not None, output
    return found.groups()


def planted(folder: Path, line: str, instead: str) -> Path:
    """A copy of the example with one line changed."""
    copy = shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("made"))
    script = copy / EXAMPLE
    text = script.read_text(encoding="utf-8")
    assert 1 == text.count(line)
    script.write_text(text.replace(line, instead), encoding="utf-8")
    return script


@pytest.mark.parametrize(
    ("samples", "rows", "ranks"),
    [
        (129, 132, 4),  # one sample beyond a full step
        (256, 256, 4),  # two full steps
        (3, 4, 4),  # fewer than ranks
        (1, 4, 4),
        (100, 102, 3),
    ],
)
def test_the_ranks_measure_what_one_process_measures(samples: int, rows: int, ranks: int) -> None:
    """Loss and accuracy of both are equal as hex, whether or not the samples can be divided."""
    output = printed(EXAMPLE, "--samples", samples, "--ranks", ranks)
    head = f"{samples:,} samples on {ranks} ranks: {rows:,} rows, {rows - samples} of them padding"
    assert head == output.splitlines()[0]
    loss, accuracy, _ = metrics("one process", output)
    assert (loss, accuracy, "equal") == metrics(f"{ranks} ranks", output)


def test_all_samples_are_measured_unless_told_otherwise(whole: str) -> None:
    """Five sixths of the digits, which four cannot divide; 9 of 10 or so are recognised."""
    assert "1,498 samples on 4 ranks: 1,500 rows, 2 of them padding" == whole.splitlines()[0]
    loss, accuracy, _ = metrics("one process", whole)
    assert (loss, accuracy, "equal") == metrics("4 ranks", whole)
    assert float.fromhex(accuracy) > 0.85


def test_padding_that_is_counted_shifts_the_metric(whole: str) -> None:
    """The mean of all rows, padding too, is another one, and its line says by how much."""
    (expected, *_), (counted, _, told) = (
        metrics(name, whole) for name in ("one process", "if padding counted")
    )
    off = float.fromhex(counted) - float.fromhex(expected)
    assert f"off by {off:+.1e}" == told
    assert abs(off) > 1e-5


def test_the_number_of_threads_changes_no_bit(whole: str) -> None:
    assert whole == printed(EXAMPLE, "--workers", 0)


def test_a_rank_by_itself_writes_its_rows(tmp_path: Path) -> None:
    """The real rows of all ranks are each sample once; what is over is marked as padding."""
    for rank in range(4):
        arguments = ("--rank", rank, "--ranks", 4, "--folder", tmp_path, "--samples", 133)
        assert "" == printed(EXAMPLE, *arguments)
    parts = []
    for rank in range(4):
        with np.load(tmp_path / f"rank-{rank}.npz") as file:
            parts.append(dict(file))
    assert [34, 34, 34, 34] == [len(part["losses"]) for part in parts]
    real = np.concatenate([part["indices"][part["valid"]] for part in parts])
    assert list(range(133)) == sorted(real.tolist())
    padding = np.concatenate([part["indices"][~part["valid"]] for part in parts])
    assert [0, 1, 2] == padding.tolist()


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        # Padding taken for real rows, as where `valid` is forgotten.
        ("valid += batches.info.valid.tolist()", "valid += [True] * len(batch['labels'])"),
        # The rows of the last rank lost on the way.
        ("parts.append(dict(file))", "parts = parts or [dict(file)]"),
        # Row numbers of a shard taken for indices of samples.
        ("indices += batches.info.indices.tolist()", "indices += range(len(batch['labels']))"),
        # Results that depend on the batch they came in, by some last bits.
        ("[evaluate(means, image,", "[evaluate(means + 1e-14 * len(indices), image,"),
    ],
    ids=["padding", "lost", "indices", "batch"],
)
def test_a_fault_ends_in_exit_code_1(line: str, instead: str, tmp_path: Path) -> None:
    """The comparison can fail: a fault planted in the example is seen, and said."""
    ran = run(planted(tmp_path, line, instead))
    assert (1, "") == (ran.returncode, ran.stderr)
    assert re.search(r"^4 ranks .*  DIFFERENT$", ran.stdout, re.MULTILINE)


def test_a_rank_that_fails_is_named(tmp_path: Path) -> None:
    """Its own words come first, then its exit code and its number; nothing is measured."""
    line = "    if options.rank is not None:\n        shard"
    script = planted(tmp_path, line, f"    if options.rank == 2:\n        sys.exit('why')\n{line}")
    ran = run(script)
    told = "evaluate_ranks.py: expected exit code 0 of every rank, got 1 of rank 2\n"
    assert (1, "", "why\n" + told) == (ran.returncode, ran.stdout, ran.stderr)


def test_the_config_is_right_and_explained_by_an_editor() -> None:
    """It reads without a problem, names the schema at the root, and pads."""
    config = EXAMPLES / "evaluate_ranks.json"
    assert {"index": 0, "count": 1, "remainder": "pad"} == Loader(config).config.shard
    (schema,) = re.findall(r'"\$schema": "(.*)"', config.read_text(encoding="utf-8"))
    assert (ROOT / "config_schema.json").samefile(EXAMPLES / schema)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ranks", "0"),
        ("--samples", "0"),
        ("--workers", "-1"),
        ("--rank", "1"),
        ("--folder", "here"),
        ("--rank", "4", "--folder", "here"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    """An argument out of bounds ends in a line that says what was expected, and exit code 2."""
    ran = run(EXAMPLE, *arguments)
    assert 2 == ran.returncode
    assert "expected " in ran.stderr.splitlines()[-1]
