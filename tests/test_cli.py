"""``threadloader check``: what it prints, its exit code, and that OK means "it enters"."""

import importlib
import io
import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import threadloader
from threadloader import (
    ConfigError,
    Loader,
    LoaderError,
    SourceError,
    _dry_run,
    _first_batch,
    _messages,
    cli,
)
from threadloader.adapters import launcher
from threadloader.engine import FEWER
from threadloader.loader._supply import Supply
from threadloader.sources import _progress, text

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with data, and no launcher around it; the current one."""
    np.savez(tmp_path / "x.npz", x=np.arange(12.0).reshape(6, 2), y=np.arange(6, dtype=np.int64))
    (tmp_path / "a.txt").write_bytes(b"one\n\nthree\n")
    (tmp_path / "ragged.txt").write_bytes(b"a\n")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.txt").touch()
    for name in os.environ:
        if any(name in (rank, *counts) for _, rank, counts in launcher.LAUNCHERS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(config, name="c.json"):
    text = config if isinstance(config, str) else json.dumps(config)
    Path(name).write_text(text, encoding="utf-8")
    return name


def at(name, part):
    """The place in a config of one line, as problems have it."""
    return f"{name}:1:{Path(name).read_text(encoding='utf-8').index(part) + 1}:"


@pytest.fixture
def check(folder, capsys):
    """Gives a function that runs ``threadloader check``: exit code, stdout, stderr."""

    def run(*arguments):
        code = cli.main(["check", *map(str, arguments)])
        got = capsys.readouterr()
        return code, got.out, got.err

    return run


NPZ = {"type": "npz", "path": "x.npz"}
TEXT = {"type": "text", "path": "a.txt"}
MISSING = (
    "none; a relative path starts at the folder of the config file, or without one at the "
    "current folder"
)
GONE = "" if os.name == "nt" else "No such file or directory\n"  # Windows has words of its own


def test_a_good_config_is_ok(check):
    assert (0, "c.json: OK\n", "") == check(write({"source": NPZ}))
    assert (0, "c.json#/a: OK\n", "") == check(write({"a": {"source": TEXT}}) + "#/a")


def test_paths_are_relative_to_the_config(check, folder, monkeypatch):
    write({"source": NPZ})
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert (0, "../c.json: OK\n", "") == check("../c.json")


def test_a_cache_is_made_beside_the_config(check, folder, monkeypatch):
    """And nowhere else; not at all for a source that is not there to say what it is."""
    write({"source": TEXT, "cache": {"folder": "kept"}})
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert (0, "../c.json: OK\n", "") == check("../c.json", "--source-in-code")
    assert not (folder / "kept").exists()
    assert (0, "../c.json: OK\n", "") == check("../c.json")
    assert (True, []) == ((folder / "kept").is_dir(), os.listdir())


@pytest.mark.parametrize("flags", [(), ("--batch",)])
def test_a_file_that_cannot_be_closed_is_a_problem_of_its_own(check, folder, monkeypatch, flags):
    """As over a network, where closing tells what went wrong before."""
    close = text.TextSource.close

    def refused(self):
        close(self)
        raise SourceError("expected a file that can be closed, got: Input/output error", "a.txt")

    monkeypatch.setattr(text.TextSource, "close", refused)
    config = {"source": TEXT, "collate": {"type": "pad"}}
    code, out, err = check(write(config), *flags)
    assert (1, "") == (code, err)
    assert "/source/path: expected a file that can be closed, got Input/output error; see" in out


def test_a_cache_outside_of_root_is_told_beside_a_source_that_is_missing(check, folder):
    code, out, err = check(
        write({"source": {**NPZ, "path": "b.npz"}, "root": ".", "cache": {"folder": "../kept"}})
    )
    told = re.findall(r" (/[a-z/]+): expected", out)
    assert (1, ["/source/path", "/cache/folder"], "") == (code, told, err)


def test_each_problem_is_a_line_with_its_place_the_sources_among_them(check, folder):
    name = write(
        """{ // two things, and the file
          "batch_size": 0,
          "source": {"type": "text", "path": ["a.txt", "b.txt"]},
          "num_worker": 1
        }"""
    )
    expected = f"""\
c.json:2:25: /batch_size: expected an integer from 1 to 2147483647, got 0
c.json:3:56: /source/path/1: expected a file, got {MISSING}; see {folder / "b.txt"}
c.json:4:11: /num_worker: expected a known key, got "num_worker"; did you mean "num_workers"?
"""
    assert (1, expected, "") == check(name)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({**NPZ, "path": "b.npz"}, ":1:36: /source/path: expected a file, got " + MISSING),
        ({**NPZ, "path": "."}, ":1:36: /source/path: expected a regular file, got a folder; see "),
        ({**NPZ, "path": "a.txt"}, ":1:36: /source/path: expected "),
        ({**NPZ, "fields": ["z"]}, ":1:55: /source/fields: expected arrays of the names "),
        ({**NPZ, "fields": {"x": "z"}}, ":1:55: /source/fields: expected arrays of the names "),
        (
            {**NPZ, "path": "n" * 5000},
            # To Windows it is a name like others.
            f":1:36: /source/path: expected a file{', got' if os.name == 'nt' else ' that can be'}",
        ),
        (
            {"type": "csv", "path": "a.csv", "fields": ["z"]},
            ":1:55: /source/fields: expected one column of this name, got none; there are 'x'",
        ),
        (
            {"type": "npy", "fields": {"x": "b.npy"}},
            ":1:44: /source/fields/x: expected a file, got none",
        ),
        (
            {"type": "files", "folder": "b"},
            ":1:40: /source/folder: expected the folder ",
        ),
        (
            {"type": "files", "folder": "a.csv"},
            ":1:40: /source/folder: expected the folder ",
        ),
        (
            {"type": "files", "folder": ".", "pattern": "*.no"},
            ":1:56: /source/pattern: expected a file that matches this pattern, got none",
        ),
        (
            {"type": "files", "folder": "f", "pattern": ".txt"},
            ":1:56: /source/pattern: expected a file of this name, got none",
        ),
        ({"type": "text", "path": ["b/*.txt"]}, ":1:38: /source/path/0: expected the folder "),
        (
            {"type": "files", "folder": ".", "label": {"csv": "b.csv", "file": "a", "label": "b"}},
            ":1:62: /source/label/csv: expected a file, got none",
        ),
        ({"type": "text", "path": ["b-*.txt"]}, ":1:38: /source/path/0: expected "),
        ({"type": "csv", "path": "*.csv", "quote": "x"}, ":1:36: /source/path: expected "),
    ],
    ids=str,
)
def test_a_source_that_does_not_open_is_a_problem_at_its_path(check, source, said):
    Path("a.csv").write_text("x\n1\n", encoding="utf-8")
    code, out, err = check(write({"source": source}))
    assert (1, "", 1) == (code, err, out.count("\n"))
    assert out.startswith("c.json" + said)


def test_a_source_whose_options_are_wrong_is_not_opened(check, monkeypatch):
    monkeypatch.setattr(_dry_run, "open_configured", None)
    name = write({"source": {**NPZ, "pth": 1}})
    expected = '/source/pth: expected a known key, got "pth"; did you mean "path"?'
    assert (1, at(name, '"pth"') + f" {expected}\n", "") == check(name)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error"),
        (MemoryError(), "MemoryError"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_whatever_a_source_raises_is_a_problem(check, monkeypatch, error, told):
    def broken(spec, base, root):
        raise error

    monkeypatch.setattr(_dry_run, "open_configured", broken)
    expected = f"/source: expected a source that opens, got {told}"
    assert (1, f"c.json:1:12: {expected}\n", "") == check(write({"source": NPZ}))


def test_a_shard_that_the_environment_does_not_give_is_a_problem(check, monkeypatch):
    name = write({"a": {"source": NPZ, "shard": "auto"}})
    assert 0 == check(f"{name}#/a")[0]
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, out, _ = check(f"{name}#/a")
    expected = at(name, '"auto"') + " /a/shard: expected RANK below "
    assert (1, expected) == (code, out[: len(expected)])
    assert (code, out) == check(f"{name}#/a", "--source-in-code")[:2]


def test_what_keeps_the_loader_from_entering_is_a_problem(check, monkeypatch):
    def fails(loader):
        raise RuntimeError("bad")

    monkeypatch.setattr(Loader, "__enter__", fails)
    expected = "the config: expected a loader that enters, got RuntimeError: bad"
    assert (1, f"c.json:1:1: {expected}\n", "") == check(write({"source": NPZ}))


def test_more_workers_than_the_system_starts_are_told_at_their_option(check, monkeypatch):
    start = threading.Thread.start

    def starting(thread):
        if thread.name == "threadloader-worker-3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    name = write({"source": NPZ, "num_workers": 99})
    code, out, err = check(name)
    expected = (
        "/num_workers: expected no more threads than the system starts, got 99; RuntimeError: "
        f"can't start new thread; {FEWER}"
    )
    assert (1, f"{at(name, '99')} {expected}\n", "") == (code, out, err)


def test_a_source_in_code_is_not_asked_for_nor_opened(check):
    name = write({"model": {}, "training": {"learning_rate": 1e-3, "batch_size": 16}})
    options = ("--source-in-code", "--unknown", "ignore")
    assert (0, f"{name}#/training: OK\n", "") == check(f"{name}#/training", *options)
    assert 0 == check(write({"source": {**NPZ, "path": "none.npz"}}), "--source-in-code")[0]
    code, out, _ = check(write({"batch_sise": 16}), *options)
    assert (1, 'did you mean "batch_size"?\n') == (code, out.split("; ")[1])
    code, out, _ = check(write({"batch_size": 16}))
    assert (1, True) == (code, "/source: expected a source here or source=... in code" in out)


def test_a_batch_is_built_and_its_shapes_printed(check):
    name = write({"source": NPZ, "batch_size": 4, "num_workers": 3})
    expected = """\
c.json: OK
x: shape (4, 2), dtype float64
y: shape (4,), dtype int64
"""
    assert (0, expected, "") == check(name, "--batch")
    assert (0, "c.json: OK\nbatch: list of 3\n", "") == check(write({"source": TEXT}), "--batch")


OWN = """
import functools
import numpy as np

class Source(list):
    closed = 0
    def close(self):
        Source.closed += 1
    def fingerprint(self):
        return "six"

def source():
    return Source({"x": np.arange(1 + i % 3), "y": i} for i in range(6))

def priced():
    prices = type("Prices", (list,), {"close": np.zeros(2)})
    return prices([1.0, 2.0])

def cut(sample):
    return {"x": sample["x"][:1], "y": sample["y"]}

def drawn(sample, *, rng):
    return rng.random(2)

def lengths(samples):
    return np.array([len(sample["x"]) for sample in samples])

def backwards(epoch, n):
    return range(n)[::-1]

def outside(epoch, n):
    return [n]

def failing(*given):
    raise ValueError("mine")

class Failing:
    def __call__(self, *given):
        raise ValueError("mine")

called = Failing()
partly = functools.partial(failing)

def unread():
    return type("Source", (Source,), {"__getitem__": failing})(range(4))

def unmeasured():
    return type("Source", (Source,), {"__len__": failing})()

def unmeasured_exit():
    return type("Source", (Source,), {"__len__": leaving})()

def unopened():
    import threadloader
    return threadloader.per_thread(failing)

def unmarked():
    return type("Source", (Source,), {"fingerprint": failing})(range(4))

def number():
    return 5

def leaving(sample=None):
    raise SystemExit(3)

def cancelled():
    import asyncio
    raise asyncio.CancelledError

def ended():
    raise GeneratorExit

def nothing():
    pass

nobody = 3
"""


@pytest.fixture
def own(folder, monkeypatch):
    """Gives the name of a module in the current folder, which has the above."""
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    (folder / "own_parts.py").write_text(OWN)
    importlib.invalidate_caches()
    return "own_parts"


BOTH = "x: shape (4, 1), dtype int64\ny: shape (4,), dtype int64\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transform": "cut"}, BOTH),
        ({"transform": "drawn"}, "batch: shape (4, 2), dtype float64\n"),
        ({"collate": "lengths"}, "batch: shape (4,), dtype int64\n"),
        ({"transform": "cut", "sampler": "backwards"}, BOTH),
    ],
)
def test_a_batch_is_built_with_what_is_given_in_code(check, own, given, said):
    name = write({"batch_size": 4})
    options = [f"--{part}={own}:{it}" for part, it in {"source": "source", **given}.items()]
    assert (0, f"c.json: OK\n{said}", "") == check(name, *options, "--batch")
    assert (0, "c.json: OK\n", "") == check(name, *options)
    assert 0 == sys.modules[own].Source.closed  # as a Loader leaves it open
    assert str(Path.cwd()) not in sys.path


def test_a_sampler_in_code_takes_the_place_of_one_that_is_not_there(check, own):
    """As in a Loader, which refuses to shuffle what it gives."""
    options = (f"--source={own}:source", f"--transform={own}:cut", f"--sampler={own}:backwards")
    lost = {"batch_size": 4, "sampler": {"type": "subset", "indices": "none.txt"}}
    assert (0, f"c.json: OK\n{BOTH}", "") == check(write(lost), *options, "--batch")
    assert 1 == check(write(lost), *options[:2])[0]
    code, out, _ = check(write({"shuffle": True}), *options)
    assert (1, True) == (code, "/shuffle" in out)
    with pytest.raises(ConfigError, match="/shuffle"):
        Loader("c.json", range(4), sampler=range(4))


def test_what_a_source_in_code_calls_close_need_be_no_function(check, own):
    expected = "c.json: OK\nbatch: shape (2,), dtype float64\n"
    assert (0, expected, "") == check(write({}), f"--source={own}:priced", "--batch")


@pytest.mark.parametrize("in_code", [False, True])
def test_what_check_keeps_of_a_batch_a_loader_finds(check, own, in_code):
    config = {"batch_size": 6, "cache": {"folder": "kept"}, "num_workers": 0}
    source = {} if in_code else {"source": NPZ}
    options = (f"--source={own}:source", f"--transform={own}:cut") if in_code else ()
    assert 0 == check(write({**config, **source}), *options, "--batch")[0]
    parts = sys.modules.get(own)
    given = {"source": parts.source(), "transform": parts.cut} if in_code else {}
    with Loader("c.json", **given) as batches:
        assert 6 == len(next(iter(batches))["y"])
        assert (6, 0) == (batches.stats().cache_hits, batches.stats().cache_misses)


def test_code_takes_the_place_of_what_the_config_says(check, own):
    np.savez("x.npz", x=np.arange(6))
    mlm = {"type": "mlm", "vocabulary": 4, "mask_token": 0, "field": "none"}
    name = write({"source": {"type": "npz", "path": "x.npz"}, "transform": mlm, "batch_size": 4})
    code, out, _ = check(name, "--batch")
    assert (1, True) == (code, ": /transform: expected a batch, got SourceError: mlm: " in out)
    options = ("--transform=builtins:dict", f"--source={own}:source", f"--collate={own}:lengths")
    expected = "c.json: OK\nbatch: shape (4,), dtype int64\n"
    assert (0, expected, "") == check(name, *options, "--batch")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ": /collate: expected a batch, got CollateError: field 'x': row 0 has "),
        ({"transform": "failing"}, "c.json: transform: expected a batch, got ValueError: mine; "),
        ({"collate": "failing"}, "c.json: collate: expected a batch, got ValueError: mine; "),
        ({"transform": "leaving"}, "transform: expected a batch, got WorkerError: SystemExit was"),
        ({"transform": "leaving"}, "; its cause: SystemExit: 3"),
        ({"collate": "leaving"}, "collate: expected a batch, got WorkerError: SystemExit was"),
        ({"sampler": "failing"}, "sampler: expected a batch, got ValueError: mine; threadloader"),
        *(
            ({part: it}, f"c.json: {part}: expected a batch, got ValueError: mine; ")
            for part, it in itertools.product(("transform", "collate"), ("called", "partly"))
        ),
        ({"sampler": "called"}, "c.json: sampler: expected a batch, got ValueError: mine; "),
        ({"source": "unread"}, "c.json: source: expected a batch, got ValueError: mine; "),
        ({"transform": "nothing"}, "c.json: transform: expected a callable of one sample, or "),
        ({"transform": "cut", "sampler": "outside"}, "c.json: sampler: expected indices from 0 to"),
    ],
)
def test_what_is_wrong_with_code_is_told_under_its_name(check, own, given, said):
    options = [f"--{part}={own}:{it}" for part, it in {"source": "source", **given}.items()]
    code, out, err = check(write({"batch_size": 4}), *options, "--batch")
    assert (1, True, "") == (code, said in out, err)
    assert "see its cause" not in out


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        ("--source=broken_parts:source", 1, "--source: broken_parts:source: ValueError: at import"),
        ("--source={own}:nothing", 2, "--source: expected a function that returns a source, got "),
        ("--transform={own}:nobody", 2, "--transform: expected a function, got "),
        ("--collate=no_such_module:f", 2, "--collate: expected MODULE:FUNCTION, which can be "),
        ("--source=:source", 2, "--source: expected MODULE:FUNCTION, with the module as in an imp"),
        ("--source={own}:source --source-in-code", 2, "--source: not allowed with --source-in"),
    ],
)
def test_code_that_is_not_there_or_fails_is_told_without_a_traceback(
    check, own, option, code, said
):
    Path("broken_parts.py").write_text("raise ValueError('at import')")
    got = check(write({"batch_size": 4}), *option.format(own=own).split())
    assert (code, "") == got[:2]
    assert f"threadloader check: {said}" == got[2][: len(f"threadloader check: {said}")]
    assert 1 == got[2].count("\n")


def test_a_module_in_which_there_is_no_such_function_is_told_with_its_file(check, folder):
    """It may be another one of the same name, of the standard library, say."""
    (folder / "json.py").write_text("def source(): return range(4)")  # too late: it is imported
    code, _, err = check(write({}), "--source=json:source")
    assert (2, True) == (
        code,
        err.endswith(f"no attribute 'source' (imported from {json.__file__})\n"),
    )
    code, _, err = check(write({}), "--source=sys:source")  # which has no file
    assert (2, True) == (code, err.endswith("no attribute 'source'\n"))


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tf", 2, "expected MODULE:FUNCTION, which can be imported here, got lazy_parts:tf: no tf"),
        ("other", 1, "lazy_parts:other: RuntimeError: mine"),
        ("leave", 1, "lazy_parts:leave: SystemExit: 3"),
        ("cancel", 1, "lazy_parts:cancel: CancelledError: mine"),
    ],
)
def test_a_module_that_imports_when_it_is_asked_is_as_one_that_did(check, folder, name, code, said):
    """By a `__getattr__` of its own (PEP 562); what it needs may not be there."""
    raised = {
        "tf": "ImportError('no tf')",
        "other": "RuntimeError('mine')",
        "leave": "SystemExit(3)",
        "cancel": "__import__('asyncio').CancelledError('mine')",
    }
    lines = [f"    if name == {it!r}: raise {what}" for it, what in raised.items()]
    (folder / "lazy_parts.py").write_text("\n".join(["def __getattr__(name):", *lines]))
    got = check(write({"batch_size": 4}), f"--source=lazy_parts:{name}")
    assert (code, "", f"threadloader check: --source: {said}\n") == got
    del sys.modules["lazy_parts"]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("unmeasured_exit", "SystemExit: 3"),
        ("leaving", "SystemExit: 3"),
        ("cancelled", "CancelledError"),
        ("ended", "GeneratorExit"),
    ],
)
def test_what_a_source_in_code_raises_is_told_with_its_cause(check, own, part, told):
    code, out, _ = check(write({}), f"--source={own}:{part}")
    assert (1, True) == (code, f"{told}\n" in out)


def test_modules_of_the_current_folder_come_first(check, folder, monkeypatch):
    """As with `python -m`; but not before what is imported already."""
    other = folder / "other"
    other.mkdir()
    (other / "first_parts.py").write_text("def source(): raise ValueError('another')")
    (folder / "first_parts.py").write_text("def source(): return range(4)")
    monkeypatch.syspath_prepend(other)
    monkeypatch.delitem(sys.modules, "first_parts", raising=False)
    assert (0, "c.json: OK\n", "") == check(write({}), "--source=first_parts:source")


@pytest.mark.parametrize("fault", ["failing", "unmeasured", "unopened", "unmarked", "number"])
def test_a_source_in_code_that_fails_hides_nothing_else(check, own, fault):
    options = (f"--collate={own}:nothing", f"--transform={own}:nothing")
    code, out, err = check(write({"batch_sise": 4}), f"--source={own}:{fault}", *options)
    places = [text.removeprefix("c.json").split(": ")[1] for text in out.splitlines()]
    assert (1, "") == (code, err)
    assert ["/batch_sise", "collate", "source", "transform"] == sorted(places)
    code, out, err = check(write({}), f"--source={own}:{fault}", "--batch")
    got = "ValueError: mine" if fault != "number" else "int; give an array, "
    assert (1, f"got {got}", "") == (code, out[out.find("got ") :][: len(f"got {got}")], err)


def test_every_fault_of_code_is_told(check, own):
    options = [f"--{part}={own}:nothing" for part in ("transform", "collate", "sampler")]
    code, out, _ = check(write({}), f"--source={own}:source", *options)
    places = [text.split(": ")[1] for text in out.splitlines()]
    assert (1, ["collate", "sampler", "transform"]) == (code, sorted(places))


@pytest.mark.parametrize("command", ["check", "verify"])
def test_what_a_sampler_in_code_replaces_is_not_tried(own, capsys, command):
    lost = {"type": "subset", "indices": "none.txt"}
    name = write({"batch_size": 4, "sampler": lost})
    options = (f"--source={own}:source", f"--transform={own}:cut")
    assert 1 == cli.main([command, name, *options])
    assert 0 == cli.main([command, name, *options, f"--sampler={own}:backwards"])


@pytest.mark.parametrize("command", ["check", "bench --workers 0 --batches 2 --repeat 1", "verify"])
def test_what_a_transform_in_code_replaces_is_not_tried(own, capsys, command):
    mlm = {"type": "mlm", "vocabulary": 2, "mask_token": 0, "special": [0, 1]}
    name = write({"batch_size": 4, "transform": mlm})
    source = f"--source={own}:source"
    assert 1 == cli.main([*command.split(), name, source])
    assert "/transform/special: expected" in "".join(capsys.readouterr())
    assert 0 == cli.main([*command.split(), name, source, f"--transform={own}:cut"])


def test_beside_a_source_that_is_missing_a_transform_in_code_is_tried(check, own):
    name = write({"source": {**NPZ, "path": "none.npz"}})
    code, out, _ = check(name, f"--transform={own}:nothing", f"--sampler={own}:failing")
    assert 1 == code
    assert ["/source/path", "transform"] == sorted(each.split(": ")[1] for each in out.splitlines())


@pytest.mark.parametrize("left_out", [{}, {"exclude": [0, 1, 2, 3, 4, 5]}, {"drop_last": True}])
def test_what_may_have_left_out_every_batch_is_named(check, left_out):
    """Nor is it said that there are samples, which an empty source has not."""
    np.savez("x.npz", x=np.zeros((6 if left_out else 0, 2)))
    expected = (
        "c.json: OK\n"
        "no batch: the source is empty, or its samples are left out (by exclude, on_error, the"
        " sampler, drop_last or the shard's remainder) or on other shards\n"
    )
    assert (0, expected, "") == check(write({"source": NPZ, **left_out}), "--batch")


def test_nested_batches_are_printed_by_field():
    batch = {
        "x": (np.zeros((2, 3), np.uint8), ["a", "b"]),
        "deep": {"m": [np.zeros(2, bool)]},
        "n": 3,
        "none": [],
    }
    assert [
        "x/0: shape (2, 3), dtype uint8",
        "x/1: list of 2",
        "deep/m/0: shape (2,), dtype bool",
        "n: int",
        "none: list of 0",
    ] == list(_first_batch._shapes(batch, ""))
    assert ["batch: shape (1,), dtype int32"] == list(
        _first_batch._shapes(np.zeros(1, np.int32), "")
    )


def test_of_a_pinned_batch_shapes_and_dtypes_are_printed_too():
    class Size(tuple):
        __slots__ = ()

        def __repr__(self):
            return "Size"

    tensor = SimpleNamespace(shape=Size((2, 3)), dtype="torch.uint8")
    assert ["x: shape (2, 3), dtype torch.uint8"] == list(_first_batch._shapes({"x": tensor}, ""))


def test_a_batch_that_cannot_be_built_is_a_problem(check):
    """An array that cannot be padded is found at the collate, a damaged sample at the source."""
    config = {"source": NPZ, "collate": {"type": "pad", "length": 1}, "shuffle": False}
    assert 0 == check(write(config))[0]
    code, out, _ = check(write(config), "--batch")
    expected = at("c.json", '{"type": "pad"') + " /collate: expected a batch, got CollateError: "
    assert (1, expected) == (code, out[: len(expected)])
    Path("a.txt").write_bytes(b"one\n\xff\n")
    assert 0 == check(write({"source": TEXT}))[0]
    code, out, _ = check(write({"source": TEXT}), "--batch")
    assert (1, 1) == (code, out.count("\n"))
    assert out.startswith("c.json:1:12: /source: expected a batch, got SourceError: ")
    assert "sample 1" in out


def test_a_batch_of_which_on_error_leaves_out_all_is_a_problem(check):
    """What was raised first is told, since nothing else says it."""
    Path("a.txt").write_bytes(b"\xff\n" * 40)
    config = {"source": TEXT, "batch_size": 8, "shuffle": False, "on_error": {"skip": 1000}}
    assert 0 == check(write(config))[0]
    code, out, _ = check(write(config), "--batch")
    expected = at("c.json", '{"skip"') + " /on_error: expected a batch, got none: all samples "
    assert (1, 1, expected) == (code, out.count("\n"), out[: len(expected)])
    assert "the first: SourceError: " in out
    assert "expected UTF-8" in out


@pytest.mark.parametrize(
    ("lines", "left", "skipped"),
    [([b"a"] * 7 + [b"\xff"], 7, 1), ([b"\xff"] * 39 + [b"a"], 1, 39), ([b"a"] * 8, 8, 0)],
    ids=["a sample", "batches", "none"],
)
def test_what_on_error_leaves_out_of_a_batch_is_said(check, lines, left, skipped):
    """Of the batch, and of those before it that were passed over; nothing, where there is none."""
    Path("a.txt").write_bytes(b"\n".join(lines))
    config = {"source": TEXT, "batch_size": 8, "shuffle": False}
    config["on_error"] = {"skip": 1000, "quarantine": "bad.jsonl"}
    code, out, _ = check(write(config), "--batch")
    said = out.splitlines()[2:]
    assert (0, f"c.json: OK\nbatch: list of {left}") == (code, "\n".join(out.splitlines()[:2]))
    told = f"samples left out by on_error, up to this batch: {skipped}; the first: SourceError: "
    assert [told] * bool(skipped) == [line[: len(told)] for line in said]
    assert not Path("bad.jsonl").exists()


def test_more_than_on_error_leaves_out_is_a_problem_of_the_source(check):
    Path("a.txt").write_bytes(b"\xff\n" * 4)
    code, out, _ = check(write({"source": TEXT, "on_error": {"skip": 3}}), "--batch")
    assert (1, "/source: expected a batch") == (code, out.split(" ", 1)[1][:25])
    assert "permits to skip 3, and 0 were skipped before this batch, in which more" in out


def test_what_comes_when_it_is_tried_again_is_a_batch(check, monkeypatch):
    """Each sample fails once."""

    class Failing(list):
        def __getitem__(self, index):
            if index not in tried:
                tried.add(index)
                raise ValueError(index)
            return index

    tried = set()
    monkeypatch.setattr(_dry_run, "open_configured", lambda *_: Failing(range(4)))
    name = write({"source": TEXT, "on_error": {"retry": 1, "backoff": 0}})
    assert (0, "c.json: OK\nbatch: shape (4,), dtype int64\n", "") == check(name, "--batch")


@pytest.mark.parametrize("collate", [{"type": "stack"}, {"type": "pad"}], ids=str)
@pytest.mark.parametrize("field", ["x", "y"])
def test_what_the_configs_transform_refuses_is_told_at_it(check, collate, field):
    """A field that it cannot take, and a token out of the vocabulary; also while it is padded."""
    np.savez("x.npz", x=np.full((6, 2), 9), y=np.zeros((6, 2)))
    transform = {"type": "mlm", "vocabulary": 5, "mask_token": 1, "field": field}
    name = write({"source": NPZ, "transform": transform, "collate": collate})
    code, out, _ = check(name, "--batch")
    expected = at(name, '{"type": "mlm"') + " /transform: expected a batch, got SourceError: "
    assert (1, expected) == (code, out[: len(expected)])


def test_the_effective_config_is_json_with_every_default(check):
    name = write('{"source": {"type": "npz", "path": "x.npz"}, "batch_size": 4.0 /* whole */}')
    code, out, err = check(name, "--effective", "--batch")
    with Loader(name):
        expected = Loader(name).config.as_dict()
    assert (0, expected) == (code, json.loads(out))
    assert "c.json: OK\nx: shape (4, 2), dtype float64\ny: shape (4,), dtype int64\n" == err
    assert (0, out, "again.json: OK\n") == check(write(out, "again.json"), "--effective")


def test_of_a_wrong_config_there_is_no_effective_one(check):
    code, out, err = check(write({"source": NPZ, "seed": -1}), "--effective")
    assert (1, "", 1) == (code, out, err.count("\n"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], f"threadloader: cannot read none.json: {GONE}"),
        (["none.json#/a"], f"threadloader: cannot read none.json#/a: {GONE}"),
        pytest.param(
            ["c.json/"],
            "threadloader: cannot read c.json/: Not a directory\n",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows says it otherwise"),
        ),
        (["c.json#a"], "threadloader: config: expected a JSON pointer after the #, "),
        (["a\0b"], "threadloader: config: expected the name of a file, got "),
        ([""], "threadloader: config: expected the name of a file, "),
        ([], "usage: threadloader check "),
        (["c.json", "d.json"], "usage: threadloader "),
        (["c.json", "--unknown", "maybe"], "usage: threadloader check "),
        (["c.json", "--batch", "--source-in-code"], "usage: threadloader check "),
    ],
    ids=str,
)
def test_bad_usage_and_files_that_cannot_be_read_are_code_2(check, arguments, said):
    write({"source": NPZ})
    code, out, err = check(*arguments)
    assert (2, "", said) == (code, out, err[: len(said)])


def test_a_command_is_asked_for(capsys):
    assert 2 == cli.main([])
    assert capsys.readouterr().err.startswith("usage: threadloader [-h] [--version] COMMAND")


def test_the_version_is_that_of_the_package_that_runs(capsys):
    """Which need not be installed."""
    assert 0 == cli.main(["--version"])
    got = capsys.readouterr()
    assert (f"threadloader {threadloader.__version__}\n", "") == (got.out, got.err)


def test_help_says_the_exit_codes(capsys):
    assert 0 == cli.main(["check", "--help"])
    assert "Exit code: 0 good; 1 a problem" in capsys.readouterr().out


def test_ctrl_c_ends_with_130_and_one_line(check, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_dry_run, "open_configured", interrupted)
    assert (130, "", "threadloader: interrupted\n") == check(write({"source": NPZ}))


def test_ctrl_c_in_code_that_is_named_ends_with_130_and_one_line(check, folder):
    (folder / "halted_import.py").write_text("raise KeyboardInterrupt")
    (folder / "halted_call.py").write_text("def it(): raise KeyboardInterrupt")
    for module in ("halted_import", "halted_call"):
        got = check(write({}), f"--source={module}:it")
        assert (130, "", "threadloader: interrupted\n") == got
        sys.modules.pop(module, None)


@pytest.mark.parametrize("code", [None, "the handler's word"])
def test_the_exit_of_a_signal_handler_is_none_of_the_arguments(check, monkeypatch, code):
    """argparse ends by one, too: with its help, or with what is wrong."""

    def rung(*args, **options):
        raise SystemExit(code)

    monkeypatch.setattr(cli, "examined", rung)
    with pytest.raises(SystemExit) as caught:
        check(write({"source": NPZ}))
    assert code == caught.value.code


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_ctrl_c_while_a_pager_lets_the_output_wait_ends_with_130_and_one_line(folder):
    """The output is longer than a pipe holds, and what is left of it waits for nobody."""
    write({"batch_size": 100_000})
    command = [sys.executable, "-m", "threadloader", "order", "c.json"]
    command += ["--samples", "100000", "--step", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stdout.read(1)  # it prints, and stays where the pipe is full
        running.send_signal(signal.SIGINT)
        assert 130 == running.wait(60)
        assert b"threadloader: interrupted\n" == running.stderr.read()


@pytest.mark.parametrize("command", [["check"], ["order", "--step", "0"], ["verify"]])
@pytest.mark.parametrize("kind", ["no word of terminals", "closed"])
def test_a_stderr_of_the_programs_own_may_be_less_than_a_stream(folder, monkeypatch, command, kind):
    class Least:
        def write(self, text):
            return len(text)

        def flush(self): ...

    stream = Least()
    if kind == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    first, *more = command
    assert 0 == cli.main([first, write({"source": NPZ}), *more])


@pytest.mark.parametrize("command", [["check"], ["order", "--step", "0"]])
@pytest.mark.parametrize(
    ("terminal", "logs", "told"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_how_far_a_source_is_is_shown_at_a_terminal(
    folder, capsys, monkeypatch, command, terminal, logs, told
):
    """Opening a large file may take long. Where a program has a log of its own, it is there."""
    log = logging.getLogger("threadloader")
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    monkeypatch.setattr(log, "propagate", logs)  # else to pytest's own handler
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    first, *more = command
    assert 0 == cli.main([first, write({"source": TEXT}), *more])
    got = capsys.readouterr()
    shown = re.fullmatch("(threadloader: .*looked.*\n)+", got.err) is not None
    assert (told, told) == (shown, bool(got.err))
    assert (logging.NOTSET, []) == (log.level, log.handlers)


def test_all_that_needs_no_source_is_told_beside_a_source_that_does_not_open(check):
    transform = {"type": "mlm", "vocabulary": 5, "mask_token": 9}
    config = {"source": {**TEXT, "path": "none.txt"}, "transform": transform}
    code, out, _ = check(write(config))
    places = [line.partition(": expected")[0] for line in out.splitlines()]
    assert code == 1
    assert [at("c.json", '"none.txt"') + " /source/path", "/transform/mask_token"] == [
        places[0],
        places[1].rpartition(" ")[2],
    ]


# Options that are wrong, and where that is told: some by the schema, some by what they name.
WRONG = {
    "batch_size": (0, "/batch_size"),
    "mine": (1, "/mine"),
    "transform": ({"type": "mlm", "vocabulary": 5, "mask_token": 9}, "/transform/mask_token"),
    "sampler": ({"type": "weighted", "weights": "none.npy"}, "/sampler/weights"),
    "exclude": ("none.txt", "/exclude"),
    "cache": ({"folder": "a.txt/kept"}, "/cache/folder"),
    "on_error": ({"skip": 1, "quarantine": "none/bad.jsonl"}, "/on_error/quarantine"),
    "pin_memory": (True, "/pin_memory"),
    "shard": ("auto", "/shard"),
}
# Paths of a source, and what is told of them.
PATHS = {
    "opens": ("a.txt", []),
    "is missing": ("none.txt", ["/source/path"]),
    "is refused": ([1], ["/source/path/0"]),
}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sets(st.sampled_from(sorted(WRONG))), st.sampled_from(sorted(PATHS)))
def test_all_that_is_wrong_is_told_at_once(check, options, kind):
    """Whatever of the options is wrong, in a section, and whether or not the source opens.

    A cache in a folder is not tried without a source, of which it keeps a fingerprint.
    """
    path, places = PATHS[kind]
    config = {"source": {**TEXT, "path": path}, **{it: WRONG[it][0] for it in sorted(options)}}
    places = places + [WRONG[it][1] for it in sorted(options) if it != "cache" or kind == "opens"]
    name = write({"one": {"exclude": 1}, "a": config})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", "2")
        patch.setenv("WORLD_SIZE", "2")
        patch.setitem(sys.modules, "torch", None)
        code, out, err = check(f"{name}#/a")
    told = [line.partition(": expected")[0].partition(" ")[2] for line in out.splitlines()]
    expected = [f"/a{place}" for place in places] or ["OK"]
    assert (int(bool(places)), expected, "") == (code, told, err)


def test_all_that_lies_outside_of_the_root_is_told(check):
    config = {
        "source": NPZ,
        "root": ".",
        "exclude": "../none.txt",
        "on_error": {"skip": 1, "quarantine": "../bad.jsonl"},
        "cache": {"folder": "../kept"},
    }
    code, out, _ = check(write(config))
    told = [line.split(" ")[1] for line in out.splitlines()]
    assert (1, ["/exclude:", "/on_error/quarantine:", "/cache/folder:"]) == (code, told)
    assert 3 == out.count('expected a path inside the folder "root"')


def test_without_the_bound_that_the_root_is_nothing_is_read(check):
    name = write({"source": TEXT, "root": 1, "exclude": "none.txt"})
    code, out, _ = check(name)
    expected = at(name, '1, "exclude') + " /root: expected a non-empty string or null, got 1\n"
    assert (1, expected) == (code, out)


def test_beside_a_section_whose_name_is_too_long_to_be_told_what_is_wrong_is_told(check):
    """Its pointers are cut, and say no more which options are right."""
    name = "a" * 2100
    text = f'{{"{name}": {{"seed": NaN, "source": {json.dumps(NPZ)}}}}}'
    code, out, err = check(f"{write(text)}#/{name}")
    assert (1, "", 1) == (code, err, out.count("\n"))
    assert out.startswith(at("c.json", "NaN") + " /aaa")
    assert "expected a finite number, got NaN" in out


def test_what_names_no_option_is_told_once_and_ends_it(check, monkeypatch):
    """Behind what the options before it have."""

    def fails(supply):
        raise RuntimeError("bad")

    monkeypatch.setattr(Supply, "start", fails)
    code, out, _ = check(write({"source": NPZ, "exclude": "none.txt"}))
    first, last = out.splitlines()
    assert code == 1
    assert first.startswith("c.json:1:1: the config: expected a loader that enters, got Runtime")
    assert " /exclude: expected " in last


@pytest.mark.parametrize("name", ["text", "csv"])
def test_a_file_that_is_named_like_its_type_is_told_at_its_path(check, folder, name):
    (folder / name).mkdir()
    code, out, _ = check(write({"source": {"path": name, "type": name}}))
    assert (code, out.startswith("c.json:1:21: /source/path: expected a regular file")) == (1, True)


def test_a_config_of_as_many_values_as_a_file_can_hold_is_ok(check):
    write('{"source": {"type": "text", "path": "a.txt"}, "exclude": [' + "0," * 2_000_000 + "0]}")
    assert (0, "c.json: OK\n", "") == check("c.json")


def test_what_is_quoted_cannot_break_a_line_or_reach_the_terminal(check):
    name = write({"a\n\x1b[31m": 1, "source": {**TEXT, "path": "b\n.txt"}})
    code, out, _ = check(name)
    assert (1, 2) == (code, out.count("\n"))
    assert out.replace("\n", "").isprintable()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "source": st.sampled_from([NPZ, TEXT, {**NPZ, "path": "no"}, {**NPZ, "fields": ["q"]}]),
            "shard": st.sampled_from(["auto", {"index": 1, "count": 2}, {"index": 1, "count": 1}]),
            "batch_size": st.sampled_from([1, 4.0, 0, True]),
            "num_workers": st.sampled_from([0, 1, 2]),
            "num_wokers": st.just(1),
            "mine": st.just(1),
        },
    ),
    st.sampled_from(["error", "ignore"]),
)
def test_ok_is_said_exactly_when_the_loader_enters(check, config, unknown):
    name = write(config)
    try:
        with Loader(name, unknown=unknown):
            enters = True
    except LoaderError:
        enters = False
    code, out, _ = check(name, "--unknown", unknown)
    assert ((0, True) if enters else (1, False)) == (code, out == f"{name}: OK\n")


def run(*command, **options):
    """Runs a command in a process of its own: exit code, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        **options,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "command", [["-m", "threadloader", "check"], [ROOT / "tools" / "checkcfg"]]
)
def test_the_commands_work_from_anywhere_and_in_any_encoding(folder, command):
    write({"source": NPZ, "é": 1})
    code, out, err = run(*command, "c.json", "--unknown", "ignore")
    assert (0, "c.json: OK", "") == (code, out.strip(), err)
    code, out, err = run(*command, "c.json")
    expected = at("c.json", '"\\u00e9"') + r" /\xe9: expected a known key, got "
    assert (1, expected, "") == (code, out[: len(expected)], err)


def test_a_reader_that_has_gone_is_no_error(folder):
    """The pipe's reading end is closed before the command writes."""
    write(json.dumps({f"key {number}": 1 for number in range(5000)}))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "checkcfg", "c.json"],
            check=False,
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (1, b"") == (done.returncode, done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
def test_output_that_cannot_be_written_is_code_2(folder):
    write({"source": NPZ})
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "checkcfg", "c.json"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (2, b"threadloader: the output cannot be written\n") == (done.returncode, done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["verify", "--help"]])
def test_help_that_cannot_be_written_is_code_2(arguments, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "threadloader", *arguments],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        )
    assert (2, b"threadloader: the output cannot be written\n") == (done.returncode, done.stderr)


def test_without_a_console_nothing_is_printed():
    assert cli._print(["a line"], None)


def test_a_stream_needs_no_more_than_to_be_written():
    written = []
    stream = SimpleNamespace(write=written.append, flush=lambda: None)
    assert cli._print(["a line"], stream)
    assert ["a line\n"] == written


def test_a_broken_pipe_is_left_alone_where_there_is_no_device_for_nothing(monkeypatch):
    monkeypatch.setattr(os, "devnull", os.path.join(os.devnull, "none"))
    reader, writer = os.pipe()
    os.close(reader)
    closed = os.fdopen(writer, "w")
    assert cli._print(["a line"], closed)
    with suppress(OSError):
        closed.close()


def test_a_pipe_that_has_been_closed_is_left_alone():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        assert cli._print(["a line"], closed)
        assert cli._print(["another line, to nowhere"], closed)


def test_a_stdout_that_takes_nothing_is_said_on_stderr(check, capsys, monkeypatch):
    with open(os.devnull) as for_reading:
        monkeypatch.setattr(sys, "stdout", for_reading)
        assert 2 == cli.main(["check", write({"source": NPZ})])
    assert "threadloader: the output cannot be written\n" == capsys.readouterr().err


def test_a_field_of_an_npy_source_that_is_missing_is_a_problem(check):
    """Such a source has no path, or null for one."""
    config = {"source": {"type": "npy", "fields": {"x": "nowhere.npy"}}}
    code, out, err = check(write(config))
    assert (1, 1, "") == (code, out.count("\n"), err)
    assert "nowhere.npy" in out


def test_an_exception_that_cannot_be_printed_is_told_by_its_class():
    class Mute(type):
        @property
        def __name__(cls):
            raise KeyError("no name")

    class Odd(Exception, metaclass=Mute):
        def __str__(self):
            raise KeyError("no text")

    assert "Odd (not printable: KeyError)" == _messages.in_words(Odd())


@pytest.mark.parametrize(
    "options", [{"exclude": "none.npy"}, {"on_error": {"skip": 1, "quarantine": "q"}}, {}]
)
def test_a_root_that_is_none_hides_nothing_else_and_is_told_once(check, monkeypatch, options):
    monkeypatch.setenv("RANK", "4")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = {"type": "npz", "path": "x.npz"}
    config = {"source": source, "root": "nope", "shard": "auto", **options}
    code, out, _ = check(write(config))
    told = sorted(line.split(": ")[1] for line in out.splitlines())
    assert (1, ["/root", "/shard"]) == (code, told)


def test_a_sample_that_has_no_label_is_told_at_the_source(check, folder, monkeypatch):
    """And what else is wrong beside it."""
    monkeypatch.setenv("RANK", "4")
    monkeypatch.setenv("WORLD_SIZE", "2")
    (folder / "t.jsonl").write_text('{"a": 1}\n')
    source = {"type": "jsonl", "path": "t.jsonl", "fields": ["y"]}
    sampler = {"type": "balanced", "field": "y"}
    name = write({"source": source, "sampler": sampler, "shard": "auto"})
    code, out, _ = check(name)
    assert (1, 2) == (code, out.count("\n"))
    assert " /shard: expected RANK below " in out
    assert out.startswith(at(name, '"t.jsonl"') + " /source/path: expected an object with 'y', got")
    assert "t.jsonl, line 1" in out
