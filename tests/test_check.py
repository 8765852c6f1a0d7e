"""``threadloader check`` says OK exactly when a loader enters, or else what is wrong and where."""

import json
import os
import re
import sys
import threading
from pathlib import Path

import pytest
from checked import NPZ, TEXT, at, checking, with_data, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadloader import Loader, LoaderError, SourceError, _dry_run
from threadloader.engine import FEWER
from threadloader.loader._supply import Supply
from threadloader.sources import text

MISSING = (
    "none; a relative path starts at the folder of the config file, or without one at the "
    "current folder"
)

folder = pytest.fixture(with_data)
check = pytest.fixture(checking)


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
    assert 3 == out.count(': expected a path inside the folder "root"') == out.count("expected")


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


def test_a_field_of_an_npy_source_that_is_missing_is_a_problem(check):
    """Such a source has no path, or null for one."""
    config = {"source": {"type": "npy", "fields": {"x": "nowhere.npy"}}}
    code, out, err = check(write(config))
    assert (1, 1, "") == (code, out.count("\n"), err)
    assert "nowhere.npy" in out


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
