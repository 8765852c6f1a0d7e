"""Code that a command names takes the place of the config's, and its faults are told as its own."""

import importlib
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from checked import NPZ, checking, with_data, write

from threadloader import ConfigError, Loader, _dry_run, cli
from threadloader.loader import open_configured

folder = pytest.fixture(with_data)
check = pytest.fixture(checking)


def test_a_source_in_code_is_not_asked_for_nor_opened(check):
    name = write({"model": {}, "training": {"learning_rate": 1e-3, "batch_size": 16}})
    options = ("--source-in-code", "--unknown", "ignore")
    assert (0, f"{name}#/training: OK\n", "") == check(f"{name}#/training", *options)
    assert 0 == check(write({"source": {**NPZ, "path": "none.npz"}}), "--source-in-code")[0]
    code, out, _ = check(write({"batch_sise": 16}), *options)
    assert (1, 'did you mean "batch_size"?\n') == (code, out.split("; ")[1])
    code, out, _ = check(write({"batch_size": 16}))
    assert (1, True) == (code, "/source: expected a source here or source=... in code" in out)


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

class Panic(BaseException):
    # As of a library in Rust: it is no Exception.
    pass

def panicking(*given):
    raise Panic("rust")

def panicked(name):
    return type("Source", (Source,), {name: panicking})(range(4))

unread_panic = functools.partial(panicked, "__getitem__")
unmeasured_panic = functools.partial(panicked, "__len__")
unmarked_panic = functools.partial(panicked, "fingerprint")

def wrapping(function):
    @functools.wraps(function)
    def wrapper(given):
        return function(given)
    return wrapper

wrapped = wrapping(list)
wrapped_failing = wrapping(lambda given: failing())

class TooFew:
    def __call__(self, sample):
        return sample
    def many(self, samples, key, positions):
        return samples[:1]

too_few = TooFew()

def masking(samples):
    import threadloader
    bits = np.random.default_rng(0)
    return threadloader.MaskTokens(vocabulary=9, mask_token=8)(np.array([9]), rng=bits)

def ringing(*given):
    # The first time alone: a second try would hear it no more.
    import signal
    if not rung:
        rung.append(True)
        signal.raise_signal(signal.SIGINT)
    return 4

rung = []

def unmeasured_ring():
    return type("Source", (Source,), {"__len__": ringing})()

def nothing():
    pass

nobody = 3
"""


@pytest.fixture
def own(folder):
    """Gives the name of a module in the current folder, which has the above."""
    (folder / "own_parts.py").write_text(OWN)
    importlib.invalidate_caches()
    yield "own_parts"
    sys.modules.pop("own_parts", None)  # no other test finds it


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


def test_what_check_keeps_is_of_the_files_that_it_has_opened(check, folder, monkeypatch):
    """And not of those that took their place before the batch was read, of the same size."""

    def opened(*given):
        source = open_configured(*given)
        Path("after.txt").write_text("six\nten\n", encoding="utf-8")
        Path("after.txt").replace("words.txt")
        return source

    monkeypatch.setattr(_dry_run, "open_configured", opened)
    Path("words.txt").write_text("one\ntwo\n", encoding="utf-8")
    source = {"type": "text", "path": "words.txt"}
    options = {"batch_size": 2, "cache": {"folder": "kept"}, "shuffle": False}
    told = check(write({"source": source, **options}), "--batch")
    assert 0 == told[0], told
    with Loader("c.json") as batches:
        assert ["six", "ten"] == list(next(iter(batches)))


@pytest.mark.parametrize("json_", [False, True])
def test_beside_code_that_cannot_be_imported_what_is_wrong_with_the_config_is_told(
    check, own, json_
):
    Path("broken.py").write_text("raise ValueError('mine')\n", encoding="utf-8")
    name = write({"batch_size": 0, "source": NPZ})
    code, out, err = check(name, "--transform=broken:f", *["--json"] * json_)
    assert (1, True) == (code, "ValueError: mine" in err)
    if json_:
        assert ["", "/batch_size"] == sorted(it["pointer"] for it in json.loads(out)["problems"])
    else:
        assert out.startswith(f"{name}:1:16: /batch_size: expected ")


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


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"source": "panicking"}, "source"),
        ({"source": "unread_panic"}, "source"),
        ({"source": "unmeasured_panic"}, "source"),
        ({"source": "unmarked_panic"}, "source"),
        ({"transform": "panicking"}, "transform"),
        ({"collate": "panicking"}, "collate"),
        ({"sampler": "panicking"}, "sampler"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", {"skip": 5}])
def test_what_is_no_exception_is_told_as_one(check, own, given, place, on_error):
    """It is not skipped, and there is no traceback."""
    options = [f"--{part}={own}:{it}" for part, it in {"source": "source", **given}.items()]
    code, out, err = check(write({"on_error": on_error}), *options, "--batch")
    assert (1, 1, "") == (code, out.count("\n"), err)
    assert out.startswith(f"c.json: {place}: expected ")
    assert "got Panic: rust" in out


@pytest.mark.parametrize(
    "given", [{"transform": "ringing"}, {"source": "unmeasured_ring"}], ids=["batch", "entering"]
)
@pytest.mark.parametrize("on_error", ["raise", {"skip": 5}])
def test_what_a_signal_handler_raises_is_no_fault_of_the_code(check, own, rung, given, on_error):
    """It ends the command, and is not left out as a sample's error."""
    options = [f"--{part}={own}:{it}" for part, it in {"source": "source", **given}.items()]
    with pytest.raises(TimeoutError, match="rung"):
        check(write({"batch_size": 4, "on_error": on_error}), *options, "--batch")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"transform": "wrapped_failing", "collate": "wrapped"}, "transform"),
        ({"transform": "wrapped", "collate": "wrapped_failing"}, "collate"),
        ({"transform": "too_few"}, "transform"),
        ({"collate": "masking"}, "collate"),
        ({"transform": "wrapped", "sampler": "failing"}, "sampler"),
    ],
)
def test_the_part_is_told_that_was_called_whatever_code_it_shares(check, own, given, place):
    """As two functions wrapped by one decorator do, or a collate that calls our own transform."""
    options = [f"--{part}={own}:{it}" for part, it in {"source": "source", **given}.items()]
    code, out, _ = check(write({"batch_size": 4}), *options, "--batch")
    assert (1, True) == (code, out.startswith(f"c.json: {place}: expected a batch, got "))


def test_the_config_is_read_before_code_is_imported(check, folder, monkeypatch):
    """Which may go to another folder, where a file of that name may be another one."""
    (folder / "there").mkdir()
    (folder / "there" / "c.json").write_text('{"batch_size": 0}')
    text = "import os\nos.chdir('there')\ndef source(): return range(4)\n"
    (folder / "moving_parts.py").write_text(text)
    monkeypatch.delitem(sys.modules, "moving_parts", raising=False)
    assert (0, "c.json: OK\n", "") == check(write({}), "--source=moving_parts:source")


def test_modules_of_the_current_folder_come_first(check, folder, monkeypatch):
    """As with `python -m`; but not before what is imported already."""
    other = folder / "other"
    other.mkdir()
    (other / "first_parts.py").write_text("def source(): raise ValueError('another')")
    (folder / "first_parts.py").write_text("def source(): return range(4)")
    monkeypatch.syspath_prepend(other)
    assert (0, "c.json: OK\n", "") == check(write({}), "--source=first_parts:source")
    del sys.modules["first_parts"]


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
