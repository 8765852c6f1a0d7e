"""``check --batch`` prints the shapes of a batch, or says what keeps it from being built."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checked import NPZ, TEXT, at, checking, with_data, write

from threadloader import _dry_run, _first_batch

folder = pytest.fixture(with_data)
check = pytest.fixture(checking)


def test_a_batch_is_built_and_its_shapes_printed(check):
    name = write({"source": NPZ, "batch_size": 4, "num_workers": 3})
    expected = """\
c.json: OK
x: shape (4, 2), dtype float64
y: shape (4,), dtype int64
"""
    assert (0, expected, "") == check(name, "--batch")
    assert (0, "c.json: OK\nbatch: list of 3\n", "") == check(write({"source": TEXT}), "--batch")


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
        "": b"z",
    }
    assert [
        "x/0: shape (2, 3), dtype uint8",
        "x/1: list of 2",
        "deep/m/0: shape (2,), dtype bool",
        "n: int",
        "none: list of 0",
        "'': bytes of 1",
    ] == list(_first_batch._shapes(batch))
    assert ["batch: shape (1,), dtype int32"] == list(_first_batch._shapes(np.zeros(1, np.int32)))


def test_of_a_pinned_batch_shapes_and_dtypes_are_printed_too():
    class Size(tuple):
        __slots__ = ()

        def __repr__(self):
            return "Size"

    tensor = SimpleNamespace(shape=Size((2, 3)), dtype="torch.uint8")
    assert ["x: shape (2, 3), dtype torch.uint8"] == list(_first_batch._shapes({"x": tensor}))


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
