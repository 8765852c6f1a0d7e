"""The examples train, in a child interpreter each, and print what they promise."""

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from frameworks import framework

from threadloader.stats import band

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DIGITS = EXAMPLES / "data" / "digits.npz"
# One thread for the arithmetic: on a busy machine more of them wait for each other.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


def run(
    example: str | Path, *arguments: object, flags: tuple[str, ...] = (), **options: object
) -> subprocess.CompletedProcess[str]:
    """Runs an example, by its name in examples/ or its path, to its end."""
    command = [sys.executable, "-W", "error", *flags, EXAMPLES / example, *map(str, arguments)]
    given: dict = {"env": ENVIRONMENT, "timeout": 120, **options}
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)


def printed(example: str | Path, *arguments: object, **options: object) -> str:
    """What an example prints, run to its end without a word on stderr."""
    ran = run(example, *arguments, **options)
    assert (0, "") == (ran.returncode, ran.stderr)
    return ran.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The examples as they come, where they may write and be damaged."""
    made = shutil.ignore_patterns("__pycache__", "topics.txt", "made")
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=made))


@pytest.fixture(scope="module")
def digits() -> str:
    return printed("digits.py", "--epochs", 4, "--read-ms", 0.1)


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed("characters.py", "--epochs", 2, "--folder", tmp_path_factory.mktemp("text [1]"))


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
    """The data waits of both runs stand side by side, each with its band; not who waits less."""
    wait = r"(\d+\.\d)% \((excellent|good|fair|poor)\)"
    line = re.search(
        f"^data wait: {wait} with num_workers 0, {wait} with num_workers 8$", digits, re.MULTILINE
    )
    assert line is not None
    assert [line[2], line[4]] == [band(float(line[at]) / 100) for at in (1, 3)]


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


def test_the_characters_train_from_any_folder(copy: Path, tmp_path: Path) -> None:
    """Without --folder the text stands beside the example, wherever it is called from."""
    (tmp_path / "elsewhere").mkdir()
    output = printed(copy / "characters.py", "--epochs", 1, cwd=tmp_path / "elsewhere")
    assert 1 == len(losses(output))
    assert (copy / "data" / "topics.txt").exists()


@pytest.mark.parametrize(
    "example", ["characters", "cpp_config", "digits", "masked", "tokenizer", "tokens"]
)
@pytest.mark.parametrize(
    ("fraction", "band", "said"),
    [
        (0.00996, "excellent", "0.9% (excellent)"),
        (0.01, "good", "1.0% (good)"),
        (0.0499, "good", "4.9% (good)"),
        (0.05, "fair", "5.0% (fair)"),
        (0.19999, "fair", "19.9% (fair)"),
        (0.2, "poor", "20.0% (poor)"),
        (0, "excellent", "0.0% (excellent)"),
        (1, "poor", "100.0% (poor)"),
    ],
)
def test_the_word_of_a_data_wait_fits_its_number(
    example: str, fraction: float, band: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number at the edge of a band is rounded into its own band."""
    monkeypatch.syspath_prepend(EXAMPLES)  # as of a script that is run
    wait = runpy.run_path(str(EXAMPLES / f"{example}.py"))["wait"]
    assert said == wait(SimpleNamespace(data_wait_fraction=fraction, data_wait_band=band))


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
    ran = run(*arguments)
    assert 2 == ran.returncode
    assert "expected --epochs" in ran.stderr


def halved(name: str) -> Callable[[Path], object]:
    """A damage: the second half of a file is gone."""
    return lambda at: os.truncate(at / name, (at / name).stat().st_size // 2)


def gone(name: str) -> Callable[[Path], object]:
    """A damage: there is no such file."""
    return lambda at: (at / name).unlink()


@pytest.mark.parametrize(
    ("damage", "arguments", "said"),
    [
        (None, ("digits.py", "--workers", "99999"), "/num_workers: expected an integer"),
        (None, ("characters.py", "--workers", "5000"), "/num_workers: expected an integer"),
        (gone("data/digits.npz"), ("digits.py",), "digits.npz: expected a file"),
        (halved("data/digits.npz"), ("digits.py",), "digits.npz: expected an npz file"),
        (gone("digits.json"), ("digits.py",), "/examples/digits.json'"),
        (halved("digits.json"), ("digits.py",), "digits.json:"),
        (
            lambda at: (at / "data/topics.txt").mkdir(),
            ("characters.py",),
            "; name a --folder of your own",
        ),
        (halved("characters.json"), ("characters.py",), "characters.json:"),
    ],
)
def test_what_keeps_an_example_from_training_is_one_line(
    copy: Path, damage: Callable[[Path], object] | None, arguments: tuple[str, ...], said: str
) -> None:
    """A wrong number, a file that is gone or damaged: its message, exit code 1, no traceback."""
    if damage:
        damage(copy)
    ran = run(copy / arguments[0], *arguments[1:])
    assert (1, "") == (ran.returncode, ran.stdout)
    assert ran.stderr.startswith(f"{arguments[0]}: ")
    assert said in ran.stderr
    assert 1 == ran.stderr.count("\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no error of its own for that")
@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.parametrize(
    "arguments",
    [
        ("digits.py", "--epochs", "1", "--read-ms", "0"),
        ("digits.py", "--help"),
        ("evaluate_ranks.py", "--ranks", "2", "--samples", "60"),
    ],
    ids=lambda it: it[-1],
)
def test_a_reader_that_has_gone_ends_an_example_without_a_word(
    arguments: tuple[str, ...], unbuffered: bool
) -> None:
    """As in `tools/demo | head -1`; nobody waits for the training then."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    with os.fdopen(writer, "wb") as closed:
        command = [sys.executable, EXAMPLES / arguments[0], *arguments[1:]]
        done = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert b"" == done.stderr
    # Python itself passes over it where a help that is not buffered is printed.
    assert (0 if unbuffered and "--help" in arguments else 1) == done.returncode


@pytest.mark.skipif(os.name == "nt", reason="a shell of Unix closes the descriptor")
def test_an_example_that_has_no_stdout_ends_well() -> None:
    command = f'"{sys.executable}" "{EXAMPLES / "evaluate_ranks.py"}" --ranks 2 --samples 60 >&-'
    done = subprocess.run(command, shell=True, env=ENVIRONMENT, capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize("example", ["digits.py", "characters.py", "tokens.py"])
@pytest.mark.parametrize("missing", ["numpy", "threadloader"])
def test_without_what_it_needs_an_example_says_so(
    tmp_path: Path, example: str, missing: str
) -> None:
    """Where numpy or threadloader is missing, it names it and the command that installs it.

    It can be pasted into a shell: a path with a space stands in quotes.
    """
    there = tmp_path / "my work" / "examples"
    there.mkdir(parents=True)
    for name in (example, "needs.py"):
        shutil.copy(EXAMPLES / name, there)
    if missing != "numpy":
        (tmp_path / "numpy.py").touch()
    # -S: without the packages that are installed.
    ran = run(there / example, flags=("-S",), env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)})
    assert (1, "") == (ran.returncode, ran.stdout)
    assert ran.stderr.startswith(f"{example}: No module named '{missing}'; install ")
    assert ran.stderr.endswith(f'{sys.executable} -m pip install "{tmp_path / "my work"}"\n')


@pytest.mark.parametrize("example", ["digits.py", "characters.py"])
def test_an_interrupt_while_numpy_loads_is_tidy(tmp_path: Path, example: str) -> None:
    """A Ctrl-C during the imports ends in exit code 130 and no traceback."""
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    ran = run(example, env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)})
    assert (130, "", "") == (ran.returncode, ran.stdout, ran.stderr)


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
