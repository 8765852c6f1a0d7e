"""``threadloader verify``: what it prints, in a report or as JSON, and its exit code."""

import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import faults
import pytest
from verified import DOCUMENT, NPZ, report_of, unhurried, with_data

from threadloader import cli
from threadloader.fingerprint import digest
from threadloader.verify import _progress, _record
from threadloader.verify._progress import Progress

as_it_was = pytest.fixture(unhurried, autouse=True)
folder = pytest.fixture(with_data)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_a_config_may_come_through_a_pipe(capsys):
    """Which can be read once."""
    reading, writing = os.pipe()
    os.write(writing, b'{"batch_size": 4}')
    os.close(writing)
    code = cli.main(["verify", f"/dev/fd/{reading}", "--source", "faults:Source"])
    os.close(reading)
    told = capsys.readouterr()
    assert 0 == code, told
    assert told.out.startswith(f"/dev/fd/{reading}: OK: the same ")


def test_what_is_quick_says_nothing_and_what_is_not_tells_its_runs(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", float("inf"))
    assert "same" == report_of(shown=Progress(sys.stderr)).result
    assert "" == capsys.readouterr().err
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", 0)
    report = report_of(transform=faults.global_random, shown=Progress(sys.stderr))
    lines = capsys.readouterr().err.splitlines()
    assert "run 1 of 9: num_workers 0 ..." == lines[0]
    assert [f"run {n} of 9: {run} ..." for n, (run, _) in enumerate(report.runs, 2)] == lines[1:9]
    assert ["run 9 of 9: looking for the cause: each part alone ..."] == lines[9:]


def test_a_long_first_run_is_told_while_it_lasts(capsys):
    """Who waits for the first run learns of it before the second begins."""
    shown = Progress(sys.stderr)
    shown.begin(1, 9, "first")
    shown._silent_until = 0.0
    shown.tick()
    assert "run 1 of 9: first ...\n" == capsys.readouterr().err
    shown.tick()
    shown.close()
    assert "" == capsys.readouterr().err


MODULE = """
import random, signal, sys
import numpy as np
from faults import Source, SharedHandle as shared, bad_sample, global_numpy, shuffled, careless
from faults import ascending, permuted
from threadloader import SourceError

print("imported")

class Talking(Source):
    def __getitem__(self, index):
        print("read", index)
        return super().__getitem__(index)

def broken(): raise ValueError("no\\ndata")
def gone(): raise OSError(5, "it is gone")
def exits(): sys.exit("enough")
def stops(): raise StopIteration("no more")
def forgot(): pass
def interrupted(): signal.raise_signal(signal.SIGINT)
def empty(): return []

def lost(epoch, n): raise OSError(5, "it is gone")
def mute(epoch, n): raise OSError
def damaged(epoch, n): raise SourceError("bad", "a.txt")
def leaves(epoch, n): sys.exit("enough")
"""


@pytest.fixture
def command(folder, capsys, monkeypatch):
    """Gives a function that runs ``threadloader verify``: exit code, stdout, stderr."""
    (folder / "mine.py").write_text(MODULE, encoding="utf-8")
    (folder / "c.json").write_text(json.dumps({"source": NPZ, "batch_size": 4}), encoding="utf-8")
    path = sys.path[:]
    # On a slow machine it would tell how far it is.
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", float("inf"))

    def call(*arguments):
        code = cli.main(["verify", *map(str, arguments)])
        got = capsys.readouterr()
        assert path == sys.path
        return code, got.out, got.err

    yield call
    sys.modules.pop("mine", None)


def test_the_command_says_ok_in_one_line(command):
    code, out, err = command("c.json")
    assert (0, "") == (code, err)
    assert re.fullmatch(
        r"c.json: OK: the same 16 batches of 2 epochs, 60 samples, in 10 runs, [\d.]+ s; "
        r"fingerprint [0-9a-f]{32}\n",
        out,
    )


def test_the_command_makes_nothing_in_the_folder_of_a_cache_nor_of_a_quarantine(command):
    """Not even by trying the config out, before the first run."""
    on_error = {"skip": 1, "quarantine": "bad.jsonl"}
    config = {"source": NPZ, "cache": {"folder": "kept"}, "on_error": on_error}
    Path("c.json").write_text(json.dumps(config), encoding="utf-8")
    before = sorted(os.listdir())
    assert (0, "") == command("c.json")[::2]
    assert before == sorted(os.listdir())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--transform", "mine:careless"), 0, "  a danger: the transform uses the global random"),
        (("--transform", "mine:global_numpy"), 1, "  cause: the transform draws from the global"),
        (("--collate", "mine:shuffled"), 1, "  cause: the collate draws from the global random"),
        (("--transform", "mine:bad_sample"), 1, "c.json: ERRORS: "),
        (("--sampler", "mine:ascending"), 0, "c.json: OK: "),
        (("--sampler", "mine:permuted"), 1, "  cause: the sampler draws from the global random"),
    ],
)
def test_the_exit_code_says_whether_all_is_the_same(command, arguments, code, says):
    got, out, err = command("c.json", "--source", "mine:Source", *arguments)
    assert (code, "imported\n") == (got, err)
    assert says in out


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"sampler": {"type": "weighted", "weights": "gone.npy"}}, 0, "c.json: OK: "),
        ({"shuffle": True}, 1, "c.json:1:57: /shuffle: expected false or nothing"),
    ],
)
def test_a_sampler_that_the_command_names_is_one_in_code(command, config, code, says):
    """As in `Loader` the config's own is not looked at, and nothing may be shuffled beside it."""
    Path("c.json").write_text(json.dumps({"source": NPZ, **config}), encoding="utf-8")
    got, out, _ = command("c.json", "--sampler", "mine:ascending")
    assert (code, says) == (got, out[: len(says)])


def test_json_is_all_that_stdout_has(command):
    """What the user's code prints goes to stderr; the plan, a section and its options count."""
    Path("c.json").write_text(json.dumps({"t": {"batch_size": 3, "mine": 1}}), encoding="utf-8")
    code, out, err = command(
        *("c.json#/t", "--unknown", "ignore", "--source", "mine:Talking", "--json"),
        *("--transform", "mine:global_numpy", "--epochs", "3", "--batches", "4"),
    )
    value = json.loads(out)
    assert (1, "differs", "c.json#/t", 3, 4, 12) == (
        code,
        *(value[name] for name in ("result", "config", "epochs", "steps", "batches")),
    )
    assert "imported\nread " == err[:14]
    assert ["global-random"] == [cause["kind"] for cause in value["causes"]]
    assert {False} == {run["same"] for run in value["runs"]}
    assert value["runs"][-1]["run"].endswith(", in another process")


def test_a_name_with_a_line_end_stays_on_its_line():
    text = str(dataclasses.replace(report_of(), config="new\nline.json"))
    assert text.startswith("new\\nline.json: OK: ")
    assert 1 == len(text.splitlines())


def test_json_names_are_documented(command):
    """docs/verify.md explains each name of the JSON, whatever was found."""
    names = set()

    def collect(value):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, (dict, list)):
                collect(item)
        if isinstance(value, dict):
            names.update(value)

    report = report_of(transform=faults.global_random).as_dict()
    collect(report)
    collect(report_of(transform=faults.bad_sample).as_dict())
    assert {"run", "kind", "evidence", "error", "fingerprint"} < names
    assert set() == {name for name in names if f"`{name}`" not in DOCUMENT}
    assert 1 == report["format"]


def test_the_example_of_the_page_is_what_the_command_prints(command):
    """But for the numbers: config and transform of docs/verify.md give what stands there."""
    for name, text in re.findall(
        r"^```\w+\n(?://|#) (\S+)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL
    ):
        Path(name).write_text(text, encoding="utf-8")
    shutil.copy(Path(__file__).parent.parent / "examples" / "data" / "digits.npz", "digits.npz")

    def plain(text, only=r".*"):
        # Which rows differ, and after how many calls, is up to the random numbers.
        text = re.sub(r"rows .*?\), batch", "rows, batch", text, flags=re.DOTALL)
        return re.findall(only, re.sub(r"[0-9a-f]{32}|\d[\d.,]*", "0", re.sub(r"\s+", " ", text)))

    examples = re.findall(r"^\$ python3 tools/verify (.*)\n((?:.+\n)+?)```", DOCUMENT, re.MULTILINE)
    assert 2 == len(examples)
    for arguments, expected in examples:
        _, out, _ = command(*arguments.split())
        assert plain(expected.rstrip()) == plain(out.rstrip())


def test_every_option_is_documented(capsys):
    cli.main(["verify", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert set() == {option for option in options if f"| `{option}" not in DOCUMENT}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], "threadloader: cannot read none.json: "),
        (["c.json", "--epochs", "x"], "usage: threadloader verify "),
        (["c.json", "--epochs", "\u0663"], "usage: threadloader verify "),
        (["c.json", "--epochs", "0"], "threadloader verify: --epochs: expected an integer from 1"),
        (["c.json", "--batches", "1"], "threadloader verify: --batches: expected an integer from"),
        (["c.json", "--source", "mine:none"], "threadloader verify: --source: expected MODULE:F"),
        (["c.json", "--transform", "no"], "threadloader verify: --transform: expected MODULE:FU"),
        (
            ["c.json", "--source", "math"],
            "threadloader verify: --source: expected MODULE:FUNCTION, got math, without a function",
        ),
        (
            ["c.json", "--source", "math:"],
            "threadloader verify: --source: expected MODULE:FUNCTION, got math:, without a func",
        ),
        (["c.json", "--collate", "os:name"], "threadloader verify: --collate: expected a functio"),
        (["c.json", "--sampler", "os:name"], "threadloader verify: --sampler: expected a functio"),
        (["c.json", "--source", "mine:forgot"], "threadloader verify: --source: expected a funct"),
    ],
    ids=str,
)
def test_bad_usage_is_code_2_and_a_line(command, arguments, said):
    code, out, err = command(*arguments)
    err = err.removeprefix("imported\n")
    assert (2, "", said) == (code, out, err[: len(said)])
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("broken", r"--source: ValueError: no\ndata"),
        ("gone", "--source: OSError: [Errno 5] it is gone"),
        ("exits", "--source: SystemExit: enough"),
        ("stops", "--source: StopIteration: no more"),
        ("empty", "expected a batch, got none: the source is empty"),
    ],
)
def test_whatever_the_source_does_is_code_1_and_a_line(command, source, said):
    code, out, err = command("c.json", "--source", f"mine:{source}")
    said = f"imported\nthreadloader verify: {said}"
    assert (1, "", said) == (code, out, err[: len(said)])
    assert 2 == err.count("\n")


@pytest.mark.parametrize("option", ["source", "transform", "collate", "sampler"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('no FOO')", "RuntimeError: no FOO"),
        ("raise SystemExit('enough')", "SystemExit: enough"),
        ("import math; math.tau2", "AttributeError: module 'math' has no attribute 'tau2'"),
    ],
)
def test_what_a_module_raises_at_its_import_is_told_with_option_and_name(
    command, option, statement, said
):
    """Of several modules that a command names, it is known which one failed."""
    Path("broken.py").write_text(statement, encoding="utf-8")
    said = f"threadloader verify: --{option}: broken:it: {said}\n"
    assert (1, "", said) == command("c.json", f"--{option}", "broken:it")


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        ("lost", "OSError: [Errno 5] it is gone; threadloader: raised for the order of epoch 0"),
        ("mute", "OSError; threadloader: raised for the order of epoch 0"),
        ("damaged", "SourceError: a.txt: bad; threadloader: raised for the order of epoch 0"),
        (
            "leaves",
            (
                "WorkerError: SystemExit was raised for the order of epoch 0; "
                "its cause: SystemExit: enough"
            ),
        ),
    ],
)
def test_what_a_sampler_raises_is_told_with_its_place_and_its_cause(command, sampler, said):
    said = f"imported\nthreadloader verify: {said}\n"
    assert (1, "", said) == command("c.json", "--sampler", f"mine:{sampler}")


def test_a_bad_config_has_the_messages_of_check(command, capsys):
    Path("c.json").write_text('{"batch_sise": 4}', encoding="utf-8")
    expected = (cli.main(["check", "c.json"]), *capsys.readouterr())
    assert 1 == expected[0]
    assert expected == command("c.json")


def test_ctrl_c_is_one_line(command):
    """Nothing of it is left; the fixtures look for threads and files."""
    assert (130, "", "imported\nthreadloader: interrupted\n") == command(
        "c.json", "--source", "mine:interrupted"
    )


def test_ctrl_c_in_the_middle_of_a_run_is_one_line(command, monkeypatch):
    """It comes while a run with workers waits for a batch."""
    made = itertools.count()

    def interrupt(batch):
        if next(made) == 20:
            signal.raise_signal(signal.SIGINT)
        return digest(batch)

    monkeypatch.setattr(_record, "digest", interrupt)
    assert (130, "", "threadloader: interrupted\n") == command("c.json")


def test_what_a_signal_handler_raises_in_the_middle_of_a_run_ends_the_command(
    command, monkeypatch, rung
):
    """It is not told as a problem of the config."""
    monkeypatch.setattr(_record, "digest", lambda batch: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TimeoutError, match="rung"):
        command("c.json")


def test_the_tool_is_the_command(run_child, folder):
    """tools/verify of a checkout runs it, from any folder."""
    (folder / "c.json").write_text(json.dumps({"source": NPZ}), encoding="utf-8")
    tool = Path(__file__).parent.parent / "tools" / "verify"
    child = run_child(
        "import os, runpy, sys\n"
        f"os.chdir({str(folder)!r})\n"
        f"sys.argv = ['verify', 'c.json', '--epochs', '1']\n"
        f"runpy.run_path({str(tool)!r}, run_name='__main__')\n"
    )
    assert (0, "") == (child.returncode, child.stderr)
    assert child.stdout.startswith("c.json: OK: the same 1 batch of 1 epoch, 30 samples, in ")
