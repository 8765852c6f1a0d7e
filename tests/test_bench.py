"""``threadloader bench`` gives a table, JSON or a picture, and a line for whatever is wrong.

What real runs give is looked at for its form alone: no test looks at how long anything took.
"""

import argparse
import errno
import json
import os
import re
import signal
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from bench_folder import NPZ, QUICK, command, folder, write
from frameworks import framework
from links import make_link
from reports import SVG, report

from threadloader import cli
from threadloader._command_line import integer, number
from threadloader.adapters import torch_loader
from threadloader.bench import _command

__all__ = ["command", "folder"]  # the fixtures

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")


def test_the_json_has_the_documented_names_and_no_others():
    """Every name of the object and its parts is in backticks in docs/bench.md."""
    value = report({0: 10.0, 2: 20.0}, {0: 0.5, 2: 0.001}).as_dict()
    assert value == json.loads(json.dumps(value, allow_nan=False))
    names = {*value, *value["plan"], *value["system"], *value["data"], *value["choice"]}
    for row in value["results"]:
        names |= set(row)
    assert set() == {name for name in names if f"`{name}`" not in DOCUMENT}
    assert 1 == value["format"]


def test_the_tool_tells_of_the_suite(run_child):
    """What tools/bench can do beside the command stands in its help, behind the command's."""
    child = run_child(
        "import runpy, sys\n"
        "sys.argv = ['bench', '--help']\n"
        f"runpy.run_path({str(ROOT / 'tools' / 'bench')!r}, run_name='__main__')\n"
    )
    last = "tools/bench --suite measures kinds of work instead; its options: --suite --help"
    assert (0, last) == (child.returncode, child.stdout.splitlines()[-1])
    assert child.stdout.startswith("usage: threadloader bench ")


def test_every_option_is_documented(capsys):
    cli.main(["bench", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert set() == {option for option in options if f"| `{option}" not in DOCUMENT}


def test_the_command_prints_a_table_and_draws_a_picture(command):
    code, out, err = command(
        "c.json", *QUICK, "--workers", "0,2", "--step-ms", 0.1, "--svg", "p.svg"
    )
    assert 0 == code, err
    assert err == "run 1 of 2: num_workers 0 ...\nrun 2 of 2: num_workers 2 ...\n"
    assert out.startswith("c.json: batch_size 5, prefetch_batches 3, 3 batches an epoch. ")
    assert 1 == out.count("\nChoice: num_workers ")
    assert f"{SVG}svg" == ET.parse("p.svg").getroot().tag


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_a_config_may_come_through_a_pipe(command, folder):
    """Which can be read once."""
    source = {**NPZ, "path": str(folder / "x.npz")}
    reading, writing = os.pipe()
    os.write(writing, json.dumps({"source": source, "batch_size": 5}).encode())
    os.close(writing)
    code, out, err = command(f"/dev/fd/{reading}", *QUICK, "--workers", "0")
    os.close(reading)
    assert 0 == code, err
    assert out.startswith(f"/dev/fd/{reading}: batch_size 5")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_name_cannot_write_to_the_terminal(command, folder):
    name = write({"source": NPZ}, "x\x1b[2Jy.json")
    code, out, err = command(name, *QUICK, "--workers", "0")
    assert 0 == code, err
    assert "\x1b" not in out


def test_json_is_all_that_stdout_has(command):
    """A source given in code prints into it all the same, and is imported from here."""
    code, out, err = command(
        write({"t": {"batch_size": 3, "mine": 1, "num_workers": 7}}) + "#/t",
        *("--unknown", "ignore", "--source", "mine:Numbers", "--transform", "mine:noise"),
        *(*QUICK, "--workers", "2,0,2", "--json"),
    )
    assert (0, "") == (code, err)
    value = json.loads(out)
    assert ("c.json#/t", [0, 2], 4) == (
        value["config"],
        value["plan"]["workers"],
        value["data"]["steps"],
    )
    for row in value["results"]:
        assert 3 == row["batches"]
        assert row["samples_per_second"] > 0
        assert row["first_batch_seconds"] > 0
    assert [True, False] == [row["batches_ready"] is None for row in value["results"]]
    told = sys.platform in ("linux", "darwin")
    assert [told, told] == [row["peak_bytes"] is not None for row in value["results"]]


@pytest.mark.parametrize(
    "config",
    [
        {"source": NPZ, "batch_sise": 4},
        {"source": {**NPZ, "path": "none.npz"}, "num_workers": -1},
        {"source": NPZ, "shard": {"index": 2, "count": 1}},
        {},
    ],
    ids=str,
)
def test_a_bad_config_has_the_messages_of_check(command, capsys, config):
    write(config)
    expected = (cli.main(["check", "c.json"]), *capsys.readouterr())
    assert 1 == expected[0]
    assert expected == command("c.json")
    assert (expected[0], "", expected[1]) == command("c.json", "--json")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (number, "1_0", "expected a number, got '1_0'"),
        (number, " 1", "expected a number, got ' 1'"),
        (number, "\u0663", "expected a number, got '\u0663'"),
        (number, "", "expected a number, got ''"),
        (integer, "1.0", "expected an integer, got '1.0'"),
        (integer, "9" * 21, f"expected an integer of at most 20 digits, got '{'9' * 21}'"),
    ],
)
def test_numbers_are_read_as_a_shell_has_them(read, text, said):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert said == str(refused.value)


@pytest.mark.parametrize("text", ["1", "-1.5", ".5", "2.", "1e3", "+2E-3"])
def test_a_number_may_be_written_as_numbers_are(text):
    assert float(text) == number(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], "threadloader: cannot read none.json: "),
        (["c.json", "--workers", "1,x"], "usage: threadloader bench "),
        (["c.json", "--workers", "1,2000"], "threadloader bench: --workers: expected integers "),
        (["c.json", "--workers", "\u0663"], "usage: threadloader bench "),
        (["c.json", "--batches", "1_0"], "usage: threadloader bench "),
        (["c.json", "--repeat", "\u0663"], "usage: threadloader bench "),
        (["c.json", "--repeat", "-1"], "threadloader bench: --repeat: expected an integer from 1"),
        (["c.json", "--step-ms", "nan"], "threadloader bench: --step-ms: expected a number from"),
        (["c.json", "--compare", "jax"], "usage: threadloader bench "),
        (
            ["c.json", "--svg", "none/a.svg"],
            f"threadloader bench: cannot write none/a.svg: {os.strerror(errno.ENOENT)}",
        ),
        (
            ["c.json", "--svg", "."],
            f"threadloader bench: cannot write .: {os.strerror(errno.EISDIR)}",
        ),
        (["c.json", "--svg", "a\0.svg"], "threadloader bench: cannot write a\\x00.svg: "),
        (["c.json", "--svg", ""], "threadloader bench: --svg: expected the name of a file, got ''"),
        (["c.json", "--source", "mine:none"], "threadloader bench: --source: expected MODULE:FUNC"),
        (["c.json", "--source", ""], "usage: threadloader bench "),
        (["c.json", "--transform", ""], "usage: threadloader bench "),
        (["c.json", "--source", "none"], "threadloader bench: --source: expected MODULE:FUNCTION"),
        (
            ["c.json", "--source", "./mine.py:Numbers"],
            "threadloader bench: --source: expected MODULE:FUNCTION",
        ),
        (["c.json", "--source", "mine:os.name"], "threadloader bench: --source: expected a functi"),
    ],
    ids=str,
)
def test_bad_usage_is_code_2_and_a_line(command, arguments, said):
    code, out, err = command(*arguments)
    err = "".join(line for line in err.splitlines(True) if not line.startswith("run "))
    assert (2, "", said) == (code, out, err[: len(said)])
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("broken", r"--source: ValueError: no\ndata"),
        ("exits", "--source: SystemExit: enough"),
        ("leaves", "the process ended with code 3: it said nothing"),
        ("interrupted", "the process ended with code 130: it said nothing"),
        ("nothing", "expected a batch, got none: the source is empty, "),
        pytest.param(
            "killed",
            "the process was killed; ",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal"),
        ),
        pytest.param(
            "killed_beside_a_fork",
            "the process was killed; ",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows has no fork"),
        ),
    ],
)
def test_whatever_happens_in_a_run_is_code_1_and_a_line(command, source, said):
    code, out, err = command("c.json", "--source", f"mine:{source}", "--workers", "0", *QUICK)
    first, last = err.splitlines()
    assert (1, "", "run 1 of 1: num_workers 0 ...") == (code, out, first)
    assert last.startswith(f"threadloader bench: num_workers 0: {said}")


@pytest.mark.parametrize("option", ["source", "transform", "collate"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('no FOO')", "RuntimeError: no FOO"),
        ("raise SystemExit('enough')", "SystemExit: enough"),
    ],
)
def test_what_a_module_raises_at_its_import_is_told_with_option_and_name(
    command, option, statement, said
):
    """Of two modules that a command names, it is known which one failed."""
    Path("broken.py").write_text(statement, encoding="utf-8")
    code, out, err = command("c.json", f"--{option}", "broken:it", "--workers", "0", *QUICK)
    said = f"threadloader bench: num_workers 0: --{option}: broken:it: {said}"
    assert (1, "", said) == (code, out, err.splitlines()[-1])


def test_a_run_whose_later_epoch_has_no_batch_says_so(command):
    config = write({"batch_size": 5, "on_error": {"skip": 10}})
    code, out, err = command(config, "--source", "mine:OnceGood", "--workers", "0", *QUICK)
    told = "num_workers 0: expected a batch in each epoch, got none in epoch 1: all its samples"
    assert (1, "") == (code, out)
    assert err.splitlines()[-1].startswith(f"threadloader bench: {told}")


def test_a_function_that_forgets_its_return_is_bad_usage(command):
    """It must not measure the config's source in its place."""
    code, out, err = command("c.json", "--source", "mine:forgot", "--workers", "0", *QUICK)
    assert (2, "") == (code, out)
    assert "--source: expected a function that returns a source, got None" in err


def test_a_picture_that_cannot_be_written_in_the_end_is_code_2(command, monkeypatch):
    """What was measured is printed all the same."""
    monkeypatch.setattr(_command, "_refused", lambda path: "")
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    code, out, err = command("c.json", "--svg", "none/a.svg")
    assert (2, True) == (code, "Choice: num_workers 0." in out)
    assert err.startswith("threadloader bench: cannot write none/a.svg: ")


@pytest.mark.skipif(os.name == "nt", reason="the system keeps the folder that a process is in")
def test_a_picture_beside_nothing_is_refused(command, tmp_path, monkeypatch):
    """The current folder is gone, and the name is relative to it."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, out, err = command(str(tmp_path / "c.json"), "--svg", "p.svg")
    told = f"threadloader bench: cannot write p.svg: {os.strerror(errno.ENOENT)}"
    assert (2, "", told) == (code, out, err.strip())


@pytest.mark.parametrize("place", ["run", "picture", "stat"])
def test_what_a_signal_handler_raises_ends_the_command(command, monkeypatch, rung, place):
    """A timer's error is none of the system's: in the runs, and before and behind them."""
    patched = {
        "run": (_command, "run"),
        "picture": (_command, "picture"),
        "stat": (_command.stat, "S_ISDIR"),
    }
    Path("a.svg").write_text("", "utf-8")
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    monkeypatch.setattr(*patched[place], lambda *a, **k: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TimeoutError, match="rung"):
        command("c.json", "--svg", "a.svg")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_picture_goes_into_a_regular_file_alone(command):
    """A FIFO would be waited for when all is measured, until somebody reads it."""
    os.mkfifo("a.svg")
    code, out, err = command("c.json", *QUICK, "--workers", "0", "--svg", "a.svg")
    expected = "threadloader bench: cannot write a.svg: expected a regular file or a new name, got "
    assert (2, "", expected) == (code, out, err[: len(expected)])


@pytest.mark.parametrize("name", ["c.json", "./c.json", "x.npz", "drawn.svg"])
def test_a_picture_takes_the_place_of_a_picture_of_ours_alone(command, name):
    """Not of the config, nor of data or a drawing that nobody may have a copy of."""
    write({"source": NPZ, "batch_size": 5})
    Path("drawn.svg").write_text("<svg><!-- by hand --></svg>", "utf-8")
    before = Path(name).read_bytes()
    code, out, err = command("c.json", *QUICK, "--workers", "0", "--svg", name)
    expected = f"threadloader bench: cannot write {name}: expected a new name, or a picture that "
    assert (2, "", expected) == (code, out, err[: len(expected)])
    assert before == Path(name).read_bytes()


@pytest.mark.parametrize("before", ["", '<svg role="img" aria-labelledby="title about" />'])
def test_a_picture_may_take_the_place_of_one_or_of_nothing(command, monkeypatch, before):
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    Path("a.svg").write_text(before, "utf-8")
    assert 0 == command("c.json", "--svg", "a.svg")[0]
    assert f"{SVG}svg" == ET.parse("a.svg").getroot().tag


@pytest.mark.parametrize("failing", ["open", "replace"])
def test_a_picture_that_cannot_be_written_leaves_the_one_before_whole(
    command, monkeypatch, failing
):
    """As on a full disk, where a part of it may have been written."""
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    assert 0 == command("c.json", "--svg", "a.svg")[0]
    before, plain = Path("a.svg").read_bytes(), getattr(Path, failing)

    def full(path, *args, **options):
        if failing == "open" and args[0] != "x":
            return plain(path, *args, **options)
        if failing == "open":
            plain(path, *args, **options).close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, failing, full)
        code, _, err = command("c.json", "--svg", "a.svg")
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.ENOSPC)}\n"
    assert (2, expected, before) == (code, err, Path("a.svg").read_bytes())
    assert not list(Path().glob(".bench-*"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_picture_has_the_permissions_of_the_one_before(command, monkeypatch):
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    Path("a.svg").touch(0o600)
    assert 0 == command("c.json", "--svg", "a.svg")[0]
    assert 0o600 == Path("a.svg").stat().st_mode & 0o777


def test_a_picture_by_a_link_goes_where_that_leads(command, monkeypatch):
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    Path("sub").mkdir()
    make_link(Path("a.svg"), Path("sub") / "b.svg")
    assert 0 == command("c.json", "--svg", "a.svg")[0]
    assert Path("a.svg").is_symlink()
    assert f"{SVG}svg" == ET.parse("sub/b.svg").getroot().tag


def test_a_picture_on_a_file_system_that_is_read_only_is_told_so(command, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "ST_RDONLY", 1, raising=False)  # Windows has neither
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=1), raising=False)
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.EROFS)}\n"
    assert (2, "", expected) == command("c.json", "--svg", "a.svg")


def test_a_picture_by_a_link_into_a_folder_that_is_not_there_is_told_before_the_run(command):
    make_link(Path("a.svg"), Path("none") / "a.svg")
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.ENOENT)}\n"
    assert (2, "", expected) == command("c.json", "--svg", "a.svg")


@pytest.mark.parametrize(("there", "fixed"), [(True, "a.svg"), (True, "."), (False, ".")])
def test_a_picture_that_may_not_be_written_is_told_before_the_run(
    command, monkeypatch, there, fixed
):
    """A file or a folder of somebody else's."""
    if there:
        Path("a.svg").write_text("", "utf-8")
    other, plain = Path(fixed).resolve(), os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).resolve() != other and plain(path, mode)
    )
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.EACCES)}\n"
    assert (2, "", expected) == command("c.json", "--svg", "a.svg")


@pytest.mark.skipif(os.name == "nt", reason="there it is a name of no file until it is written")
def test_a_name_that_is_too_long_for_a_picture_is_told(command):
    name = "x" * 300
    code, out, err = command("c.json", "--svg", name)
    assert (2, "") == (code, out)
    assert re.fullmatch(f"threadloader bench: cannot write {name}: .+\n", err)


def test_without_torch_its_name_and_the_command_are_told(command, monkeypatch):
    monkeypatch.setattr(torch_loader, "is_installed", lambda: False)
    expected = "threadloader bench: --compare torch: expected torch, found none; write: pip install"
    code, out, err = command("c.json", "--compare", "torch")
    assert (2, "", expected) == (code, out, err[: len(expected)])


@pytest.mark.parametrize("broken", [None, ModuleType("torch.utils")], ids=["part", "attribute"])
def test_a_torch_that_is_broken_is_told_before_anything_is_measured(command, monkeypatch, broken):
    """As a folder of that name, which is a module of nothing."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.utils", broken)
    code, out, err = command("c.json", "--compare", "torch", *QUICK)
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert err.startswith("threadloader bench: --compare torch: expected a torch that can be imp")
    assert err.endswith("; write: pip install torch\n")


def test_both_loaders_are_measured_side_by_side(command):
    """With real processes of PyTorch; its rows have what it can tell."""
    framework("torch")
    code, out, err = command(
        "c.json", *QUICK, "--workers", "0,2", "--compare", "torch", "--json", "--step-ms", "0.1"
    )
    assert (0, "") == (code, err)
    value = json.loads(out)
    assert [("threadloader", 0), ("threadloader", 2), ("torch", 0), ("torch", 2)] == [
        (row["loader"], row["num_workers"]) for row in value["results"]
    ]
    assert value["system"]["torch"]
    last = value["results"][-1]
    assert (3, None, None) == (last["batches"], last["batches_ready"], last["cpu_cores"])
    assert any("PyTorch's DataLoader" in told for told in value["findings"])
