"""Samplers and excluded samples through the whole loader: what makes an epoch, and goes on."""

import json
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import expected_epoch, expected_len

from threadloader import ClosedError, ConfigError, Loader, LoaderConfig, StateError, WorkerError
from threadloader.samplers import Kept, configured
from threadloader.state import Excluded, dump, load

N = 12
WAIT = 30.0
WORKERS = [0, 1, 2, 8]

WEIGHTS = [1, 0, 2, 3, 0.5, 1, 1, 4, 2, 0, 1, 1]
CLASSES = np.array([0, 1, 1, 2, 0, 0, 2, 1, 1, 1, 0, 0])

needs_64_bits = pytest.mark.skipif(sys.maxsize < 2**32, reason="len() is below 2**31 there")


class Source:
    """Samples are their index, and have a class."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return index

    def column(self, field):
        return CLASSES if field == "y" else None


def asked(epoch, n):
    """A sampler in code; another order, and another length, in every epoch."""
    return (np.arange(n - epoch % 3) * 5 + epoch) % n


KINDS = {
    "plain": {},
    "unshuffled": {"shuffle": False},
    "weighted": {"sampler": {"type": "weighted", "weights": WEIGHTS}},
    "weighted 30": {"sampler": {"type": "weighted", "weights": WEIGHTS, "num_samples": 30}},
    "without": {"sampler": {"type": "weighted_without_replacement", "weights": WEIGHTS}},
    "balanced": {"sampler": {"type": "balanced", "field": "y"}},
    "subset": {"sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6]}},
    "shuffled subset": {
        "sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6], "shuffle": True}
    },
    "sequence": [3, 1, 4, 1, 5, 9, 2, 6, 0],
    "callable": asked,
}

kinds = pytest.mark.parametrize("kind", KINDS)


def loader(kind, *, source=None, resume=None, **options):
    """Gives a loader of a kind of sampler, over samples that are their own index."""
    sampler = KINDS[kind]
    config = {"batch_size": 3, "num_workers": 0, **options}
    if isinstance(sampler, dict):
        config, sampler = {**sampler, **config}, None
    source = Source() if source is None else source
    return Loader(config, source, sampler=sampler, resume=resume)


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def whole(kind, epoch=0, **options):
    """The global order of an epoch."""
    options |= {"batch_size": 1, "shard": {"index": 0, "count": 1, "remainder": "keep"}}
    with loader(kind, **options) as batches:
        epochs = [[int(batch[0]) for batch in each] for each in batches.epochs(epoch + 1)]
    return epochs[epoch]


class TestExclude:
    @kinds
    @pytest.mark.parametrize("excluded", [[3], [0, 11], [1, 2, 2, 5, 5], range(1, 12, 2)], ids=str)
    def test_what_is_excluded_never_comes(self, kind, excluded):
        """What comes otherwise is what would come, where the sampler chooses no other."""
        with loader(kind, exclude=list(excluded)) as batches:
            got = [sum(lists(epoch), []) for epoch in batches.epochs(4)]
        assert set(sum(got, [])).isdisjoint(excluded)
        if kind in ("unshuffled", "subset", "sequence", "callable"):
            with loader(kind) as batches:
                whole = [sum(lists(epoch), []) for epoch in batches.epochs(4)]
            assert [[index for index in it if index not in excluded] for it in whole] == got
        if kind in ("plain", "shuffled subset"):
            every = range(N) if kind == "plain" else KINDS[kind]["sampler"]["indices"]
            left = sorted(index for index in every if index not in excluded)
            assert [left] * 4 == [sorted(epoch) for epoch in got]

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("numbers.txt", b"5\n\n7\n5\n"),
            ("lines.jsonl", b'{"index": 7, "note": "blurred"}\n\n{"index": 5}\n'),
            ("list.npy", None),
        ],
    )
    def test_a_file_is_as_good_as_a_list(self, tmp_path, monkeypatch, name, data):
        if data is None:
            np.save(tmp_path / name, np.array([7, 5, 5], np.uint8))
        else:
            (tmp_path / name).write_bytes(data)
        monkeypatch.chdir(tmp_path)
        with loader("plain", exclude=[5, 7]) as batches:
            expected = lists(batches), batches.state_dict()
        with loader("plain", exclude=name) as batches:
            assert expected == (lists(batches), batches.state_dict())

    @pytest.mark.parametrize("kind", ["plain", "unshuffled", "subset", "shuffled subset"])
    def test_an_epoch_of_which_all_is_excluded_has_no_batch(self, kind):
        """Likewise with a sequence or a callable; the epochs are counted."""
        for each in (kind, "sequence", "callable"):
            with loader(each, exclude=list(range(N))) as batches:
                assert 0 == len(batches)
                assert [[], [], []] == [lists(epoch) for epoch in batches.epochs(3)]
                assert 3 == batches.state_dict()["world"]["epoch"]

    @pytest.mark.parametrize("kind", ["weighted", "weighted 30", "without", "balanced"])
    def test_what_draws_cannot_do_without_any_sample(self, kind):
        with pytest.raises(ConfigError, match="a sample that is kept, got none"):
            loader(kind, exclude=list(range(N))).__enter__()

    @kinds
    @pytest.mark.parametrize("excluded", [[12], [0, 99], [10**20]], ids=str)
    def test_one_that_is_not_there_is_an_error(self, kind, excluded):
        with pytest.raises(ConfigError) as caught:
            loader(kind, exclude=excluded).__enter__()
        (problem,) = caught.value.problems
        assert "/exclude" == problem.pointer
        assert "indices from 0 to 11" == problem.expected

    @kinds
    @pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
    def test_shards_and_lengths_follow(self, kind, remainder):
        """The shards deal what is left, by the rules of any order of this length."""
        order = whole(kind, exclude=[1, 2, 8])
        for index in range(3):
            shard = {"index": index, "count": 3, "remainder": remainder}
            deal = {"batch_size": 2, "shard_index": index, "shard_count": 3}
            deal |= {"remainder": remainder, "drop_last": False}
            with loader(kind, batch_size=2, shard=shard, exclude=[1, 2, 8]) as batches:
                assert expected_len(len(order), **deal) == len(batches)
                expected = [indices for indices, _, _ in expected_epoch(order, **deal)]
                assert expected == lists(batches)

    def test_a_callable_is_asked_for_the_source_as_it_is(self):
        """What it gives is left out afterwards: it knows nothing of the list."""
        numbers = []

        def sampler(epoch, n):
            numbers.append(n)
            return range(n)

        config = {"exclude": [0, 3], "batch_size": 12, "num_workers": 0}
        with Loader(config, range(N), sampler=sampler) as batches:
            assert [[index for index in range(N) if index not in (0, 3)]] == lists(batches)
        assert [N] == numbers

    @kinds
    def test_a_list_that_changed_holds_from_the_next_epoch_on(self, kind):
        """The epoch that is under way ends as it would have, the next one has the new list."""
        with loader(kind, exclude=[1, 7]) as batches:
            former = [lists(epoch) for epoch in batches.epochs(2)]
        with loader(kind, exclude=[3, 4, 5]) as batches:
            changed = [lists(epoch) for epoch in batches.epochs(2)]
        with loader(kind, exclude=[1, 7]) as batches:
            begun = [next(iter(batches)).tolist()]
            state = json.loads(json.dumps(batches.state_dict()))
        with loader(kind, exclude=[3, 4, 5], resume=state) as batches:
            got = [lists(epoch) for epoch in batches.epochs(2)]
        assert [former[0], changed[1]] == [begun + got[0], got[1]]

    @pytest.mark.parametrize("kind", ["weighted", "balanced"])
    def test_an_epoch_of_draws_is_as_long_as_what_is_kept(self, kind):
        with loader(kind, batch_size=1, exclude=[1, 7]) as batches:
            assert 10 == len(batches)

    @kinds
    def test_a_list_that_did_not_change_changes_nothing(self, kind):
        """Written otherwise, in another order, and with repetitions."""
        with loader(kind, exclude=[1, 7, 8, 9]) as batches:
            whole = [lists(epoch) for epoch in batches.epochs(2)]
        with loader(kind, exclude=[9, 7, 7, 8, 1]) as batches:
            begun = [next(iter(batches)).tolist()]
            state = batches.state_dict()
        assert "1 7-9" == state["exclude"]
        with loader(kind, exclude=[1, 7, 8, 9], resume=state) as batches:
            assert state == batches.state_dict()
            rest = [lists(epoch) for epoch in batches.epochs(2)]
        assert whole == [begun + rest[0], rest[1]]

    @kinds
    @settings(max_examples=15)
    @given(data=st.data())
    def test_a_run_under_changing_lists(self, kind, data):
        """Cut anywhere, each part under a list and in a world of its own.

        An epoch has the list under which its first batch was given, whatever comes later.
        """
        lists_of = st.lists(st.integers(0, N - 1), max_size=4)
        parts = data.draw(st.lists(st.tuples(lists_of, st.integers(1, 4)), min_size=1, max_size=6))
        state, got, begun = None, {}, {}
        for excluded, until in parts:
            size = data.draw(st.integers(1, 4))
            with loader(kind, batch_size=size, exclude=excluded, resume=state) as batches:
                for epoch in batches.epochs(3):
                    for batch in epoch:
                        begun.setdefault(epoch.number, excluded)
                        got.setdefault(epoch.number, []).extend(batch.tolist())
                        until -= 1
                        if not until:
                            break
                    if not until:
                        break
                state = json.loads(json.dumps(batches.state_dict()))
        now = state["world"]["epoch"], state["world"]["position"]
        for number, excluded in begun.items():
            expected = whole(kind, number, exclude=excluded)
            if number == now[0]:
                expected = expected[: now[1]]
            assert expected == got[number]

    def test_the_state_has_runs_of_samples_and_is_as_quick_with_many(self):
        """The text of a list is made and hashed once, however often a state is taken."""
        source = range(10**6)
        with Loader({"exclude": list(range(10, 200_000)), "num_workers": 0}, source) as batches:
            next(iter(batches))
            states = [batches.state_dict() for _ in range(2)]
        assert "10-199999" == states[0]["exclude"]
        assert states[0]["exclude"] is states[1]["exclude"]

    @pytest.mark.parametrize(
        ("n", "text", "expected"),
        [
            (N, "11-12", "ascending numbers below 12, got 11-12"),
            (N, "+3", "numbers and ranges as in '3 7-9', got '+3'"),
            # More bytes than addresses, whatever the system says about memory.
            pytest.param(
                2**46,
                f"0-{2**46 - 1}",
                "no more samples than memory has room for, got '0-703687441",
                marks=needs_64_bits,
            ),
        ],
    )
    def test_a_state_that_leaves_out_what_cannot_be_is_refused(self, n, text, expected):
        """By hand, with a checksum that fits."""
        with loader("plain", source=range(n), exclude=[11]) as batches:
            next(iter(batches))
            state = batches.state_dict()
        world = {"batch_size": 3, "shard_count": 1}
        cursor, _ = load(state, state["run"], world, 0)
        forged = dump(cursor, state["run"], world, 0, Excluded.of(text))
        with pytest.raises(StateError) as caught:
            loader("plain", source=range(n), resume=forged).__enter__()
        expected = f"the state does not fit: exclude: expected {expected}"
        assert expected == str(caught.value)[: len(expected)]


class Asked:
    """A sampler that keeps which epochs it was asked for, and in which thread."""

    name = "asked"

    def __init__(self, orders=None, ahead=0):
        self.orders = orders or (lambda epoch, n: range(n))
        self.epochs = []
        self.threads = set()
        self.ahead = ahead
        self.far_ahead = threading.Event()

    def __call__(self, epoch, n):
        self.epochs.append(epoch)
        self.threads.add(threading.current_thread())
        if epoch >= self.ahead:
            self.far_ahead.set()
        return self.orders(epoch, n)


class TestCallable:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_each_epoch_is_asked_for_once_however_the_loop_leaves_it(self, workers):
        """Also when it was asked for long before, and the epochs before it were broken off."""
        sampler = Asked(lambda epoch, n: [0, 1], ahead=4)
        config = {"batch_size": 1, "num_workers": workers, "prefetch_batches": 10}
        with Loader(config, range(2), sampler=sampler) as batches:
            for _ in range(4):
                for _ in batches:
                    if workers:
                        assert sampler.far_ahead.wait(WAIT)
                    break
            assert 2 == len(list(batches))
        # How far ahead it was asked in the end is the feeder's to choose.
        assert list(range(len(sampler.epochs))) == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_resumed_run_asks_for_each_epoch_once(self, workers):
        """From the one in which the state stands, and a loaded state begins a run anew."""
        first, second = Asked(), Asked()
        config = {"batch_size": 5, "num_workers": workers, "num_epochs": 3}
        with Loader(config, range(N), sampler=first) as batches:
            next(iter(batches))
            next(iter(batches))
            state = batches.state_dict()
        with Loader(config, range(N), sampler=second, resume=state) as batches:
            assert [2, 3] == [len(list(epoch)) for epoch in batches.epochs()]
        assert [1, 2] == second.epochs

    @pytest.mark.parametrize("given", [{0, 1}, frozenset({1}), {0: 1}])
    def test_what_has_no_order_of_its_own_is_refused(self, given):
        """In another process a set may come in another order, and shards would not fit."""
        with (
            Loader({}, range(N), sampler=lambda epoch, n: given) as batches,
            pytest.raises(ConfigError, match=f"integers in one row, got {type(given).__name__}"),
        ):
            next(iter(batches))

    def test_steps_that_are_left_out_ask_once_too(self):
        """By who enters the loader, and not again."""
        sampler = Asked()
        config = {"batch_size": 5, "num_epochs": 4}
        with Loader(config, range(N), sampler=sampler, skip_steps=7) as batches:
            assert [2, 3] == [len(list(epoch)) for epoch in batches.epochs()]
        assert [0, 1, 2, 3] == sampler.epochs

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("steps", [0, 90], ids=["delivered", "left out"])
    def test_what_it_gave_for_epochs_that_are_behind_is_forgotten(self, workers, steps):
        """Else the orders of a long run, or of a long way that is left out, would fill memory."""
        config = {"batch_size": 5, "num_workers": workers, "num_epochs": 40}
        with Loader(config, range(N), sampler=Asked(), skip_steps=steps) as batches:
            kept = [len(batches._run.results.place.plan._orders)]
            for epoch in batches.epochs():
                list(epoch)
                kept.append(len(batches._run.results.place.plan._orders))
        # That of the epoch before, its own, and those of which the first batches are prepared.
        assert max(kept) <= 4

    @pytest.mark.parametrize("workers", [1, 2, 8])
    def test_it_is_asked_off_the_consumers_path(self, workers):
        sampler = Asked()
        with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
            for epoch in batches.epochs(3):
                list(epoch)
        assert threading.current_thread() not in sampler.threads
        assert 1 == len(sampler.threads)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_what_would_be_taken_for_an_end_comes_wrapped(self, workers):
        for error in (StopIteration(), KeyboardInterrupt(), SystemExit(), GeneratorExit()):
            sampler = Asked(raising(error))
            with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
                with pytest.raises(WorkerError, match=type(error).__name__) as caught:
                    next(iter(batches))
            assert error is caught.value.__cause__


def raising(error):
    """Gives a sampler that raises."""

    def sampler(epoch, n):
        raise error

    return sampler


LENGTHS = [5, 0, 12, 1, 3]


def of_lengths(epoch, n):
    """A sampler whose epochs have another length each."""
    return range(LENGTHS[epoch % len(LENGTHS)])


class TestLengths:
    """An epoch's length is what its sampler gave; `len` tells it for the right epoch."""

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_is_that_of_the_live_epoch_up_to_its_end(self, workers):
        """Its last batch too, when the next epoch has begun to be prepared."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for length in LENGTHS * 2:
                assert [length] * length == [len(it) for _ in it]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_is_that_of_the_next_epoch_between_two(self, workers):
        """Before the first, behind one that ran out, and behind one that was broken off."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for number, length in enumerate(LENGTHS * 2):
                state = it.state_dict()
                assert length == len(it)
                assert state == it.state_dict()
                for step, _ in enumerate(it):
                    if (number, step) in ((2, 6), (5, 4), (7, 0)):
                        break

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_changes_nothing_of_what_is_delivered(self, workers):
        """Wherever it is asked, in epochs that are finished, broken off, or resumed."""

        def run(ask, resume=None):
            config = {"batch_size": 2, "num_workers": workers, "num_epochs": 5}
            got = []
            with Loader(config, range(N), sampler=of_lengths, resume=resume) as batches:
                ask(batches)
                for epoch in batches.epochs():
                    ask(batches)
                    for batch in epoch:
                        got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                        ask(batches)
                        if epoch.number == 2 and batches.info.step == 3:
                            break
                    del epoch
                    ask(batches)
                return got, batches.state_dict()

        with Loader({"batch_size": 2}, range(N), sampler=of_lengths) as batches:
            next(iter(batches))
            state = batches.state_dict()
        assert run(lambda batches: None) == run(len)
        assert run(lambda batches: None, state) == run(len, state)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_tells_the_length_whatever_becomes_of_the_first_batch(self, workers):
        """Its error is raised where the batch is asked for."""

        def first_is_broken(sample):
            return 1 // sample

        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers}
        with Loader(config, range(N), transform=first_is_broken, sampler=sampler) as batches:
            assert 5 == len(batches)
            epoch = iter(batches)
            assert 5 == len(batches)
            with pytest.raises(ZeroDivisionError):
                next(epoch)
            assert [1, 0, 0, 0] == [int(batch[0]) for batch in epoch]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_the_epochs_that_were_asked_for_is_that_of_the_one_that_comes(self, workers):
        """Their stream has ended there; the run has not."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for epoch in it.epochs(2):
                list(epoch)
            assert LENGTHS[2] == len(it) == len(list(it))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_the_run_is_that_of_its_last_epoch(self, workers):
        """No sampler is asked for an epoch beyond `num_epochs`."""
        orders = [range(3), range(5)]
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=lambda epoch, n: orders[epoch]) as batches:
            for epoch in batches.epochs():
                list(epoch)
            assert 5 == len(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_of_a_finished_run_that_is_started_again_is_that_of_its_last_epoch(self, workers):
        """The sampler is asked for that one, once, and nothing is read."""
        orders, read = [range(3), range(5)], []
        sampler = Asked(lambda epoch, n: orders[epoch])
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=sampler, skip_steps=8) as batches:
            state = batches.state_dict()
        sampler.epochs.clear()
        with Loader(config, range(N), transform=read.append, sampler=sampler, resume=state) as it:
            assert [5, 5, []] == [len(it), len(it), list(it.epochs())]
        assert ([1], []) == (sampler.epochs, read)

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("taken", [0, 1])
    def test_len_behind_a_last_epoch_that_was_broken_off_is_that_of_it(self, workers, taken):
        """Also of one that was left before its first batch."""
        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=sampler) as batches:
            epoch = iter(batches)
            for _ in range(taken):
                next(epoch)
            del epoch
            assert LENGTHS[0] == len(batches)
        assert [0] == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_goes_with_epochs_that_were_asked_for_beyond_the_run(self, workers):
        """Between them it is that of the next, and behind them that of the last."""
        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=sampler) as batches:
            epochs = batches.epochs(3)
            told = []
            for length in LENGTHS[:3]:
                assert length == len(list(next(epochs)))
                told.append(len(batches))
        assert [*LENGTHS[1:3], LENGTHS[2]] == told
        assert [0, 1, 2] == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_says_the_same_when_it_is_asked_again_beyond_the_run(self, workers):
        """Behind an epoch that was broken off, of a loop that goes further than `num_epochs`."""
        orders = [range(2), range(7), range(3)]
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=lambda epoch, n: orders[epoch]) as batches:
            epochs = batches.epochs(3)
            next(next(epochs))
            assert [7, 7, 7] == [len(batches) for _ in range(3)]
            assert 7 == len(list(next(epochs)))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_an_epoch_beyond_the_run_that_was_broken_off_is_that_of_it(self, workers):
        """A plain `for` may go further than `num_epochs`, and be left before its first batch."""
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=of_lengths) as batches:
            list(batches)
            iter(batches)
            assert LENGTHS[1] == len(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_zero_length_epochs_pass(self, workers):
        """They count, and give no batch; the state stands behind them."""
        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=lambda epoch, n: [] if epoch < 3 else [1]) as batches:
            assert [[], [], [], [[1]]] == [lists(epoch) for epoch in batches.epochs(4)]
            assert 4 == batches.state_dict()["world"]["epoch"]
            assert [[1]] == lists(batches)

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
    def test_a_run_of_such_epochs_goes_on_where_it_was_cut(self, workers, remainder):
        """At every cut, on every shard, batch for batch."""
        for index in range(2):
            shard = {"index": index, "count": 2, "remainder": remainder}
            config = {"batch_size": 2, "num_workers": workers, "num_epochs": 5, "shard": shard}

            def run(until=None, resume=None, config=config):
                got = []
                with Loader(config, range(N), sampler=of_lengths, resume=resume) as batches:
                    for epoch in batches.epochs():
                        for batch in epoch:
                            got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                            if len(got) == until:
                                return got, batches.state_dict()
                return got, None

            whole, _ = run()
            for cut in range(1, len(whole)):
                begun, state = run(cut)
                assert whole == begun + run(resume=state)[0]


class TestFailing:
    """A sampler that raises."""

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("ask", [lambda batches: None, len], ids=["", "with len between"])
    def test_it_is_raised_at_its_place_and_asked_again(self, workers, ask):
        """Behind the last batch of the epoch before; the state stays, and nothing is lost."""
        failed = []

        def sampler(epoch, n):
            if epoch == 1 and len(failed) < 2:
                failed.append(ValueError(f"failure {len(failed)}"))
                raise failed[-1]
            return [epoch, 3, 4]

        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=sampler) as batches:
            assert [[0, 3], [4]] == lists(batches)
            state = batches.state_dict()
            epoch = iter(batches)
            for number in range(2):
                with pytest.raises(ValueError, match=f"failure {number}") as caught:
                    [ask(batches), next(epoch)]
                assert ["threadloader: raised for the order of epoch 1"] == caught.value.__notes__
                assert state == batches.state_dict()
            ask(batches)
            assert [[1, 3], [4]] == lists(epoch)
            assert 2 == batches.state_dict()["world"]["epoch"]

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("index", [0, 1])
    @pytest.mark.parametrize("taken", [0, 1, 2])
    @pytest.mark.parametrize("live", [True, False], ids=["live", "dropped"])
    def test_it_is_told_with_its_epoch_however_it_is_asked(self, workers, index, taken, live):
        """By the loop, and by `len` within, behind or between epochs, ahead of the loop.

        Of the three steps under "keep" the second shard has one, and the first one two.
        """

        def sampler(epoch, n):
            if epoch:
                raise ValueError(epoch)
            return [4, 5, 6]

        config = {"batch_size": 1, "num_workers": workers}
        shard = {"index": index, "count": 2, "remainder": "keep"}
        expected, told = [], []
        with Loader(config, range(N), sampler=sampler, shard=shard) as batches:
            epoch = iter(batches)
            for _ in range(taken):
                next(epoch, None)
            if not live:
                del epoch
            for ask in (len, lambda batches: list(epoch) if live else None, len, list, len):
                try:
                    ask(batches)
                except ValueError as error:
                    expected.append([f"threadloader: raised for the order of epoch {error}"])
                    told.append(error.__notes__)
        assert 2 <= len(told)
        assert expected == told

    def test_it_is_told_with_its_epoch_where_it_refuses_a_note(self):
        class Refusing(Exception):
            def add_note(self, note):
                raise TypeError("no notes")

        def sampler(epoch, n):
            raise Refusing

        with Loader({}, range(N), sampler=sampler) as batches:
            with pytest.raises(WorkerError, match="Refusing was raised for the order of epoch 0,"):
                next(iter(batches))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_raises_it_where_it_cannot_know_better(self, workers):
        """And an iterator begun afterwards asks again."""
        errors = [ValueError("first"), ValueError("second")]

        def sampler(epoch, n):
            if errors:
                raise errors.pop(0)
            return [1, 2]

        with Loader({"batch_size": 2, "num_workers": workers}, range(N), sampler=sampler) as it:
            with pytest.raises(ValueError, match="first"):
                len(it)
            with pytest.raises(ValueError, match="second"):
                len(it)
            assert 1 == len(it)
            assert [[1, 2]] == lists(it)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_that_waits_ends_with_the_with(self, workers):
        """It is closed while the sampler is asked: there is no length, not even 0."""

        def sampler(epoch, n):
            batches.close()
            return [1, 2]

        with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
            with pytest.raises(ClosedError):
                len(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_the_run_tells_it_of_the_last_epoch(self, workers):
        """In a finished run that is started again, each time it is asked."""
        fails = False

        def sampler(epoch, n):
            if fails:
                raise ValueError(epoch)
            return [3]

        config = {"num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=sampler, skip_steps=2) as batches:
            state = batches.state_dict()
        fails = True
        with Loader(config, range(N), sampler=sampler, resume=state) as batches:
            for _ in range(2):
                with pytest.raises(ValueError, match="1") as caught:
                    len(batches)
                assert ["threadloader: raised for the order of epoch 1"] == caught.value.__notes__

    @pytest.mark.parametrize("workers", WORKERS)
    def test_one_that_gives_less_than_before_to_a_resumed_epoch_is_told(self, workers):
        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=named(range(4))) as batches:
            epoch = iter(batches)
            next(epoch)
            state = batches.state_dict()
        with Loader(config, range(N), sampler=named(range(1)), resume=state) as batches:
            with pytest.raises(ValueError, match="got 1 of them, where 2 were delivered already"):
                next(iter(batches))


def named(indices):
    """A sampler with a name that does not tell what it gives."""

    def sampler(epoch, n):
        return indices

    return sampler


class TestOrder:
    """What a sampler gives is the epoch's global order."""

    @kinds
    @pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
    def test_the_shards_of_a_world_together_draw_exactly_it(self, kind, remainder):
        """By the oracle's rules; each shard by itself, in a process of its own if need be."""
        for epoch in range(2):
            order = whole(kind, epoch)
            for index in range(5):
                shard = {"index": index, "count": 5, "remainder": remainder}
                deal = {"batch_size": 2, "shard_index": index, "shard_count": 5}
                deal |= {"remainder": remainder, "drop_last": False}
                with loader(kind, batch_size=2, shard=shard) as batches:
                    for each in batches.epochs(epoch + 1):
                        got = []
                        for batch in each:
                            info = batches.info
                            assert batch.tolist() == info.indices.tolist()
                            got.append((batch.tolist(), info.valid.tolist()))
                expected = expected_epoch(order, **deal)
                assert [(indices, valid) for indices, _, valid in expected] == got

    @kinds
    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_run_goes_on_at_any_cut(self, kind, workers):
        """Also in another world: what remains is dealt anew, once."""
        with loader(kind, batch_size=2) as batches:
            every = [sum(lists(epoch), []) for epoch in batches.epochs(2)]
        steps = -(-len(every[0]) // 2)
        for cut in range(1, steps):
            with loader(kind, batch_size=2, num_workers=workers) as batches:
                epoch = iter(batches)
                begun = sum([next(epoch).tolist() for _ in range(cut)], [])
                state = json.loads(json.dumps(batches.state_dict()))
            with loader(kind, batch_size=3, num_workers=workers, resume=state) as batches:
                rest = [sum(lists(epoch), []) for epoch in batches.epochs(2)]
            assert every == [begun + rest[0], rest[1]]
            shards = []
            for index in range(2):
                shard = {"index": index, "count": 2, "remainder": "keep"}
                with loader(kind, batch_size=1, shard=shard, resume=state) as batches:
                    shards.append(sum(lists(next(batches.epochs(1))), []))
            assert sorted(every[0]) == sorted(begun + shards[0] + shards[1])

    @pytest.mark.parametrize(
        "spec",
        [{"type": "weighted", "weights": WEIGHTS}, {"type": "balanced", "field": "y"}],
        ids=lambda spec: spec["type"],
    )
    @needs_64_bits
    def test_an_epoch_of_draws_of_any_length_can_be_entered_at_its_end(self, spec):
        """At once: none of the 10**12 draws before is made, on no shard."""
        spec = {**spec, "num_samples": 10**12}
        got = []
        for index in range(2):
            shard = {"index": index, "count": 2}
            config = {"batch_size": 2, "sampler": spec, "shard": shard, "seed": 4}
            with Loader(config, Source(), skip_steps=25 * 10**10 - 1) as batches:
                assert 25 * 10**10 == len(batches)
                got += lists(next(batches.epochs(1)))
        labels = {"labels": CLASSES, "weights": WEIGHTS}
        kept = Kept(N, np.empty(0, np.int64))
        order = configured({**spec, **labels, "field": None}, N, 4, kept).order(0)
        assert order.at(np.arange(10**12 - 4, 10**12)).tolist() == sum(got, [])

    @pytest.mark.parametrize("workers", WORKERS)
    @kinds
    def test_it_is_the_same_at_any_number_of_workers(self, kind, workers):
        with loader(kind) as batches:
            expected = [lists(epoch) for epoch in batches.epochs(3)]
        with loader(kind, num_workers=workers, prefetch_batches=5) as batches:
            assert expected == [lists(epoch) for epoch in batches.epochs(3)]

    @pytest.mark.parametrize("workers", WORKERS)
    @kinds
    def test_arrays_of_which_small_batches_are_made_together_have_the_same(self, kind, workers):
        """Whole, broken off and gone on with, `len` asked at every step."""
        arrays = {"x": np.arange(N), "y": CLASSES}
        with loader(kind, batch_size=1) as batches:
            expected = [lists(epoch) for epoch in batches.epochs(3)]
        options = {"batch_size": 1, "num_workers": workers, "source": arrays}
        with loader(kind, **options) as batches:
            assert len(expected[0]) == len(batches)
            begun = []
            for batch in batches:
                assert len(expected[0]) == len(batches)
                begun.append(batch["x"].tolist())
                if len(begun) == 4:
                    break
            state = batches.state_dict()
            assert len(expected[1]) == len(batches)
            assert expected[1:] == [
                [batch["x"].tolist() for batch in epoch] for epoch in batches.epochs(3)
            ]
        with loader(kind, resume=state, **options) as batches:
            rest = [[batch["x"].tolist() for batch in epoch] for epoch in batches.epochs(2)]
        assert expected[:2] == [begun + rest[0], rest[1]]

    @pytest.mark.parametrize(
        "kind", ["weighted", "weighted 30", "without", "balanced", "shuffled subset"]
    )
    def test_seeds_and_epochs_have_others(self, kind):
        orders = [whole(kind, epoch, seed=seed) for seed in (0, 1) for epoch in (0, 1)]
        assert all(one != other for i, one in enumerate(orders) for other in orders[:i])

    @pytest.mark.parametrize("kind", ["subset", "sequence"])
    def test_a_list_has_the_same_in_every_epoch_and_for_every_seed(self, kind):
        listed = KINDS[kind] if kind == "sequence" else KINDS[kind]["sampler"]["indices"]
        assert [listed] * 4 == [whole(kind, epoch, seed=it) for it in (0, 1) for epoch in (0, 3)]

    @pytest.mark.parametrize(
        "given",
        [
            [2, 0, 2],
            (2, 0, 2),
            np.array([2, 0, 2], np.uint8),
            np.array([2, 0, 2], ">i4"),
            range(2, -1, -1),
            memoryview(np.array([2, 0, 2])),
        ],
        ids=lambda given: type(given).__name__,
    )
    def test_what_may_be_given_in_code(self, given):
        """A sequence, and a callable that gives one, or an iterator over it."""
        expected = [[int(index)] for index in given]
        samplers = [given, lambda epoch, n: given, lambda epoch, n: iter(given)]
        for sampler in samplers[isinstance(given, memoryview) :]:
            with Loader({"batch_size": 1}, range(3), sampler=sampler) as batches:
                assert [expected] * 2 == [lists(epoch) for epoch in batches.epochs(2)]

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize(
        ("given", "got"),
        [
            ([0, 12], "12 at position 1"),
            ([-1], "-1 at position 0"),
            ([True], "bool at position 0"),
            ([0.0], "float at position 0"),
            (np.zeros((1, 1), np.int64), "int64 of shape (1, 1)"),
            (None, "NoneType"),
        ],
        ids=str,
    )
    def test_what_a_callable_may_not_give_is_an_error_at_its_place(self, workers, given, got):
        """And never wrapped; the epoch before comes whole."""
        config = {"batch_size": 1, "num_workers": workers}
        with Loader(config, range(N), sampler=lambda e, n: given if e else [11]) as batches:
            assert [[11]] == lists(batches)
            with pytest.raises(ConfigError) as caught:
                next(iter(batches))
        (problem,) = caught.value.problems
        assert ("sampler", got) == (problem.pointer, problem.got)

    @pytest.mark.parametrize("given", [[0, 12], [-1], [True], [0.0], np.zeros((1, 1), np.int64)])
    def test_a_sequence_is_looked_at_when_the_loader_is_entered(self, given):
        with pytest.raises(ConfigError, match=r"^sampler: expected"):
            Loader({}, range(N), sampler=given).__enter__()


class TestState:
    """A state says which sampler its run had."""

    @pytest.mark.parametrize("other", KINDS)
    @kinds
    def test_another_sampler_is_refused_by_its_name(self, kind, other):
        with loader(kind) as batches:
            next(iter(batches))
            state = json.loads(json.dumps(batches.state_dict()))
        if kind == other:
            assert loader(other, resume=state).__enter__().close() is None
            return
        with pytest.raises(StateError) as caught:
            loader(other, resume=state).__enter__()
        samplers = {None if each in ("plain", "unshuffled") else each for each in (kind, other)}
        differing = {"sampler"} if len(samplers) > 1 else set()
        differing |= {"shuffle"} if "plain" in (kind, other) else set()
        assert differing == set(caught.value.fields)

    def test_other_weights_in_the_same_file_are_refused(self, tmp_path, monkeypatch):
        """And taken where that is allowed."""
        monkeypatch.chdir(tmp_path)
        config = {"sampler": {"type": "weighted", "weights": "w.npy"}, "batch_size": 3}
        np.save("w.npy", np.ones(N))
        with Loader(config, range(N)) as batches:
            next(iter(batches))
            state = batches.state_dict()
        np.save("w.npy", np.arange(1, N + 1))
        with pytest.raises(StateError, match='sampler: the state has "weighted, 12 x') as caught:
            Loader(config, range(N), resume=state).__enter__()
        assert ("sampler",) == caught.value.fields
        with Loader(config, range(N)) as batches:
            batches.load_state_dict(state, allow=("sampler",))
            assert 3 == len(list(batches))

    def test_a_callable_is_known_by_its_name(self):
        """Whatever it gives; so another one may take its place under the same name."""
        with Loader({"batch_size": 1}, range(N), sampler=named([1, 2, 3])) as batches:
            next(iter(batches))
            state = batches.state_dict()
        assert "named.<locals>.sampler" == state["run"]["sampler"]
        with Loader({"batch_size": 1}, range(N), sampler=named([7, 8, 9]), resume=state) as batches:
            assert [[8], [9]] == lists(batches)


class TestShuffle:
    """Beside a sampler nothing shuffles, and whoever asks for it is told."""

    SAMPLER = KINDS["subset"]["sampler"]

    @pytest.mark.parametrize("options", [{}, {"shuffle": False}])
    def test_false_or_nothing_is_fine(self, options, tmp_path):
        path = tmp_path / "c.json"
        path.write_text(json.dumps({"sampler": self.SAMPLER, **options}))
        expected = LoaderConfig(sampler=self.SAMPLER, **options)
        assert not expected.shuffle
        for config in ({"sampler": self.SAMPLER, **options}, expected, str(path)):
            made = Loader(config, range(N)).config
            assert (expected, False) == (made, made.shuffle)
        in_code = Loader(options, range(N), sampler=[0]).config
        assert (False, None) == (in_code.shuffle, in_code.sampler)

    def test_true_is_refused_wherever_it_stands(self, tmp_path):
        options = {"sampler": self.SAMPLER, "shuffle": True}
        path = tmp_path / "c.json"
        path.write_text('{"sampler": ' + json.dumps(self.SAMPLER) + ',\n "shuffle": true}')
        for make, place in (
            (lambda: LoaderConfig(**options), "/shuffle"),
            (lambda: Loader(options, range(N)), "/shuffle"),
            (lambda: Loader({"shuffle": True}, range(N), sampler=[0]), "/shuffle"),
            (lambda: Loader(str(path), range(N)), f"{path}:2:13: /shuffle"),
        ):
            with pytest.raises(ConfigError) as caught:
                make()
            said = ": expected false or nothing, since there is a sampler, whose order it is"
            assert str(caught.value).startswith(place + said)

    def test_of_a_subset_it_is_said_where_its_shuffle_stands(self):
        options = {"sampler": {"type": "subset", "indices": [0]}, "shuffle": True}
        with pytest.raises(ConfigError) as caught:
            Loader(options, range(N))
        said = 'whose order it is (a subset is shuffled by the "shuffle" inside it), got true'
        assert said in str(caught.value)
        with pytest.raises(ConfigError, match="whose order it is, got true"):  # instead
            Loader(options, range(N), sampler=lambda epoch, n: [0])

    def test_a_config_goes_round_through_its_dict(self):
        config = LoaderConfig(sampler=self.SAMPLER, exclude=[1])
        assert config == LoaderConfig(**config.as_dict())
        assert config == Loader(config.as_dict(), range(N)).config

    def test_a_default_is_no_wish(self):
        """A config object says shuffle whether or not somebody did; a sampler in code wins."""
        with Loader(LoaderConfig(batch_size=1), range(3), sampler=[2, 0]) as batches:
            assert [[2], [0]] == lists(batches)

    def test_a_sampler_in_code_takes_the_place_of_that_of_the_config(self):
        """What that one names need not be there."""
        config = {"sampler": {"type": "weighted", "weights": "gone.npy"}, "batch_size": 2}
        with Loader(config, range(3), sampler=[2, 0]) as batches:
            assert [[2, 0]] == lists(batches)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exclude": "list.txt"}, "1\n99\n"),
        ({"sampler": {"type": "subset", "indices": "list.txt"}}, "1\n99\n"),
        ({"sampler": {"type": "weighted", "weights": "list.txt"}}, "1\n-1\n"),
    ],
)
def test_a_wrong_value_in_a_file_is_told_with_its_file(tmp_path, options, text):
    (tmp_path / "list.txt").write_text(text)
    (tmp_path / "c.json").write_text(json.dumps(options))
    with pytest.raises(ConfigError, match=r"got .*, in list\.txt"):
        Loader(tmp_path / "c.json", range(N)).__enter__()


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({"type": "weighted", "weights": "list.jsonl"}, "a number"),
        ({"type": "weighted_without_replacement", "weights": "list.jsonl"}, "a number"),
        ({"type": "balanced", "labels": "list.jsonl"}, "an integer"),
        ({"type": "subset", "indices": "list.jsonl"}, "an integer"),
    ],
    ids=str,
)
def test_lines_that_say_more_about_samples_are_no_list_of_a_sampler(tmp_path, sampler, expected):
    """The index in them is no weight, nor a label; `exclude` alone takes them."""
    lines = (f'{{"index": {index}, "weight": 0, "label": 1}}\n' for index in range(N))
    (tmp_path / "list.jsonl").write_text("".join(lines))
    (tmp_path / "c.json").write_text(json.dumps({"sampler": sampler}))
    with pytest.raises(ConfigError, match=f"line 1: expected {expected}, got "):
        Loader(tmp_path / "c.json", range(N)).__enter__()


@pytest.mark.parametrize(
    ("sampler", "exclude", "told"),
    [
        ({"type": "weighted", "weights": [1]}, [0, 99], ["/sampler/weights", "/exclude"]),
        ({"type": "weighted", "weights": "list.npy"}, "none", ["/sampler/weights", "/exclude"]),
        ({"type": "weighted", "weights": "none"}, "far.txt", ["/sampler/weights", "/exclude"]),
        ({"type": "subset", "indices": [50]}, "none", ["/sampler/indices", "/exclude"]),
        ({"type": "balanced", "labels": "none"}, [99], ["/sampler/labels", "/exclude"]),
        # Of labels, those of what is excluded do not matter, and which that is is not known.
        ({"type": "balanced", "labels": "list.npy"}, [99], ["/exclude"]),
        ({"type": "balanced", "field": "z"}, [99], ["/exclude"]),
    ],
    ids=str,
)
def test_all_lists_that_are_wrong_are_told_at_once(tmp_path, sampler, exclude, told):
    """By the error of the loader, each with its place."""
    np.save(tmp_path / "list.npy", np.array([0.0, -1.0]))
    (tmp_path / "far.txt").write_text("99\n")
    (tmp_path / "c.json").write_text(json.dumps({"sampler": sampler, "exclude": exclude}))
    with pytest.raises(ConfigError) as caught:
        Loader(tmp_path / "c.json", range(N)).__enter__()
    assert told == [problem.pointer for problem in caught.value.problems]
    assert all(problem.line for problem in caught.value.problems)


def test_a_sequence_in_code_is_told_beside_exclude():
    with pytest.raises(ConfigError) as caught:
        Loader({"exclude": [99]}, range(N), sampler=[50]).__enter__()
    assert ["/exclude", "sampler"] == [problem.pointer for problem in caught.value.problems]


def test_a_list_s_file_that_is_not_there_is_named_once(tmp_path):
    (tmp_path / "c.json").write_text('{"exclude": "list.txt"}')
    with pytest.raises(ConfigError) as caught:
        Loader(tmp_path / "c.json", range(N)).__enter__()
    assert 1 == str(caught.value).count("list.txt")
