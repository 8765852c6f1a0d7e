"""A run that was stopped goes on exactly where it was, wherever that is, however often.

Random chains of cuts are in `cuts`; here is also what a state refuses, and what it remembers.
Longer than other files: all that is promised of going on stands together.
"""

import json
import os
import signal
import sys
import threading
from unittest.mock import Mock

import numpy as np
import pytest
from campaigns.resumes import main
from cuts import Chain
from oracle import expected_epoch

from threadloader import BusyError, ClosedError, ConfigError, Loader, StateError, WorkerError
from threadloader.loader._skip_steps import FURTHEST
from threadloader.state import _file

WORKERS = [0, 1, 2, 8]
PARTS = [(0, range(first, first + 210)) for first in range(0, 1260, 210)]
PARTS += [(workers, range(10_000 * workers, 10_000 * workers + 60)) for workers in (1, 2, 8)]


def cuts_of(seed):
    """How often the chain of a seed is cut: 1 to 6 times."""
    return 1 + seed % 6


def test_a_relative_path_starts_where_the_loader_was_made(tmp_path, monkeypatch):
    """As all others do: where it is entered there may be the state of another run."""
    states = []
    for number, name in enumerate(("here", "there"), 1):
        (tmp_path / name).mkdir()
        with Loader({"batch_size": 1}, range(4)) as batches:
            for batch, _ in zip(batches, range(number), strict=False):
                assert len(batch)
            batches.save(tmp_path / name / "run.state")
            states.append(batches.state_dict()["shard"]["batches"])
    monkeypatch.chdir(tmp_path / "here")
    loader = Loader({"batch_size": 1}, range(4), resume="run.state")
    monkeypatch.chdir(tmp_path / "there")
    with loader as batches:
        assert states[0] == batches.state_dict()["shard"]["batches"] != states[1]


def test_a_state_that_is_given_as_a_dict_is_that_of_the_time_when_it_was_given():
    """A Loader is a recipe: what becomes of the dict later is the caller's own."""
    with Loader({"batch_size": 1, "shuffle": False}, range(4)) as batches:
        epoch = iter(batches)
        state = batches.state_dict()
        loader = Loader({"batch_size": 1, "shuffle": False}, range(4), resume=state)
        next(epoch)
        state.update(batches.state_dict())
        state["world"]["position"] = 3
    with loader as batches:
        assert [0, 1, 2, 3] == [int(batch[0]) for batch in batches]


def test_what_a_signal_handler_raises_while_a_state_is_copied_passes(rung):
    class Slow:
        def __deepcopy__(self, memo):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError, match="rung"):
        Loader({}, range(4), resume={"format": Slow()})


def test_there_are_at_least_5000_cuts():
    assert 5040 == sum(cuts_of(seed) for _, seeds in PARTS for seed in seeds)


@pytest.mark.parametrize(("workers", "seeds"), PARTS)
def test_a_run_that_is_cut_anywhere_goes_on_as_the_oracle_says(
    workers, seeds, tmp_path, monkeypatch
):
    """Each batch, `info` and state, in every epoch; over world and batch size exactly once."""
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is for another test
    cuts = 0
    for seed in seeds:
        try:
            cuts += Chain(seed, cuts_of(seed), tmp_path, workers).cuts
        except BaseException as error:
            error.add_note(f"Chain({seed}, {cuts_of(seed)}, folder, {workers})")
            raise
    assert sum(map(cuts_of, seeds)) == cuts


def test_the_campaign_tells_what_it_did(capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", os.fsync)  # put back what the campaign changes
    assert 0 == main(["--count", "8", "--workers", "0", "2"])
    told = capsys.readouterr().out
    assert "resumes: 10 cuts of 4 runs in " in told
    assert told.endswith("0 failed; by workers: 4 with 0, 6 with 2\n")


class Numbers:
    """Sample i is i; keeps what was read, and fails at some indices."""

    def __init__(self, n, fail=()):
        self.n = n
        self.fail = set(fail)
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.fail:
            raise OSError(f"no {index}")
        return index


class Taking(Numbers):
    """Whole batches at once, so small that several are made together."""

    sample_bytes = 8

    def take(self, indices):
        return np.array([self[index] for index in indices.tolist()])


class Named(Numbers):
    """A source that says the same of itself, whatever it holds."""

    def fingerprint(self):
        return "always the same"


def config(**options):
    return {"batch_size": 2, "num_workers": 0, "shuffle": False, **options}


def delivered(batches, until=None):
    """Lists (epoch, step, batch) to the end of the run, or so many."""
    got = []
    for epoch in batches.epochs():
        for batch in epoch:
            got.append((batches.info.epoch, batches.info.step, np.asarray(batch).tolist()))
            if len(got) == until:
                return got
    return got


def place(batches):
    """Epoch and position at which the state stands."""
    world = batches.state_dict()["world"]
    return world["epoch"], world["position"]


def cut(until, source, *args, **options):
    """The batches of a run up to a cut, and the state there."""
    with Loader(config(**options), source, *args) as batches:
        got = delivered(batches, until) if until else []
        return got, json.loads(json.dumps(batches.state_dict()))


@pytest.mark.parametrize("prefetch", [1, 3, 64])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [Numbers, Taking])
def test_restoring_reads_no_sample(kind, workers, prefetch):
    """Neither `resume` nor `load_state_dict`; what is read then is what was not delivered yet."""
    options = {"seed": 5, "shuffle": True, "num_epochs": 1, "prefetch_batches": prefetch}
    done, state = cut(6, kind(30), **options)
    source = kind(30)
    with Loader(config(num_workers=workers, **options), source, resume=state) as batches:
        batches.load_state_dict(state)
        assert state == batches.state_dict()
        assert 15 == len(batches)
        assert batches.info is None
    assert [] == source.read
    with Loader(config(num_workers=workers, **options), source, resume=state) as batches:
        rest = delivered(batches)
    assert (6, 9) == (len(done), len(rest))
    delivered_before = {index for _, _, batch in done for index in batch}
    assert sorted(set(range(30)) - delivered_before) == sorted(source.read)


def test_without_workers_nothing_but_the_next_batch_is_read():
    _, state = cut(3, Numbers(20))
    source = Numbers(20)
    with Loader(config(), source, resume=state) as batches:
        assert [6, 7] == next(iter(batches)).tolist()
    assert [6, 7] == source.read


@pytest.mark.parametrize("where", range(6))
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", [Numbers, Taking])
def test_after_an_exception_the_state_stands_before_the_failed_batch(kind, workers, where):
    """Until next is called; a run that goes on from there gets the batch, if it can be read now."""
    options = {"num_workers": workers, "num_epochs": 2, "seed": 3, "shuffle": True}
    whole = cut(12, kind(12), **options)[0]
    bad = whole[where][2][1]
    with Loader(config(**options), kind(12, [bad])) as batches:
        epoch = iter(batches)
        assert [batch for _, _, batch in whole[:where]] == [
            next(epoch).tolist() for _ in range(where)
        ]
        before = batches.state_dict()
        with pytest.raises(OSError, match=f"no {bad}"):
            next(epoch)
        failed = batches.state_dict()
        assert before == failed
        behind = next(epoch, None)
        assert failed["world"] != batches.state_dict()["world"]
        assert (where < 5) == (behind is not None)
    with Loader(config(**options), kind(12), resume=failed) as batches:
        assert whole[where:] == delivered(batches)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where", [0, 2, 5])
def test_an_epoch_that_is_left_after_an_exception_counts_as_begun(workers, where):
    """`iter` instead of `next`: the state moves to the next epoch when that begins."""
    with Loader(config(num_workers=workers), Numbers(12, [2 * where])) as batches:
        epoch = iter(batches)
        for _ in range(where):
            next(epoch)
        with pytest.raises(OSError, match="no"):
            next(epoch)
        assert (0, 2 * where) == place(batches)
        epoch = iter(batches)
        assert 1 == epoch.number
        assert (1, 0) == place(batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_goes_on_at_a_batch_that_still_fails_stands_before_it_again(workers):
    source = Numbers(8, [3])
    with Loader(config(num_workers=workers), source) as batches:
        epoch = iter(batches)
        next(epoch)
        state = batches.state_dict()
        with pytest.raises(OSError, match="no 3"):
            next(epoch)
    for _ in range(3):
        with Loader(config(num_workers=workers), source, resume=state) as batches:
            with pytest.raises(OSError, match="no 3"):
                next(iter(batches))
            assert state == batches.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_sampler_failed_the_state_stands_before_its_epoch(workers):
    fail = {1}

    def sampler(epoch, n):
        if epoch in fail:
            raise LookupError("no order")
        return range(epoch, n)

    with Loader(config(num_workers=workers), Numbers(6), sampler=sampler) as batches:
        epochs = batches.epochs(3)
        assert 3 == len(list(next(epochs)))
        state = batches.state_dict()
        epoch = next(epochs)
        with pytest.raises(LookupError):
            next(epoch)
        assert state == batches.state_dict()
    fail.clear()
    with Loader(config(num_workers=workers), Numbers(6), sampler=sampler, resume=state) as batches:
        assert [1, 2] == [epoch.number for epoch in batches.epochs(3) if list(epoch)]


@pytest.fixture
def hasty():
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_in_another_thread_is_that_of_a_delivered_prefix(workers, hasty):
    """Whole, whatever the consumer does at that moment; and it never goes back."""
    options = config(num_workers=workers, batch_size=3, num_epochs=4, shuffle=True)
    with Loader(options, np.arange(100)) as batches:
        between = [batches.state_dict()]
        between += [batches.state_dict() for epoch in batches.epochs() for _ in epoch]
    taken, done, there = [], threading.Event(), threading.Barrier(2)

    def take(batches):
        there.wait()
        while not done.is_set():
            taken.append(batches.state_dict())

    with Loader(options, np.arange(100)) as batches:
        thread = threading.Thread(target=take, args=(batches,))
        thread.start()
        there.wait()
        try:
            got = delivered(batches)
        finally:
            done.set()
            thread.join()
    assert len(between) == 1 + len(got)
    counts = [state["shard"]["batches"] for state in taken]
    assert [between[count] for count in counts] == taken
    assert sorted(counts) == counts


@pytest.mark.parametrize("until", range(10))
def test_what_is_loaded_is_what_is_given_back(until):
    """Before anything is delivered, however often, through every way in."""
    options = {"num_epochs": 3, "seed": 9, "shuffle": True, "exclude": [1], "fingerprint": True}
    _, state = cut(until, np.arange(8), **options)
    with Loader(config(**options), np.arange(8), resume=state) as batches:
        assert state == batches.state_dict()
        batches.load_state_dict(state)
        assert state == batches.state_dict()
        iter(batches)
        assert state == batches.state_dict()
    assert state == batches.state_dict()


@pytest.mark.parametrize("until", range(1, 13))
def test_a_resumed_run_finishes_the_same_epochs(until):
    """`num_epochs` of them: the first of what is left has its number, and so have its steps."""
    options = {"num_epochs": 3, "seed": 9, "shuffle": True}
    whole = cut(12, np.arange(8), **options)[0]
    done, state = cut(until, np.arange(8), **options)
    with Loader(config(**options), np.arange(8), resume=state) as batches:
        assert whole == done + delivered(batches)
        assert [] == list(batches.epochs())
        assert (3, 0) == place(batches)


@pytest.fixture(params=[0, 2])
def resumed(request):
    """Batches of a run of 8 samples that goes on behind the first 2; epochs have 4 steps."""
    loader = Loader({"batch_size": 2, "num_workers": request.param, "seed": 3}, np.arange(8))
    with loader as batches:
        next(iter(batches))
        state = batches.state_dict()
    with loader as batches:
        batches.load_state_dict(state)
        yield batches


def rest_of(batches):
    """Take an epoch; give its number, and how many batches came."""
    epoch = iter(batches)
    return epoch.number, len(list(epoch))


def test_an_iterator_that_nobody_asks_does_not_end_the_epoch_that_goes_on(resumed):
    """As Lightning makes one, to see whether there is any; the rest of the epoch was lost."""
    iter(resumed)
    kept = iter(resumed)
    assert 4 == len(resumed)
    assert [(0, 3), (1, 4)] == [rest_of(resumed), rest_of(resumed)]
    with pytest.raises(ClosedError):
        next(kept)


def test_an_iterator_that_is_closed_ends_the_epoch_that_goes_on(resumed):
    iter(resumed).close()
    assert (1, 4) == rest_of(resumed)


def test_an_epoch_that_goes_on_is_that_of_epochs_after_an_iterator_that_nobody_asks(resumed):
    before = resumed.state_dict()
    iter(resumed)
    assert before == resumed.state_dict()
    assert [(0, 3), (1, 4)] == [(epoch.number, len(list(epoch))) for epoch in resumed.epochs(2)]


def test_epochs_of_which_nothing_is_asked_go_on_all_the_same(resumed):
    numbers = [epoch.number for epoch, _ in zip(resumed.epochs(3), range(9), strict=False)]
    assert [0, 1, 2] == numbers


def test_an_iterator_that_was_asked_in_vain_ends_the_epoch_that_goes_on(resumed, rung):
    """What a signal's handler raises there is no batch, but it was asked for one."""
    epoch = iter(resumed)

    def ring(*place, real=resumed._run._next_of):
        resumed._run._next_of = real
        signal.raise_signal(signal.SIGINT)

    resumed._run._next_of = ring
    with pytest.raises(TimeoutError):
        next(epoch)
    next(iter(resumed))
    assert 1 == resumed.info.epoch


def test_an_iterator_that_nobody_asks_ends_an_epoch_that_begins(resumed):
    assert (0, 3) == rest_of(resumed)
    iter(resumed)
    assert (2, 4) == rest_of(resumed)


def test_a_loader_that_is_entered_again_goes_on_from_its_state_again():
    _, state = cut(3, np.arange(12))
    loader = Loader(config(num_epochs=1), np.arange(12), resume=state)
    got = []
    for _ in range(2):
        with loader as batches:
            got.append(delivered(batches))
    assert [(0, 3), (0, 4), (0, 5)] == [place[:2] for place in got[0]]
    assert got[0] == got[1]


def test_a_state_can_be_loaded_back_and_forth_between_epochs():
    """In one `with`, once the iterator has ended; while it is live it is refused."""
    states = [cut(until, np.arange(12))[1] for until in (1, 4, 8)]
    with Loader(config(), np.arange(12)) as batches:
        for state in [*states, *reversed(states)]:
            batches.load_state_dict(state)
            epoch = iter(batches)
            left = 6 - state["world"]["step"]
            next(epoch)
            with pytest.raises(BusyError, match="live"):
                batches.load_state_dict(state)
            assert left - 1 == len(list(epoch))


BASE = {"shuffle": False, "seed": 1}
ARRAY = np.arange(10)


def differing(source, options, sampler, state):
    """The fields for which a state is refused."""
    loader = Loader(config(**{**BASE, **options}), source, sampler=sampler, resume=state)
    with pytest.raises(StateError) as caught:
        loader.__enter__()
    for field in caught.value.fields:
        assert f"{field}: the state has " in str(caught.value)
    return caught.value.fields


@pytest.mark.parametrize(
    ("source", "options", "sampler", "fields"),
    [
        (ARRAY + 1, {}, None, ("source",)),
        (ARRAY.astype(float), {}, None, ("source",)),
        (ARRAY.tolist(), {}, None, ("source",)),
        (np.arange(11), {}, None, ("source", "samples")),
        (ARRAY, {"seed": 2}, None, ("seed",)),
        (ARRAY, {"shuffle": True}, None, ("shuffle",)),
        (ARRAY, {}, [3, 4], ("sampler",)),
        (ARRAY, {}, lambda epoch, n: [3], ("sampler",)),
        (ARRAY, {"sampler": {"type": "subset", "indices": [3]}}, None, ("sampler",)),
        (ARRAY[:9], {"seed": 2, "shuffle": True}, None, ("source", "samples", "seed", "shuffle")),
    ],
)
def test_a_state_of_another_run_is_refused_with_each_field_that_differs(
    source, options, sampler, fields
):
    assert fields == differing(source, options, sampler, cut(2, ARRAY, **BASE)[1])


WEIGHTED = {"type": "weighted", "weights": [1, 2, 3]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 0], [1, 2, 1]),
        ([1, 2, 0], [1, 2]),
        (WEIGHTED, {**WEIGHTED, "weights": [1, 2, 4]}),
        (WEIGHTED, {**WEIGHTED, "num_samples": 5}),
        (WEIGHTED, {**WEIGHTED, "type": "weighted_without_replacement"}),
        ({"type": "subset", "indices": [1]}, {"type": "subset", "indices": [1], "shuffle": True}),
    ],
)
def test_a_state_of_another_sampler_is_refused(one, other):
    def given(sampler):
        """As options of the config, or in code."""
        return ({"sampler": sampler}, None) if isinstance(sampler, dict) else ({}, sampler)

    options, sampler = given(one)
    with Loader(config(**BASE, **options), np.arange(3), sampler=sampler) as batches:
        state = batches.state_dict()
    assert ("sampler",) == differing(np.arange(3), *given(other), state)


def test_a_state_of_another_version_of_the_order_is_refused(monkeypatch):
    _, state = cut(2, np.arange(10), **BASE)
    monkeypatch.setattr("threadloader.loader._opening.VERSION", 2)
    assert ("order",) == differing(np.arange(10), {}, None, state)


def test_allow_overrides_the_fields_that_it_names_and_no_other():
    """Of three that differ, every choice is tried; all three together go on where the state is."""
    _, state = cut(2, np.arange(10), **BASE)
    fields = ("source", "samples", "seed")
    with Loader(config(seed=2), np.arange(12)) as batches:
        for chosen in range(7):
            allowed = [field for bit, field in enumerate(fields) if chosen >> bit & 1]
            with pytest.raises(StateError) as caught:
                batches.load_state_dict(state, allow=allowed)
            assert tuple(field for field in fields if field not in allowed) == caught.value.fields
            assert 0 == batches.state_dict()["world"]["position"]
        batches.load_state_dict(state, allow=fields)
        assert [4, 5] == next(iter(batches)).tolist()
        now = batches.state_dict()["run"]
    assert (12, 2) == (now["samples"], now["seed"])


@pytest.mark.parametrize(
    "allow",
    [("sauce",), ["source", "epoch"], "source", None, 5, [["seed"]], 10**5000],
    ids=lambda allow: type(allow).__name__,
)
def test_allow_refuses_what_names_no_field(allow):
    """A text, too: its letters are no fields. The message lists those that there are."""
    _, state = cut(2, np.arange(10))
    with Loader(config(), np.arange(10)) as batches:
        with pytest.raises(ConfigError, match=r'allow: expected .*"source", "samples", "seed"'):
            batches.load_state_dict(state, allow=allow)


def test_a_state_behind_the_end_of_the_allowed_source_is_refused():
    _, state = cut(4, Named(10))
    with Loader(config(), Named(6)) as batches:
        with pytest.raises(StateError, match=r"world\.position: expected at most 6, .* got 8"):
            batches.load_state_dict(state, allow=("samples",))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: None, FileNotFoundError, "No such file|cannot find|not found"),
        (lambda path: path.mkdir(), OSError, "directory|denied"),
        (lambda path: path.write_bytes(b""), StateError, "damaged.*0 bytes"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), StateError, "damaged.*3 bytes"),
        (lambda path: path.write_bytes(b"not JSON"), StateError, "damaged.*8 bytes"),
        (lambda path: path.write_bytes(b"[" * 100_000), StateError, "damaged"),
        (lambda path: path.write_bytes(b"1" * 5000), StateError, "damaged"),
        (lambda path: path.write_bytes(b"null\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b"[]\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b"{}\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b'{\n "format": "x"\n}\n'), StateError, "what save"),
    ],
)
def test_a_path_to_resume_that_holds_no_state_is_an_error(tmp_path, make, error, message):
    """Never the beginning of a new run: not even where there is no file."""
    path = tmp_path / "run.state"
    make(path)
    with pytest.raises(error, match=message) as caught:
        Loader(config(), np.arange(4), resume=path).__enter__()
    assert "run.state" in str(caught.value)


def test_a_file_that_may_not_be_read_is_the_systems_error(tmp_path, monkeypatch):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(4)) as batches:
        batches.save(path)

    def refused(name):
        raise PermissionError(13, "Permission denied", str(name))

    monkeypatch.setattr(_file, "FileIO", refused)
    with pytest.raises(PermissionError, match=r"run\.state"):
        Loader(config(), np.arange(4), resume=path).__enter__()


def test_of_a_file_that_is_no_state_only_the_begin_is_read(tmp_path, monkeypatch):
    """It may be the weights of a model, and larger than the memory."""

    class Large(_file.FileIO):
        def readall(self):
            raise AssertionError("all of it is read")

    monkeypatch.setattr(_file, "FileIO", Large)
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(12345))
    with pytest.raises(StateError, match=r"weights\.bin: the state is damaged: .* got 12345 bytes"):
        Loader(config(), np.arange(4), resume=path).__enter__()


@pytest.mark.parametrize("indent", [None, 1])
def test_of_a_state_that_json_dump_wrote_the_error_says_what_to_give(tmp_path, indent):
    path = tmp_path / "run.json"
    with Loader(config(), np.arange(8)) as batches:
        next(iter(batches))
        path.write_text(json.dumps(batches.state_dict(), indent=indent))
    with pytest.raises(StateError, match=r"if json\.dump wrote it, give what json\.load reads"):
        Loader(config(), np.arange(8), resume=path).__enter__()
    with Loader(config(), np.arange(8), resume=json.loads(path.read_text())) as batches:
        assert batches.state_dict() == json.loads(path.read_text())


@pytest.mark.parametrize("cut", [0, 1, 20, 200, None])
def test_of_a_damaged_file_that_save_wrote_the_error_speaks_of_no_json_dump(tmp_path, cut):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(8)) as batches:
        batches.save(path)
    path.write_bytes(path.read_bytes().replace(b'"epoch": 0', b'"epoch": 1')[:cut])
    with pytest.raises(StateError, match="not; use an older one"):
        Loader(config(), np.arange(8), resume=path).__enter__()


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="the system opens no folder")
def test_a_folder_that_may_not_be_opened_is_told_before_the_file_is_replaced(tmp_path, monkeypatch):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(4)) as batches:
        batches.save(path)
        before = path.read_bytes()
        next(iter(batches))
        monkeypatch.setattr(os, "open", Mock(side_effect=PermissionError(13, "denied", "folder")))
        with pytest.raises(PermissionError):
            batches.save(path)
        monkeypatch.undo()
        assert before == path.read_bytes()
        assert ["run.state"] == os.listdir(tmp_path)


@pytest.mark.parametrize("resume", [3, b"run.state", ["run.state"], True])
def test_what_is_neither_a_state_nor_a_path_is_refused(resume):
    with pytest.raises(ConfigError, match="resume: expected a state, or the path"):
        Loader(config(), np.arange(4), resume=resume)


@pytest.mark.parametrize(
    ("start", "steps"),
    [(a, b) for a in range(8) for b in (0, 1, 2, 3, 7, 8, 12, 13, 15) if a + b <= 15],
)
def test_skip_steps_leaves_out_the_next_steps_and_nothing_else(start, steps):
    """Up to the end of the run; the state remembers where and how many, over later resumes."""
    options = {"num_epochs": 3, "seed": 4, "shuffle": True}
    whole = cut(15, np.arange(10), **options)[0]
    done, state = cut(start, np.arange(10), **options)
    with Loader(config(**options), np.arange(10), resume=state, skip_steps=steps) as batches:
        skipped = batches.state_dict()
        got = delivered(batches, 2)
        later = batches.state_dict()
    with Loader(config(**options), np.arange(10), resume=later) as batches:
        got += delivered(batches)
    assert whole[start + steps :] == got
    assert start == len(done) == skipped["shard"]["batches"]
    expected = [[*divmod(start, 5), steps]] if steps else []
    assert expected == skipped["world"]["skips"] == later["world"]["skips"]


@pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
@pytest.mark.parametrize("steps", range(9))
def test_skip_steps_leaves_out_steps_of_the_whole_world(remainder, steps):
    """Every shard stands at the same place behind them, as the oracle counts steps."""
    order = list(range(11))
    deal = {"batch_size": 2, "shard_count": 2, "remainder": remainder, "drop_last": False}
    worlds = []
    for shard in range(2):
        part = {"index": shard, "count": 2, "remainder": remainder}
        epochs = [expected_epoch(order, shard_index=shard, **deal) for _ in range(3)]
        longest = len(expected_epoch(order, shard_index=0, **deal))
        with Loader(config(shard=part, num_epochs=3), np.arange(11), skip_steps=steps) as batches:
            worlds.append(batches.state_dict()["world"])
            got = delivered(batches)
        expected = [
            (number, step, rows[0])
            for number, epoch in enumerate(epochs)
            for step, rows in enumerate(epoch)
            if number * longest + step >= steps
        ]
        assert expected == got
    assert worlds[0] == worlds[1]


def second_step_of_the_second_epoch(config, **given):
    """Leaves out a step, and looks at the next one; gives what the state says was left out."""
    with Loader(config, range(9), skip_steps=1, **given) as batches:
        next(iter(batches))
        assert (1, 1) == (batches.info.epoch, batches.info.step)
        return batches.state_dict()["world"]["skips"]


def test_a_step_is_not_left_out_of_an_epoch_in_which_none_is_left():
    """Where a state stands at its last samples, and they make no batch of the new size."""
    options = {"drop_last": True, "shuffle": False}
    with Loader({**options, "batch_size": 2}, range(9)) as batches:
        epoch = iter(batches)
        for _ in range(3):
            next(epoch)
        state = batches.state_dict()
    given = {**options, "batch_size": 4}
    assert [[1, 0, 1]] == second_step_of_the_second_epoch(given, resume=state)


def test_a_step_is_not_left_out_of_an_epoch_that_has_none():
    def sampler(epoch, n):
        return range(n if epoch else 0)

    assert [[1, 0, 1]] == second_step_of_the_second_epoch({"batch_size": 4}, sampler=sampler)


def test_skips_add_up_over_resumes():
    options = {"num_epochs": 2, "seed": 4}
    state, expected = None, []
    for place in ([0, 0], [0, 3], [1, 1]):
        with Loader(config(**options), np.arange(10), resume=state, skip_steps=2) as batches:
            delivered(batches, 1)
            state = batches.state_dict()
        expected.append([*place, 2])
        assert expected == state["world"]["skips"]


def test_very_many_steps_are_passed_over_at_once():
    with Loader(config(), np.arange(10), skip_steps=5 * 10**12 + 3) as batches:
        assert (10**12, 6) == place(batches)
        assert [6, 7] == next(iter(batches)).tolist()


def test_steps_of_epochs_of_differing_length_are_passed_over_one_by_one():
    def sampler(epoch, n):
        return range(epoch + 1)

    with Loader(config(), np.arange(10), sampler=sampler, skip_steps=3) as batches:
        epoch = iter(batches)
        assert (2, [[2]]) == (epoch.number, [batch.tolist() for batch in epoch])


@pytest.mark.parametrize("empty", [1, 3])
def test_skip_steps_go_on_behind_epochs_without_a_step(empty):
    def sampler(epoch, n):
        return range(epoch, epoch + 4) if epoch in (0, empty + 1) else []

    with Loader(config(), np.arange(10), sampler=sampler, skip_steps=3) as batches:
        batch = next(iter(batches))
        assert (empty + 1, 1) == (batches.info.epoch, batches.info.step)
        assert [empty + 3, empty + 4] == batch.tolist()


def test_skip_steps_past_a_sampler_that_never_gives_any_are_refused():
    loader = Loader(config(), np.arange(10), sampler=lambda epoch, n: [], skip_steps=3)
    with pytest.raises(ConfigError, match="skip_steps: expected steps to leave out"):
        loader.__enter__()


@pytest.mark.parametrize(
    "steps",
    [-1, 1.5, "3", True, None, np.array([1]), np.array(1.0), int, -(10**5000)],
    ids=lambda steps: type(steps).__name__,
)
def test_skip_steps_of_no_number_are_refused(steps):
    with pytest.raises(ConfigError, match="skip_steps: expected an integer >= 0"):
        Loader(config(), np.arange(4), skip_steps=steps)


def test_steps_that_no_epoch_has_are_refused():
    with pytest.raises(ConfigError, match="skip_steps: expected steps to leave out, got an epoch"):
        Loader(config(), np.arange(0), skip_steps=1).__enter__()


@pytest.mark.parametrize("zeros", [25, 5000])
def test_more_steps_than_any_run_has_are_refused(zeros):
    with pytest.raises(ConfigError, match="skip_steps: expected steps to leave out, got so many"):
        Loader(config(), np.arange(10), skip_steps=10**zeros).__enter__()


def test_the_last_epoch_that_steps_are_left_out_up_to_ends_in_a_state_that_goes_on():
    options = {"batch_size": 4, "num_workers": 0}
    with Loader(options, range(4), skip_steps=FURTHEST - 1) as batches:
        for _ in range(3):
            assert 1 == len(list(batches))
        state = batches.state_dict()
    with Loader(options, range(4), resume=state) as batches:
        assert FURTHEST + 2 == state["world"]["epoch"]
    with pytest.raises(ConfigError, match=f"end after epoch {FURTHEST - 1}"):
        Loader(options, range(4), skip_steps=FURTHEST).__enter__()


@pytest.mark.parametrize("start", [0, 7, 15])
@pytest.mark.parametrize("more", [1, 5, 10**5000], ids=["1", "5", "very many"])
def test_more_steps_than_are_left_of_the_run_are_refused(start, more):
    """With their number: three epochs of five steps, of which some are done."""
    _, state = cut(start, np.arange(10), num_epochs=3)
    left = 15 - start
    loader = Loader(config(num_epochs=3), np.arange(10), resume=state, skip_steps=left + more)
    got = rf"got more than the {left} that are left up to the end of num_epochs \(3\)$"
    with pytest.raises(ConfigError, match=f"^skip_steps: expected steps to leave out, {got}"):
        loader.__enter__()


def test_no_sampler_is_asked_for_an_epoch_beyond_the_run_when_steps_are_left_out():
    """Neither where they end with the run, nor where it has fewer."""
    schedule = [[0, 1, 2], [3], [4, 5]]  # of two, one, and one step

    def loader(steps):
        options = config(num_epochs=3)
        return Loader(options, np.arange(10), sampler=lambda e, n: schedule[e], skip_steps=steps)

    with loader(4) as batches:
        assert [] == list(batches.epochs())
        assert 3 == batches.state_dict()["world"]["epoch"]
    with pytest.raises(ConfigError, match="got more than the 4 that are left"):
        loader(5).__enter__()


@pytest.mark.parametrize("kind", [ValueError, StopIteration, SystemExit])
def test_what_a_sampler_raises_while_steps_are_left_out_names_its_epoch(kind):
    """As what it raises in the run; what would be taken for an end comes wrapped."""

    def sampler(epoch, n):
        if epoch == 2:
            raise kind
        return [0]

    expected = ValueError if kind is ValueError else WorkerError
    with pytest.raises(expected) as caught:
        Loader(config(), np.arange(10), sampler=sampler, skip_steps=5).__enter__()
    told = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert any("raised for the order of epoch 2" in text for text in told)


def test_what_a_sampler_raises_while_steps_are_left_out_is_told_as_its_own():
    with pytest.raises(ConfigError, match=r"^sampler: expected indices from 0 to 9"):
        Loader(config(), np.arange(10), sampler=lambda epoch, n: [-1], skip_steps=1).__enter__()


@pytest.mark.parametrize("n", [1, 5])
def test_steps_are_not_left_out_of_an_epoch_that_has_become_shorter(n):
    """One whose sampler gives fewer indices than were delivered, as without the steps."""
    with Loader(config(), np.arange(10), sampler=lambda epoch, n: range(10)) as batches:
        epoch = iter(batches)
        for _ in range(4):
            next(epoch)
        state = batches.state_dict()
        del epoch
    assert state["world"]["position"] > n
    short = Loader(
        config(), np.arange(10), sampler=lambda epoch, _: range(n), resume=state, skip_steps=1
    )
    with pytest.raises(StateError, match="expected a sampler that gives the same indices"):
        short.__enter__()


SAMPLERS = {
    "none": {},
    "shuffle": {"shuffle": True},
    "weighted": {"sampler": {"type": "weighted", "weights": [1 + i % 3 for i in range(12)]}},
    "so many": {
        "sampler": {"type": "weighted", "weights": [1 + i % 3 for i in range(12)], "num_samples": 9}
    },
    "without replacement": {
        "sampler": {"type": "weighted_without_replacement", "weights": list(range(12))}
    },
    "balanced": {"sampler": {"type": "balanced", "labels": "labels.npy", "num_samples": 12}},
    "subset": {"sampler": {"type": "subset", "indices": [9, 2, 4, 6, 1, 3, 7], "shuffle": True}},
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_another_list_of_excluded_samples_counts_from_the_next_epoch_on(
    sampler, tmp_path, monkeypatch
):
    """The epoch that was begun goes on with the old one, over several resumes."""
    monkeypatch.chdir(tmp_path)
    np.save("labels.npy", np.arange(12) % 3)
    options = {**SAMPLERS[sampler], "num_epochs": 2, "seed": 6}
    old, new = {**options, "exclude": [1, 2]}, {**options, "exclude": [2, 3, 4]}
    first = [got for got in cut(99, np.arange(12), **old)[0] if got[0] == 0]
    second = [got for got in cut(99, np.arange(12), **new)[0] if got[0] == 1]
    got, state = cut(1, np.arange(12), **old)
    for until in (1, None):
        with Loader(config(**new), np.arange(12), resume=state) as batches:
            assert state == batches.state_dict()
            got += delivered(batches, until)
            state = batches.state_dict()
    assert first + second == got


def test_an_epoch_that_was_not_begun_has_the_new_list():
    _, state = cut(0, np.arange(6), exclude=[1])
    with Loader(config(exclude=[4], num_epochs=1), np.arange(6), resume=state) as batches:
        assert [[0, 1], [2, 3], [5]] == [batch for _, _, batch in delivered(batches)]


def test_a_fingerprint_of_all_batches_ends_with_a_batch_that_has_none():
    """A run that goes on without `fingerprint` does not show that of a part as that of all."""
    _, state = cut(2, np.arange(12), fingerprint=True)
    with Loader(config(), np.arange(12), resume=state) as batches:
        assert state["shard"]["fingerprint"] == batches.state_dict()["shard"]["fingerprint"] != ""
        assert "" == batches.stats().fingerprint
        delivered(batches, 1)
        assert "" == batches.state_dict()["shard"]["fingerprint"] == batches.stats().fingerprint
