"""`on_error`: samples that fail are tried again, left out within a budget, listed and counted."""

import bdb
import contextlib
import errno
import gc
import io
import itertools
import json
import os
import signal
import sqlite3
import threading
import weakref
from collections import OrderedDict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep import Interrupt, Sweep

from threadloader import (
    BatchInfo,
    BusyError,
    ClosedError,
    CollateError,
    ConfigError,
    Loader,
    SourceError,
    WorkerError,
    per_thread,
    quarantine,
)
from threadloader.cli import main
from threadloader.jobs import Pause, Policy, Recipe, RetryingJob, Span, UncutError
from threadloader.jobs._cut import cut, join
from threadloader.quarantine import Quarantine
from threadloader.sources import _sqlite_errors

WORKERS = st.sampled_from([0, 1, 3])


class Failing:
    """Sample i is i; some fail always, some a number of times in each thread-safe count."""

    def __init__(self, n, bad=(), flaky=()):
        self.n, self.bad = n, frozenset(bad)
        self._left = dict(flaky)
        self._guard = threading.Lock()

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        with self._guard:
            left = self._left.get(index, 0)
            self._left[index] = left - 1
        if left > 0:
            raise OSError(f"sample {index} fails for now")
        if index in self.bad:
            raise ValueError(f"sample {index} is bad")
        return index

    def locate(self, index):
        return f"data/{index}.bin"


class AllAtOnce(Failing):
    """Reads the samples of a batch in one call."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Whole(Failing):
    """Makes whole batches."""

    def take(self, indices):
        return np.array([self[int(index)] for index in indices])


KINDS = st.sampled_from([Failing, AllAtOnce, Whole])


def run(batches):
    """Lists (rows, step, skipped) of each batch that is delivered."""
    return [(batch.tolist(), batches.info.step, batches.info.skipped) for batch in batches]


def steps(n, batch_size, bad):
    """What `run` gives for an order that is not shuffled, by the contract."""
    made, passed = [], ()
    for step, first in enumerate(range(0, n, batch_size)):
        rows = range(first, min(first + batch_size, n))
        left = [row for row in rows if row not in bad]
        passed += tuple(row for row in rows if row in bad)
        if left:
            made.append((left, step, passed))
            passed = ()
    return made


@given(st.data(), KINDS, WORKERS, st.integers(1, 20), st.integers(1, 6))
def test_what_fails_is_left_out_of_its_batch_and_nothing_else(data, kind, workers, n, size):
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        "on_error": {"skip": len(bad)},
    }
    with Loader(config, source=kind(n, bad)) as batches:
        assert steps(n, size, bad) == run(batches)
        assert (len(bad), n - len(bad)) == (batches.stats().skipped, batches.stats().samples)


@given(st.data(), KINDS, WORKERS, st.integers(1, 20), st.integers(1, 6))
def test_what_succeeds_after_some_tries_is_delivered_and_counted(data, kind, workers, n, size):
    flaky = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(1, 3)))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        # Else an epoch that is prepared ahead may meet a failure of this one.
        "num_epochs": 1,
        "on_error": {"retry": 3, "backoff": 0},
    }
    with Loader(config, source=kind(n, flaky=flaky)) as batches:
        assert steps(n, size, ()) == run(batches)
        # A source that reads many at once fails once as a whole, before it is asked row by row.
        least = sum(flaky.values()) if kind is Failing else 0
        assert least <= batches.stats().retried <= sum(flaky.values())
        assert batches.stats().skipped == 0


@given(st.data(), WORKERS, st.integers(1, 12), st.integers(1, 4))
def test_the_budget_permits_so_many_and_the_next_is_raised(data, workers, n, size):
    """A batch with samples above the budget is raised whole; the next one follows."""
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    budget = data.draw(st.integers(0, n))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        "on_error": {"skip": budget},
    }
    expected, spent = [], 0
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        failing = [row for row in rows if row in bad]
        if spent + len(failing) > budget:
            expected.append(f"sample {failing[0]} is bad")
        else:
            spent += len(failing)
            expected += [[row for row in rows if row not in bad]] if set(rows) - bad else []
    got = []
    with Loader(config, source=Failing(n, bad)) as batches:
        epoch = iter(batches)
        while True:
            try:
                got.append(next(epoch).tolist())
            except StopIteration:
                break
            except ValueError as error:
                got.append(str(error))
        assert spent == batches.stats().skipped
    assert expected == got


@given(st.data(), KINDS, WORKERS, st.integers(1, 16), st.integers(1, 5), st.booleans())
def test_a_run_that_is_cut_leaves_out_the_same_and_goes_on_counting(
    data, kind, workers, n, size, shuffle
):
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    config = {
        "batch_size": size,
        "shuffle": shuffle,
        "num_workers": workers,
        "on_error": {"skip": 2 * len(bad)},
    }

    def two_epochs(batches):
        for epoch in batches.epochs(2):
            for batch in epoch:
                yield epoch.number, batch.tolist(), batches.info.skipped

    with Loader(config, source=kind(n, bad)) as batches:
        whole = list(two_epochs(batches))
        end = batches.state_dict()
    cut = data.draw(st.integers(0, len(whole)))
    with Loader(config, source=kind(n, bad)) as batches:
        seen = list(islice(two_epochs(batches), cut))
        state = json.loads(json.dumps(batches.state_dict()))
    with Loader(config, source=kind(n, bad), resume=state) as batches:
        seen += two_epochs(batches)
        assert whole == seen
        assert end == batches.state_dict()


def test_a_spent_budget_stays_spent_after_a_resume():
    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(3, {0, 2})) as batches:
        next(iter(batches))
        state = batches.state_dict()
    with Loader(config, source=Failing(3, {0, 2}), resume=state) as batches:
        with pytest.raises(ValueError, match="sample 2 is bad") as caught:
            next(iter(batches))
    assert any('"on_error" permits to skip 1' in note for note in caught.value.__notes__)


def test_a_transform_is_tried_again_with_the_same_random_numbers():
    seen, guard = {}, threading.Lock()

    def transform(sample, rng):
        drawn = int(rng.integers(1 << 30))
        with guard:
            first = sample not in seen
            seen.setdefault(sample, []).append(drawn)
        if first:
            raise RuntimeError("the first time")
        return drawn

    config = {"batch_size": 4, "num_epochs": 1, "on_error": {"retry": 1, "backoff": 0}}
    with Loader(config, source=range(8), transform=transform) as batches:
        got = np.concatenate(list(batches)).tolist()
    assert sorted(got) == sorted(drawn for _, drawn in seen.values())
    assert all(first == second for first, second in seen.values())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_would_end_the_program_is_never_left_out(kind, workers):
    def transform(sample):
        if sample == 1:
            raise kind
        return sample

    config = {"batch_size": 2, "num_workers": workers, "on_error": {"retry": 2, "skip": 9}}
    with Loader(config, source=range(2), transform=transform) as batches:
        with pytest.raises(RuntimeError, match=kind.__name__):
            next(iter(batches))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["row", "whole", "kept"])
def test_who_leaves_the_debugger_ends_the_loop(kind, workers):
    """With "q" at the prompt of a `breakpoint()`: no sample is at fault."""
    left = []

    class Broken(Failing):
        def __getitem__(self, index):
            if index == 1:
                left.append(index)
                raise bdb.BdbQuit
            return index

        if kind == "whole":

            def __getitems__(self, indices):
                return [self[index] for index in indices]

        if kind == "kept":  # what is left is read as a whole, once more

            def take(self, indices):
                if 0 in indices:
                    raise ValueError("sample 0 is bad")
                if len(indices) > 1:
                    raise bdb.BdbQuit(left.append(1))
                return indices

    config = {"batch_size": 4, "num_workers": workers, "shuffle": False, "num_epochs": 1}
    config["on_error"] = {"retry": 2, "backoff": 0, "skip": 9}
    with Loader(config, Broken(4)) as batches, pytest.raises(bdb.BdbQuit):
        next(iter(batches))
    assert [1] == left


class Panicked(BaseException):
    """What a library written in Rust raises where it gives up: no `Exception`."""


def test_what_is_no_exception_is_left_out_once_it_is_made_one():
    """In the transform; else it is neither tried again nor left out."""
    tried = []

    def panicking(sample):
        tried.append(sample)
        if sample == 1:
            raise Panicked
        return sample

    def catching(sample):
        try:
            return panicking(sample)
        except Panicked as error:
            raise ValueError("it gives up") from error

    on_error = {"retry": 2, "backoff": 0, "skip": 9}
    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, source=range(2), transform=panicking) as batches:
        with pytest.raises(Panicked):
            next(iter(batches))
    assert [0, 1] == tried
    with Loader(config, source=range(2), transform=catching) as batches:
        assert [[0]] == [batch.tolist() for batch in batches]


def test_a_collate_that_fails_is_raised():
    """It is no sample's fault that two of them do not fit together."""
    source = [np.zeros(2), np.zeros(3)]
    config = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 9}}
    with Loader(config, source=source) as batches:
        with pytest.raises(ValueError, match="shape") as caught:
            next(iter(batches))
    assert not any("permits" in note for note in caught.value.__notes__)


def test_padding_that_fails_is_left_out_and_not_counted():
    """It repeats a sample that is counted where it is no padding."""
    shard = {"index": 1, "count": 2, "remainder": "pad"}
    config = {"batch_size": 2, "shuffle": False, "shard": shard, "on_error": {"skip": 0}}
    with Loader(config, source=Failing(5, {0})) as batches:
        assert [([2, 3], 0, ())] == run(batches)
        assert batches.stats().skipped == 0


def test_info_has_the_rows_that_are_left():
    config = {"batch_size": 4, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
        info: BatchInfo = batches.info
    assert [0, 1, 3] == info.indices.tolist()
    assert (np.int64, np.bool_) == (info.indices.dtype, info.valid.dtype)
    assert [True] * 3 == info.valid.tolist()
    assert not info.indices.flags.writeable
    assert not info.valid.flags.writeable


def test_large_rows_come_whole_where_one_is_left_out():
    """Rows that would be written straight into the batch are as they are without the policy."""

    def transform(sample):
        if sample == 5:
            raise ValueError("bad")
        return np.full(40_000, sample)

    config = {"batch_size": 8, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=range(8), transform=transform) as batches:
        (batch,) = batches
    assert [0, 1, 2, 3, 4, 6, 7] == batch[:, 0].tolist()
    assert (batch == batch[:, :1]).all()


def test_small_batches_of_an_array_are_made_in_groups_all_the_same():
    """Where a group fails, its batches are made one by one, and only the sample is left out."""
    config = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Whole(400, {301})) as batches:
        assert steps(400, 2, {301}) == run(batches)


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_of_a_long_message_the_file_has_the_beginning(tmp_path):
    class Talkative(list):
        def __getitem__(self, index):
            raise ValueError("x" * 10**6)

    path = tmp_path / "bad.jsonl"
    with Loader({"on_error": {"skip": 1, "quarantine": str(path)}}, Talkative([0])) as batches:
        assert [] == list(batches)
    (line,) = lines(path)
    assert ("ValueError: xxx", 20_000) == (line["error"][:15], len(line["error"]))


def test_the_quarantine_file_lists_each_sample_once_and_exclude_takes_it(tmp_path):
    path = tmp_path / "bad.jsonl"
    options = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "seed": 5, "on_error": options}
    with Loader(config, source=Failing(20, {3, 7, 11})) as batches:
        list(batches)
        left_out = {line["index"]: line for line in lines(path)}
    assert ({3, 7, 11}, 3) == (set(left_out), len(lines(path)))
    assert left_out[7]["path"] == "data/7.bin"
    assert left_out[7]["error"] == "ValueError: sample 7 is bad"
    assert "in __getitem__" in left_out[7]["traceback"]
    with Loader({"batch_size": 4, "exclude": str(path)}, source=Failing(20, {3, 7, 11})) as batches:
        got = np.concatenate(list(batches)).tolist()
    assert sorted(set(range(20)) - {3, 7, 11}) == sorted(got)


def test_what_is_prefetched_and_never_asked_for_is_not_listed(tmp_path):
    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "shuffle": False, "prefetch_batches": 8}
    config["on_error"] = {"skip": 9, "quarantine": str(path)}
    with Loader(config, source=Failing(8, {4})) as batches:
        next(iter(batches))
    assert not path.exists()


def test_a_torn_last_line_is_cut_off_by_the_next(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n{"index": 1, "pa', "utf-8")
    config = {"batch_size": 4, "on_error": {"skip": 9, "quarantine": str(path)}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
    assert [9, 2] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize("last", ['{"index": 7}', "7", '{"path": null, "index": 7}'])
def test_a_last_line_without_its_end_stays(last, tmp_path):
    """As somebody may write it by hand, and `exclude` takes it."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n' + last, "utf-8")
    config = {"batch_size": 4, "on_error": {"skip": 9, "quarantine": str(path)}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
    assert ['{"index": 9}', last] == path.read_text("utf-8").split("\n")[:2]
    assert 2 == lines(path)[2]["index"]


DATA = [b'{"a": 1}\n', b'{"index": "a"}\n', b'{"index": true}\n', b"[1, 2]\n", b'"a"\n', b"1.5\n"]
"""Lines of JSON that are no list of samples: data of the user's, perhaps."""


@pytest.mark.parametrize(
    "content",
    [b"x" * 50, bytes(50), b"{" + bytes(50), b"PK\x03\x04", b"{\n  'a': 1}", b"\xff{}", *DATA],
)
def test_a_quarantine_that_is_another_file_is_refused(content, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="quarantine: expected lines of JSON with an index, got"):
        Loader({"on_error": {"skip": 1, "quarantine": str(path)}}, source=range(4)).__enter__()
    assert content == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"\n", b'{"index": 9, "pa', b'{"in', b"7\n", b"12"])
def test_a_quarantine_that_another_run_or_a_hand_has_begun_is_taken(content, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    Quarantine(path).add([{"index": 3}])
    assert b'{"index": 3}' == path.read_bytes().splitlines()[-1]


def test_a_quarantine_that_cannot_be_written_loses_nothing(tmp_path):
    """The error comes out of `next`; once it is mended, the same batch comes, and its line."""
    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 2, "shuffle": False}
    config["on_error"] = {"skip": 9, "quarantine": str(path)}
    with Loader(config, source=Failing(4, {1})) as batches:
        epoch = iter(batches)
        path.mkdir()
        with pytest.raises(OSError, match=r"bad\.jsonl"):
            next(epoch)
        path.rmdir()
        assert [0] == next(epoch).tolist()
        assert (1,) == batches.info.skipped
    assert [1] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_a_last_batch_that_is_passed_over_are_told_with_the_next_epoch(workers):
    config = {"batch_size": 2, "shuffle": False, "num_workers": workers, "on_error": {"skip": 9}}
    told = []
    with Loader(config, source=Failing(4, {2, 3})) as batches:
        for epoch in batches.epochs(3):
            told += [batches.info.skipped for _ in epoch]
    assert [(), (2, 3), (2, 3)] == told


def raising(kind):
    """Gives a transform that raises that."""

    def transform(sample):
        raise kind

    return transform


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("check", "--batch"),
        ("bench", "--workers", "0", "--batches", "2", "--repeat", "1"),
    ],
)
def test_commands_write_nothing_into_a_quarantine_file(command, tmp_path, capsys):
    """Their runs are not the user's."""
    (tmp_path / "x.jsonl").write_text('{"x": 1}\n{"x": "two"}\n{"x": 3}\n', "utf-8")
    config = {"source": {"type": "jsonl", "path": "x.jsonl", "dtypes": {"x": "int64"}}}
    config |= {"batch_size": 1, "on_error": {"skip": 99, "quarantine": "bad.jsonl"}}
    (tmp_path / "c.json").write_text(json.dumps(config), "utf-8")
    with Loader(tmp_path / "c.json") as batches:
        assert len(list(batches)) == 2
    before = (tmp_path / "bad.jsonl").read_bytes()
    assert main([*command, str(tmp_path / "c.json")]) < 2
    assert before == (tmp_path / "bad.jsonl").read_bytes()


@pytest.mark.parametrize("text", ["Bad(None)", "", "\ud800 half", "two\nlines"])
def test_any_text_of_an_error_is_listed(tmp_path, text):
    def transform(sample):
        raise ValueError(text)

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=range(1), transform=transform) as batches:
        assert [] == list(batches)
    assert f"ValueError: {text}".strip().rstrip(":") == lines(path)[0]["error"].rstrip(":")


def test_an_error_that_cannot_be_printed_is_listed_by_its_type(tmp_path):
    class Odd(Exception):
        def __str__(self):
            raise self

        __repr__ = __str__

    def transform(sample):
        raise Odd

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=range(1), transform=transform) as batches:
        assert [] == list(batches)
    assert "Odd" in lines(path)[0]["error"]


def test_an_error_whose_class_answers_nothing_is_listed_by_its_type(tmp_path):
    """Python itself fails when it is to print such an exception."""

    class Mute(type):
        def __getattribute__(cls, name):
            if name in ("__module__", "__qualname__"):
                raise RuntimeError(f"no {name}")
            return super().__getattribute__(name)

    class Odd(Exception, metaclass=Mute):
        pass

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Failing(1), transform=raising(Odd)) as batches:
        assert [] == list(batches)
    assert "Odd (not printable: RuntimeError)" == lines(path)[0]["error"]


def test_a_place_that_cannot_be_told_does_not_hide_the_failure(tmp_path):
    class Lost(Failing):
        def locate(self, index):
            raise OSError("no place")

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Lost(1, {0})) as batches:
        assert [] == list(batches)
    (line,) = lines(path)
    assert "(its place could not be told: OSError)" == line["path"]
    assert "ValueError: sample 0 is bad" == line["error"]


def test_a_place_that_the_source_does_not_know_is_none(tmp_path):
    class Lost(Failing):
        def locate(self, index):
            return None

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Lost(2, {0, 1})) as batches:
        with pytest.raises(ValueError, match="is bad") as caught:
            list(batches)
    assert "(row 0 of step 1, epoch 0); " in caught.value.__notes__[0]
    (line,) = lines(path)
    assert line["path"] is None


@pytest.mark.parametrize("kind", [Failing, AllAtOnce, Whole])
def test_what_a_signal_handler_raises_is_neither_tried_again_nor_left_out(kind, rung):
    """Without workers it runs in the main thread. The same batch comes whole afterwards."""

    class Rung(kind):
        rings = 1

        def __getitem__(self, index):
            if self.rings:
                self.rings -= 1
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    config = {"num_workers": 0, "shuffle": False, "on_error": {"skip": 3, "retry": 2}}
    with Loader(config, source=Rung(3)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [0, 1, 2] == next(epoch).tolist()
        assert (0, 0) == (batches.stats().retried, batches.stats().skipped)


@pytest.mark.parametrize("skip", [{}, {"skip": 5}])
def test_what_was_tried_before_a_signal_does_not_count(skip, rung):
    """The batch is made anew, and each of its samples may be tried as often as before."""

    class Flaky(Failing):
        rings, reads = 1, 0

        def __getitem__(self, index):
            if index == 1 and self.rings:
                self.rings -= 1
                signal.raise_signal(signal.SIGINT)
            if index == 0:
                self.reads += 1
                if self.reads % 2:
                    raise OSError("a second read is always good")
            return super().__getitem__(index)

    on_error = {"retry": 1, "backoff": 0, **skip}
    config = {"num_workers": 0, "shuffle": False, "on_error": on_error}
    with Loader(config, source=Flaky(2)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [0, 1] == next(epoch).tolist()
        assert (1, 0) == (batches.stats().retried, batches.stats().skipped)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_budget_is_not_named_where_it_permits_nothing(kind):
    """Such an exception of the source's is never left out, whatever is left of the budget."""
    config = {"num_workers": 0, "on_error": {"skip": 2}}
    with (
        Loader(config, source=Failing(1), transform=raising(kind)) as batches,
        pytest.raises(WorkerError) as caught,
    ):
        next(iter(batches))
    assert "permits" not in str(caught.value)


def test_a_signal_passes_while_a_failure_is_told(rung):
    """A handler's exception is not one of the failed sample's, which cannot be printed."""
    rings = iter([True])

    class Ringing(type):
        def __getattribute__(cls, name):
            if name == "__module__" and next(rings, False):
                signal.raise_signal(signal.SIGINT)
            return super().__getattribute__(name)

    class Odd(Exception, metaclass=Ringing):
        pass

    config = {"num_workers": 0, "num_epochs": 1, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(1), transform=raising(Odd)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [] == list(epoch)
        assert 1 == batches.stats().skipped


@pytest.mark.parametrize("skip", [None, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_closing_ends_a_pause(workers, skip):
    """Whoever leaves the `with` does not wait; and the sample has not failed to the end."""
    failing = threading.Event()
    interrupted = []

    def transform(sample):
        failing.set()
        raise OSError("not now")

    on_error = {"retry": 9, "backoff": 60, "skip": skip}
    config = {"batch_size": 1, "num_workers": workers, "on_error": on_error}
    with Loader(config, source=range(4), transform=transform) as batches:

        def ask():
            try:
                next(iter(batches))
            except Exception as error:
                interrupted.append(type(error).__name__)

        asking = threading.Thread(target=ask)
        asking.start()
        failing.wait()
        batches.close()
        asking.join(30)
        assert not asking.is_alive()
    assert ["ClosedError"] == interrupted
    assert (0, 0) == (batches.stats().skipped, batches.state_dict()["world"]["position"])


def test_what_was_read_row_by_row_is_read_as_a_whole_until_that_goes_well():
    """The storage fails at the first read of all rows, and at that behind the rows one by one."""

    class Table(Whole):
        reads = 0

        def take(self, indices):
            self.reads += 1
            if self.reads in (1, 6):
                raise OSError(f"read {self.reads} failed")
            return super().take(indices)

    for on_error in ({"retry": 1, "backoff": 0}, {"skip": 9}):
        config = {"batch_size": 4, "shuffle": False, "num_workers": 0, "on_error": on_error}
        with Loader(config, source=Table(4)) as batches:
            assert [[0, 1, 2, 3]] == [batch.tolist() for batch in batches]


def test_a_whole_that_never_goes_well_is_raised():
    class Table(Whole):
        def take(self, indices):
            if len(indices) > 1:
                raise OSError("too many at once")
            return {"x": super().take(indices), "unit": "metres"}

    on_error = {"retry": 2, "backoff": 0, "skip": 9}
    with Loader({"batch_size": 4, "on_error": on_error}, source=Table(4)) as batches:
        with pytest.raises(OSError, match="too many at once"):
            next(iter(batches))


@pytest.mark.parametrize("workers", [0, 2])
def test_above_the_budget_the_sample_is_told_and_not_what_its_absence_does(workers):
    def transform(index):
        if index == 0:
            raise OSError("sample 0 is damaged")
        return np.zeros(index)  # the others do not fit together

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": {"skip": 0}}
    with Loader(config, source=range(4), transform=transform) as batches:
        with pytest.raises(OSError, match="sample 0 is damaged"):
            next(iter(batches))


def test_a_batch_that_fails_beside_a_sample_lists_none(tmp_path):
    """Within the budget the batch is not delivered short: it is not delivered."""

    def transform(index):
        if index == 0:
            raise OSError("sample 0 is damaged")
        return np.zeros(index)

    path = tmp_path / "bad.jsonl"
    on_error = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "shuffle": False, "on_error": on_error}
    with Loader(config, source=range(4), transform=transform) as batches:
        with pytest.raises(CollateError):
            next(iter(batches))
        assert 0 == batches.stats().skipped
    assert not path.exists()


def test_an_exception_that_is_raised_again_and_again_keeps_no_batch_alive():
    """As that of a `Future`: its traceback would lead to every job that it was raised in."""
    error, samples = ValueError("damaged"), []

    class Sample:
        pass

    class Kept(Failing):
        def __getitem__(self, index):
            if index % 2:
                raise error
            sample = Sample()
            samples.append(weakref.ref(sample))
            return sample

    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": {"skip": 99}}
    with Loader(config, source=Kept(20), collate=len) as batches:
        assert [1] * 10 == list(batches)
        gc.collect()
        assert 0 == sum(sample() is not None for sample in samples)
    assert error.__traceback__ is None


@pytest.mark.parametrize("kind", [Failing, AllAtOnce, Whole])
def test_a_batch_that_is_made_again_forgets_what_was_left_out_before(kind):
    """Without workers a Ctrl-C behind the work has it done anew, and all may be good then."""
    source = kind(3, flaky={1: 2})
    policy = Policy(0, 0.0, True, Pause(threading.Lock(), lambda lock, seconds: False))
    recipe = Recipe(source, None, np.array, policy=policy)
    if kind is not Failing:
        whole = "take" if kind is Whole else "getitems"
        recipe = recipe._replace(whole=whole, take=getattr(source, "take", None))
    rows = np.arange(3)
    span = Span(0, 0, 1, 0, 3, 3, last=True, over=True)
    job = RetryingJob(recipe, span, rows, rows, np.ones(3, bool), 3, 0)
    job.run(iter(range(job.parts)))
    assert ([0, 2], [1]) == (job.finish()[0].tolist(), [it.index for it in job.failures])
    source._left.clear()
    job.run(iter(range(job.parts)))
    assert [0, 1, 2] == job.finish()[0].tolist()
    assert ((), [0, 1, 2]) == (job.failures, job.info().indices.tolist())


def test_pauses_double_up_to_a_minute():
    pauses = []
    pause = Pause(threading.Lock(), lambda lock, seconds: pauses.append(seconds) or False)
    policy = Policy(2000, 0.5, False, pause)
    assert all(policy.again(tries) for tries in range(10))
    assert [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60] == pauses
    assert policy.again(1999)
    assert not policy.again(2000)


def test_a_ctrl_c_at_any_line_of_ending_the_pauses_is_made_good_by_a_second_end():
    for at in itertools.count(1):
        lock = threading.Lock()
        pause = Pause(lock, lambda lock, seconds: False)
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)
            with contextlib.suppress(KeyboardInterrupt), sweep:
                pause.end()
        pause.end()
        assert not lock.locked(), sweep.where
        if not sweep.where:
            break
    assert at > 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "/on_error"),
        ({"skip": -1}, "/on_error"),
        ({"retry": 1, "skips": 2}, "/on_error/skips"),
        ({"quarantine": "bad.jsonl"}, "/on_error"),
        ({"skip": None, "quarantine": "bad.jsonl"}, "/on_error/quarantine"),
        ({"backoff": 1}, "/on_error"),
        ("skip", "/on_error"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_place(options, told):
    with pytest.raises(ConfigError, match=told):
        Loader({"on_error": options}, source=range(4))


def test_two_that_add_at_once_do_not_cut_off_each_others_lines(tmp_path, monkeypatch):
    """One has seen a torn line, and would cut it off; until it is done nobody else adds a line."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n{"index": 1, "pa', "utf-8")
    one, other = Quarantine(path), Quarantine(path)
    real = quarantine.is_torn

    def meanwhile(line):
        with pytest.raises(OSError, match="somebody else has held it"):
            other.add([{"index": 3}])
        return real(line)

    monkeypatch.setattr(quarantine, "_HELD_SECONDS", 0)
    monkeypatch.setattr(quarantine, "is_torn", meanwhile)
    one.add([{"index": 2}])
    other.add([{"index": 3}])
    assert [9, 2, 3] == [line["index"] for line in lines(path)]


def test_who_waits_for_the_file_adds_when_it_is_free(tmp_path, monkeypatch):
    """It finds the file held, pauses until the other one is done, and asks again."""
    path = tmp_path / "bad.jsonl"
    one, other = Quarantine(path), Quarantine(path)
    paused, done = threading.Event(), threading.Event()
    waiting = threading.Thread(target=other.add, args=([{"index": 3}],))

    def write(file, text):
        waiting.start()
        assert paused.wait(30)
        Quarantine._write(one, file, text)

    def sleep(seconds):
        paused.set()
        assert done.wait(30)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0)
    monkeypatch.setattr(quarantine, "time", clock)
    monkeypatch.setattr(one, "_write", write)
    one.add([{"index": 2}])
    done.set()
    waiting.join()
    assert [2, 3] == [line["index"] for line in lines(path)]


def test_a_disk_without_locks_will_do(tmp_path, monkeypatch):
    def refuse(file, *, held):
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(quarantine, "_lock", refuse)
    Quarantine(path).add([{"index": 1}])
    Quarantine(path).add([{"index": 2}])
    assert [1, 2] == [line["index"] for line in lines(path)]


def test_a_lock_does_not_outlive_the_write(tmp_path, monkeypatch):
    """Whoever was forked meanwhile has the file open as well, and does not hold it for ever."""
    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(quarantine, "_HELD_SECONDS", 0)
    inherited = []
    real = Quarantine._write

    def forked(self, file, text):
        inherited.append(os.dup(file.fileno()))
        return real(self, file, text)

    with monkeypatch.context() as patch:
        patch.setattr(Quarantine, "_write", forked)
        Quarantine(path).add([{"index": 1}])
    try:
        Quarantine(path).add([{"index": 2}])
    finally:
        os.close(*inherited)
    assert [1, 2] == [line["index"] for line in lines(path)]


SHARE = """
import subprocess
import sys

code = '''
import sys
from pathlib import Path
from threadloader.quarantine import Quarantine
from threadloader.sources import _sqlite_errors
first, path = int(sys.argv[1]), Path(sys.argv[2])
for index in range(first, first + 100):
    Quarantine(path).add([{"index": index, "path": "x" * (index % 7)}])
    if index % 5 == 0:
        with path.open("ab+", buffering=0) as file:  # closing gives the lock back, as a kill does
            Quarantine(path)._hold(file)
            Quarantine(path)._write(file, b'{"index": 7, "pa')  # what another has torn goes first
'''
each = [sys.executable, "-c", code]
runs = [subprocess.Popen([*each, first, sys.argv[1]]) for first in ("0", "1000", "2000")]
sys.exit(any([run.wait() for run in runs]))
"""


def test_processes_share_a_quarantine_file(tmp_path, run_child):
    """Each adds a line at a time, and now and then leaves one as a kill does: none is lost."""
    path = tmp_path / "bad.jsonl"
    child = run_child(SHARE, str(path))
    assert ("", 0) == (child.stderr, child.returncode)
    Quarantine(path).add([{"index": 5000}])
    expected = [*range(100), *range(1000, 1100), *range(2000, 2100), 5000]
    assert expected == sorted(line["index"] for line in lines(path))


@pytest.mark.parametrize("cut", [1, 9, 10, 16, 21, 24, 25, 27, 28])
@pytest.mark.parametrize("zeros", [0, 1, 80])
def test_a_torn_last_line_does_not_stop_the_next_run(tmp_path, cut, zeros):
    """Which leaves out what the others name; its own first failure cuts the line off.

    Zeros are what some file systems have where the power failed before the bytes were written.
    """
    line = rb'{"index": 1, "path": "a\\b"}'
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"index": 3}\n' + line[:cut] + bytes(zeros or cut == len(line)))
    options = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "shuffle": False, "exclude": str(path), "on_error": options}
    with Loader(config, source=Failing(6, {5})) as batches:
        assert [[0, 1, 2, 4]] == [batch.tolist() for batch in batches]
    assert [3, 5] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_with_another_end_stay(end, tmp_path):
    """As an editor may write them."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(end.join(['{"index": 7}', '{"index": 8}']).encode())
    Quarantine(path).add([{"index": 9}])
    assert [7, 8, 9] == [line["index"] for line in lines(path)]


@pytest.mark.skipif(os.name == "nt", reason="there it is a name of no file until it is written")
def test_a_quarantine_that_the_system_refuses_is_an_error_of_the_config(tmp_path):
    path = str(tmp_path / ("x" * 300))
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file that can be wr"):
        Loader({"on_error": {"skip": 1, "quarantine": path}}, source=range(4)).__enter__()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), ConfigError),
        (OSError(errno.ELOOP, "Too many levels of symbolic links"), ConfigError),
        (TimeoutError("rung"), TimeoutError),
    ],
    ids=["a folder that may not be searched", "links in a circle", "a signal handler"],
)
def test_whatever_looking_at_a_quarantine_raises(error, expected, tmp_path, monkeypatch):
    """The system's errors name the option; that of a signal handler passes as it is."""

    def refuse(*args, **options):
        raise error

    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(type(path), "stat", refuse)
    with pytest.raises(expected, match=str(error.strerror or error)):
        Quarantine(path)


def test_what_a_signal_handler_raises_while_the_file_is_held_passes(tmp_path, monkeypatch):
    def rung(file, *, held):
        raise TimeoutError("rung")

    quarantined = Quarantine(tmp_path / "bad.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "_lock", rung)
        with pytest.raises(TimeoutError, match="rung"):
            quarantined.add([{"index": 1}])
    quarantined.add([{"index": 2}])
    assert [{"index": 2}] == lines(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("folder", ["none", "file"])
def test_a_quarantine_in_no_folder_is_refused(tmp_path, folder):
    (tmp_path / "file").touch()
    options = {"skip": 1, "quarantine": str(tmp_path / folder / "bad.jsonl")}
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file in a folder"):
        Loader({"on_error": options}, source=range(4)).__enter__()


def test_a_quarantine_that_is_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file, got"):
        Loader({"on_error": {"skip": 1, "quarantine": str(tmp_path)}}, source=range(4)).__enter__()


def test_a_quarantine_that_no_system_can_have_is_refused():
    for name in ("a\0b", *([] if os.name == "nt" else ["a\ud800b"])):
        with pytest.raises(ConfigError, match="/on_error/quarantine: expected a path that a syst"):
            Quarantine(Path(name))
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a path that a system"):
        Loader({"on_error": {"skip": 1, "quarantine": "a\0b"}}, source=range(4)).__enter__()


def test_a_quarantine_in_a_folder_that_may_not_be_written_to_is_refused(tmp_path, monkeypatch):
    # Whoever runs the tests as root may write everywhere.
    monkeypatch.setattr(os, "access", lambda asked, mode: asked != tmp_path)
    with pytest.raises(ConfigError, match="expected a file in a folder that can be written to"):
        Quarantine(tmp_path / "bad.jsonl")


def test_a_quarantine_that_may_not_be_written_is_refused_with_what_the_system_says(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 1}\n')

    class Guarded(type(path)):
        def open(self, mode):
            assert "ab+" == mode  # as a line is added
            raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(ConfigError, match=r"can be written, got .*bad\.jsonl: Permission denied"):
        Quarantine(Guarded(path))
    assert '{"index": 1}\n' == path.read_text()


def test_a_line_that_was_written_in_part_is_an_error(tmp_path, monkeypatch):
    """As on a full disk; it is not there then, nor any before it of the same batch."""
    path = tmp_path / "bad.jsonl"
    quarantine = Quarantine(path)

    class Full(io.FileIO):
        def write(self, data):
            return super().write(data[:20])

    with monkeypatch.context() as full:
        full.setattr(type(path), "open", lambda path, mode, buffering: Full(path, "a+"))
        with pytest.raises(OSError, match="only a part of the lines") as caught:
            quarantine.add([{"index": 1}, {"index": 3}])
    assert (errno.ENOSPC, str(path)) == (caught.value.errno, caught.value.filename)
    assert b"" == path.read_bytes()
    quarantine.add([{"index": 2}])
    assert [{"index": 2}] == lines(path)


def test_what_the_system_says_of_the_file_names_it_and_its_option(tmp_path, monkeypatch):
    """As on a full disk; the batch waits, and comes when its lines can be written."""
    failing = [True]

    class Full(io.FileIO):
        def write(self, data):
            if failing.pop():
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 2, "on_error": {"skip": 1, "quarantine": str(path)}, "num_workers": 0}
    with Loader(config, [1, "x"], transform=abs) as batches:
        epoch = iter(batches)
        monkeypatch.setattr(type(path), "open", lambda path, mode, buffering: Full(path, "a+"))
        with pytest.raises(OSError, match=r"No space left on device: '.*bad\.jsonl'") as caught:
            next(epoch)
        failing[:] = [False]
        assert [1] == next(epoch).tolist()
    note = 'threadloader: of "on_error/quarantine"; next tries to write again'
    assert (str(path), [note]) == (caught.value.filename, caught.value.__notes__)


def test_a_quarantine_whose_folder_is_gone_is_told_as_such(tmp_path):
    """A reader would take it for the data's."""
    folder = tmp_path / "lists"
    folder.mkdir()
    on_error = {"skip": 1, "quarantine": str(folder / "bad.jsonl")}
    with Loader({"on_error": on_error, "num_workers": 0}, [1, "x"], transform=abs) as batches:
        folder.rmdir()
        epoch = iter(batches)
        with pytest.raises(FileNotFoundError) as caught:
            next(epoch)
        assert ['threadloader: of "on_error/quarantine"; next tries to write again'] == (
            caught.value.__notes__
        )
        folder.mkdir()
        assert [1] == next(epoch).tolist()


def test_a_quarantine_outside_of_root_is_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    config = {"root": str(inside)}
    config["on_error"] = {"skip": 1, "quarantine": str(tmp_path / "bad.jsonl")}
    with pytest.raises((ConfigError, SourceError), match="inside the folder"):
        Loader(config, source=range(4)).__enter__()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_source_that_gives_too_few_at_once_is_told_so_under_a_policy(workers):
    class Short:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return indices[:-1]

    config = {"batch_size": 3, "num_workers": workers, "on_error": {"retry": 1, "backoff": 0}}
    with Loader(config, Short()) as batches, pytest.raises(CollateError) as raised:
        next(iter(batches))
    assert "the source's __getitems__: expected 1 samples, got 0" in str(raised.value)


@pytest.mark.parametrize("given", [None, 3, "abc", b"abc", {"a": 1, "b": 2, "c": 3}, np.array(3)])
def test_getitems_that_gives_no_list_of_samples_is_told_what_to_return(given):
    class Wrong:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return given

    with Loader({"batch_size": 3}, Wrong()) as batches, pytest.raises(CollateError) as raised:
        next(iter(batches))
    got = "None" if given is None else type(given).__name__
    expected = f"the source's __getitems__: expected a list of 3 samples, got {got}; return a list"
    assert expected in str(raised.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_fail_together_alone_ask_no_budget_and_their_reads_are_counted(workers):
    """Each is good by itself, so none could be left out: no budget would help."""

    class Joint:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return np.int64(index)

        def take(self, indices):
            if len(indices) > 1 and 2 in indices:
                raise ValueError("cannot merge these reads")
            return {"x": np.asarray(indices), "unit": "metres"}  # which is no row

    on_error = {"skip": 5, "retry": 2, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    with Loader(config, Joint()) as batches:
        epoch = iter(batches)
        with pytest.raises(ValueError, match="cannot merge") as raised:
            next(epoch)
        assert "on_error" not in "".join(raised.value.__notes__)
        assert [4, 5, 6, 7] == next(epoch)["x"].tolist()
        # After the rows had been read one by one: again, and three times more.
        assert (0, 4) == (batches.stats().skipped, batches.stats().retried)


@pytest.mark.parametrize(("skip", "times"), [({}, 1), ({"skip": 0}, 2)])
@pytest.mark.parametrize("workers", [0, 2])
def test_tries_that_end_in_an_exception_are_counted_as_it_comes(workers, skip, times):
    """Once; they were counted with the next batch alone, and those before a spent budget never."""

    def bad(sample):
        if sample % 2 == 0:
            raise ValueError("bad")
        return sample

    config = {"batch_size": 1, "shuffle": False, "num_workers": workers, "num_epochs": 3}
    config["on_error"] = {"retry": 2, "backoff": 0, **skip}
    with Loader(config, range(3), transform=bad) as batches:
        epoch = iter(batches)
        for failed in (1, 1, 2):
            with contextlib.suppress(ValueError):
                next(epoch)
            assert failed * 2 * times == batches.stats().retried
        with pytest.raises(ValueError, match="bad"):
            next(iter(batches))
    assert 3 * 2 * times == batches.stats().retried


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_are_good_alone_are_joined_where_they_fail_together(workers):
    """As from storage that fails now and then: of many rows nearly always one does."""

    class Flaky:
        def __init__(self):
            self.good = [True] * 8  # each item is of the worker that has the batch

        def __len__(self):
            return 8

        def __getitem__(self, index):
            self.good[index] = not self.good[index]
            if not self.good[index]:
                raise OSError("each first time")
            return index

        def take(self, indices):
            rows = [self[index] for index in indices.tolist()]
            return {"x": np.array(rows), "name": list(map(str, rows))}

    on_error = {"skip": 5, "retry": 1, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    # One epoch: the next one has the same samples first.
    with Loader({**config, "num_epochs": 1}, Flaky()) as batches:
        got = [(batch["x"].tolist(), batch["name"]) for batch in batches]
        assert (0, 0) == (batches.stats().skipped, batches.stats().failed)
    assert [([0, 1, 2, 3], ["0", "1", "2", "3"]), ([4, 5, 6, 7], ["4", "5", "6", "7"])] == got


def test_errors_that_are_each_other_s_cause_are_left_out_as_others_are():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert Policy(0, 0.0, True, None).leaves_out(one)
    assert not Policy(0, 0.0, False, None).leaves_out(one)


Couple = namedtuple("Couple", "x names")


@pytest.mark.parametrize(
    "whole",
    [
        np.arange(12).reshape(4, 3),
        {"x": np.arange(4), "names": list("abcd")},
        OrderedDict(x=np.array(["a", "bb", "c", "d"]), y=(np.zeros((4, 0)),)),
        Couple(np.arange(4.0), [1, None, "a", b""]),
        (),
        {},
    ],
    ids=repr,
)
def test_what_was_cut_row_by_row_is_joined_to_the_same(whole):
    joined = join(cut(whole, 4, 1))
    assert (type(whole), repr(whole)) == (type(joined), repr(joined))


@pytest.mark.parametrize(
    "parts",
    [
        [np.zeros(1), np.zeros(1, np.float32)],
        [np.zeros((1, 2)), np.zeros((1, 3))],
        [np.zeros(2), np.zeros(2)],
        [{"x": np.zeros(1)}, {"y": np.zeros(1)}],
        [(np.zeros(1),), ()],
        [[np.zeros(1)], [np.zeros(1)]],
        [["a", "b"], ["a", "b"]],
        ["a", "b"],
        [np.ma.zeros(1), np.ma.zeros(1)],
        [np.zeros(1), [0]],
    ],
    ids=repr,
)
def test_what_may_be_more_than_rows_is_not_joined(parts):
    with pytest.raises(UncutError):
        join(parts)


@pytest.mark.parametrize("method", ["take", "__getitems__"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_whole_that_fails_and_is_good_row_by_row_was_tried_again(workers, method):
    """Nothing else tells of a storage that fails at times."""

    class AtTimes:
        failed = False

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return index

    def read(self, indices):
        if 0 in indices and not self.failed:
            self.failed = True
            raise OSError("once")
        return np.asarray(indices) if method == "take" else list(indices)

    setattr(AtTimes, method, read)
    on_error = {"retry": 2, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    # One epoch: the next one has the same samples first.
    with Loader({**config, "num_epochs": 1}, AtTimes()) as batches:
        assert list(range(8)) == np.concatenate(list(batches)).tolist()
        assert (0, 1) == (batches.stats().failed, batches.stats().retried)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [Failing, AllAtOnce])
def test_beside_a_sample_that_fails_the_others_are_transformed_as_ever(workers, kind):
    """Each with the generator that it has, also where all are read anew, one by one."""

    def batches_of(source, **more):
        config = {
            "batch_size": 4,
            "shuffle": False,
            "num_workers": workers,
            "num_epochs": 1,
            **more,
        }
        with Loader(config, source, transform=lambda sample, rng: sample + rng.random()) as batches:
            return [batch.tolist() for batch in batches]

    first, second = batches_of(kind(8))
    expected = [first[:2] + first[3:], second]
    assert expected == batches_of(kind(8, {2}), on_error={"skip": 1})


@pytest.mark.parametrize(
    ("fails", "retry", "skipped", "retried"), [(2, 1, 0, 1), (99, 1, 1, 1), (99, 0, 1, 0)]
)
def test_where_a_row_was_tried_again_or_left_out_the_whole_does_not_count(
    fails, retry, skipped, retried
):
    class OneRow:
        left = fails

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            if 1 in indices and self.left:
                self.left -= 1
                raise OSError("a row")
            return list(indices)

    on_error = {"retry": retry, "backoff": 0, "skip": 1}
    config = {"batch_size": 4, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, OneRow()) as batches:
        assert 4 - skipped == len(next(iter(batches)))
        assert (skipped, retried) == (batches.stats().skipped, batches.stats().retried)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [ClosedError, BusyError])
def test_a_source_that_is_closed_or_a_loader_that_is_busy_has_no_bad_samples(kind, workers):
    class Closing:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index >= 4:
                raise kind("no more")
            return index

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": {"skip": 8}}
    with Loader(config, Closing()) as batches:
        epoch = iter(batches)
        assert [0, 1, 2, 3] == next(epoch).tolist()
        with pytest.raises(kind, match="no more"):
            next(epoch)
        assert 0 == batches.stats().skipped


@pytest.mark.parametrize("cache", [None, {"max_samples": 8}])
def test_a_factory_that_fails_in_one_worker_has_no_bad_samples(cache):
    """Which ones it would be is a matter of which thread is faster."""
    made = []

    def connect():
        made.append(threading.current_thread())
        if len(made) > 2:  # the thread that enters, and one worker
            raise ConnectionError("too many connections")
        return range(64)

    config = {"batch_size": 4, "num_workers": 3, "on_error": {"skip": 64}, "cache": cache}
    with Loader(config, per_thread(connect)) as batches:
        with pytest.raises(ConnectionError, match="too many connections"):
            [list(batches) for _ in range(64)]  # in some the worker that has one may be faster
        assert 0 == batches.stats().skipped


def test_an_opening_that_failed_is_told_once_of_its_own_thread():
    """What fails in that thread later may be a sample, which came from a cache."""

    def connect():
        raise ConnectionError("too many connections")

    source = per_thread(connect)
    assert source.opened()
    with pytest.raises(ConnectionError):
        source[0]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(source.opened).result()
    assert [False, True] == [source.opened(), source.opened()]


def test_a_sample_that_fails_in_a_thread_that_has_its_own_source_is_left_out():
    """Also behind a cache, from which a thread may have read alone."""

    def bad(sample, rng):
        if sample == 5:
            raise ValueError("bad")
        return sample

    config = {"batch_size": 4, "num_workers": 2, "on_error": {"skip": 9}, "num_epochs": 2}
    cache = {"max_samples": 8}
    with Loader({**config, "cache": cache}, per_thread(lambda: range(8)), transform=bad) as batches:
        epochs = [sorted(int(one) for batch in batches for one in batch) for _ in range(2)]
    assert [[0, 1, 2, 3, 4, 6, 7]] * 2 == epochs


@pytest.mark.parametrize("number", [errno.EMFILE, None])
def test_a_database_that_too_many_open_files_keep_shut_has_no_bad_samples(
    number, tmp_path, monkeypatch
):
    """SQLite says only that it could not open it; the system is asked why."""
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        database.execute("create table p(id integer primary key, x int)")
        database.executemany("insert into p values(?, ?)", [(i, i) for i in range(8)])
    source = {"type": "sqlite", "path": str(tmp_path / "x.db"), "query": "select id, x from p"}
    config = {"source": {**source, "key": "id"}, "batch_size": 4, "on_error": {"skip": 8}}
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN

    def connect(*args, **options):
        if threading.current_thread() is not threading.main_thread():
            raise refused
        return real(*args, **options)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    opened = []

    def opening(path, mode):
        opened.append(open(path, mode))  # noqa: SIM115
        if number is not None and sum(not file.closed for file in opened) == 3:
            opened[-1].close()
            raise OSError(number, "too many")  # SQLite wants as many at once
        return opened[-1]

    monkeypatch.setattr(_sqlite_errors, "open", opening, raising=False)
    with Loader({**config, "num_workers": 1}) as batches:
        if number is None:  # it is gone, or may not be read: that may be the samples' fault
            assert [] == list(batches)
            assert 8 == batches.stats().skipped
        else:
            hint = "open fewer files" if os.name == "nt" else r"limit of open files \(ulimit -n\)"
            with pytest.raises(SourceError, match=hint):
                next(iter(batches))
            assert 0 == batches.stats().skipped
    assert opened
    assert all(file.closed for file in opened)


def test_what_a_handler_raises_while_the_system_is_asked_is_not_its_answer(rung, monkeypatch):
    def opening(path, mode):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_sqlite_errors, "open", opening, raising=False)
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    with pytest.raises(TimeoutError, match="rung"):
        _sqlite_errors.in_words(refused)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_process_with_too_many_files_open_has_no_bad_samples(number, wrapped, tmp_path):
    """A list of them would keep sound ones out of all later runs."""

    class Opening:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            try:
                if index == 2:
                    raise OSError(number, "too many")
            except OSError as error:
                if wrapped:
                    raise ValueError("no sample") from error
                raise
            return index

    on_error = {"skip": 4, "retry": 1, "backoff": 0, "quarantine": str(tmp_path / "bad.jsonl")}
    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, Opening()) as batches:
        epoch = iter(batches)
        assert [0, 1] == next(epoch).tolist()
        kind = ValueError if wrapped else OSError
        with pytest.raises(kind, match=r"no sample|too many") as caught:
            next(epoch)
        assert caught.value.__notes__[0].endswith('; "on_error" leaves out no sample for that')
        assert (0, 1) == (batches.stats().skipped, batches.stats().failed)
    assert not (tmp_path / "bad.jsonl").exists()
