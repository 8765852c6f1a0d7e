"""Small batches are made several at a time, within bounds, as if each were made alone."""

import gc
import json
import weakref
from collections import OrderedDict, deque, namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import Numbers
from taken import Taken

from threadloader import CollateError, Loader
from threadloader.jobs import GroupJob, Recipe, Span
from threadloader.loader._pace import GROUPS_AHEAD
from threadloader.loader._recipe import GATHER_BYTES, GROUP_BYTES

Pair = namedtuple("Pair", "x rows")


class Keeping(dict):
    """A dict of a class that keeps more than its fields."""

    def __init__(self, **fields):
        super().__init__(fields)
        self.kept = list(fields)

    def __repr__(self):
        return f"{self.kept}, {super().__repr__()}"


class Told(dict):
    """A dict that knows something of each row."""

    def __init__(self, rows):
        super().__init__(x=np.array(rows))
        self.rows = rows

    def __repr__(self):
        return f"{self.rows}, {super().__repr__()}"


class Couple(tuple):
    """A tuple of a class of its own."""

    __slots__ = ()

    def __repr__(self):
        return f"a couple {super().__repr__()}"


class Noted(Pair):
    """A named tuple with an attribute."""

    def __repr__(self):
        return f"{self.note}, {super().__repr__()}"


def noted(rows):
    pair = Noted(np.array(rows), rows)
    pair.note = rows
    return pair


class Tagged(np.ndarray):
    """An array with an attribute, which its views have, too."""

    def __array_finalize__(self, of):
        self.tag = getattr(of, "tag", None)

    def __repr__(self):
        return f"{self.tag}, {super().__repr__()}"


def tagged(rows):
    array = np.array(rows).view(Tagged)
    array.tag = rows
    return array


class TestGroups:
    """Small batches of a source that builds whole ones are made several at a time."""

    @pytest.mark.parametrize("workers", [0, 1, 2])
    @given(n=st.integers(0, 60), batch_size=st.integers(1, 5), shard=st.integers(0, 2))
    @settings(max_examples=15, deadline=None)
    def test_the_batches_are_those_that_are_made_one_by_one(self, workers, n, batch_size, shard):
        config = {"batch_size": batch_size, "num_workers": workers, "num_epochs": 2}
        got = []
        shard = {"index": shard, "count": 3}
        with Loader(config, source=Taken(n), shard=shard) as batches:
            for epoch in batches.epochs():
                for batch in epoch:
                    info = batches.info
                    assert batch["x"].tolist() == info.indices.tolist()
                    assert batch["name"] == [str(index) for index in info.indices.tolist()]
                    got.append((info.epoch, info.step, batch["x"].tolist(), info.valid.tolist()))
            counted = batches.stats()
        expected = []
        with Loader({**config, "num_workers": 0}, source=range(n), shard=shard) as batches:
            for epoch in batches.epochs():
                for batch in epoch:
                    info = batches.info
                    expected.append((info.epoch, info.step, batch.tolist(), info.valid.tolist()))
        assert expected == got
        rows = sum(sum(valid) for *_, valid in expected)
        assert (len(expected), rows) == (counted.batches, counted.samples)

    def test_one_call_makes_many(self):
        source = Taken(64)
        with Loader({"batch_size": 2, "num_workers": 0}, source=source) as batches:
            assert 32 == len(list(batches))
        assert [1, 2, 4, 8, 16, 1] == [len(rows) // 2 for rows in source.taken]

    def test_the_last_jobs_of_an_epoch_are_as_large_as_those_before(self):
        """Some jobs are prepared ahead: that should be as much where the last ones are of them."""
        source = Taken(2 * 600)
        config = {"batch_size": 2, "num_workers": 1, "num_epochs": 1}
        with Loader(config, source=source) as batches:
            assert 600 == len(list(batches))
        sizes = [len(rows) // 2 for rows in source.taken]
        assert [1, 2, 4, 8, 16, 32, 64, 128, 173, 172] == sizes

    @pytest.mark.parametrize("workers", [0, 2])
    @given(bad=st.sets(st.integers(0, 39), max_size=4))
    @settings(max_examples=15, deadline=None)
    def test_an_error_comes_at_the_place_of_its_batch(self, workers, bad):
        """The batches before and behind it in its group are delivered."""
        config = {"batch_size": 2, "num_workers": workers, "shuffle": False, "num_epochs": 1}
        with Loader(config, source=Taken(40, bad)) as batches:
            epoch, got, places, notes = iter(batches), [], [], []
            while True:
                try:
                    got.append(next(epoch)["x"].tolist())
                except StopIteration:
                    break
                except OSError as error:
                    places.append((len(got), batches.state_dict()["world"]["step"]))
                    notes.append(f"step {len(got)}, epoch 0" in error.__notes__[0])
                    got.append(None)
            stats = batches.stats()
        expected = [None if {i, i + 1} & bad else [i, i + 1] for i in range(0, 40, 2)]
        assert expected == got
        failed = expected.count(None)
        assert [(step, step) for step in range(20) if expected[step] is None] == places
        assert [True] * failed == notes
        assert (20 - failed, failed) == (stats.batches, stats.failed)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_state_taken_inside_a_group_is_exact(self, workers):
        config = {"batch_size": 2, "num_workers": workers}
        with Loader({**config, "num_workers": 0}, source=Taken(50)) as batches:
            expected = [batch["x"].tolist() for epoch in batches.epochs(2) for batch in epoch]
        for cut in range(1, 50):
            with Loader(config, source=Taken(50)) as batches:
                whole = (batch for epoch in batches.epochs(2) for batch in epoch)
                got = [next(whole)["x"].tolist() for _ in range(cut)]
                state = json.loads(json.dumps(batches.state_dict()))
                assert (cut, 2 * cut) == (state["shard"]["batches"], state["shard"]["samples"])
            with Loader(config, source=Taken(50), resume=state) as batches:
                got += [batch["x"].tolist() for epoch in batches.epochs(2) for batch in epoch]
            assert expected == got

    @pytest.mark.parametrize("kind", [lambda *fields: fields, Pair])
    def test_a_tuple_is_cut_field_by_field_and_keeps_its_class(self, kind):
        class Pairs(Taken):
            def take(self, indices):
                return kind(super().take(indices)["x"], indices.tolist())

        config = {"batch_size": 4, "num_workers": 0, "shuffle": False}
        with Loader(config, source=Pairs(64)) as batches:
            got = list(batches)
        assert {type(kind(0, 0))} == set(map(type, got))
        assert [list(range(i, i + 4)) for i in range(0, 64, 4)] == [x.tolist() for x, _ in got]
        assert [list(range(i, i + 4)) for i in range(0, 64, 4)] == [rows for _, rows in got]

    @pytest.mark.parametrize(
        "of",
        [
            lambda rows: {},
            lambda rows: (),
            lambda rows: OrderedDict(x=np.array(rows)),
            lambda rows: Keeping(x=np.array(rows)),
            lambda rows: {"x": {}, "y": ()},
            lambda rows: {"x": np.array(rows), "unit": "metres"},
            lambda rows: {"x": np.array(rows), "count": len(rows)},
            lambda rows: [np.array(rows), np.array(rows)],
            lambda rows: {"ragged": [list(range(row)) for row in rows]},
            lambda rows: [np.array(rows), [str(row) for row in rows], np.array(rows)],
            lambda rows: np.ma.array(rows, mask=[row % 3 == 0 for row in rows]),
            lambda rows: Couple((np.array(rows), rows)),
            lambda rows: [np.array(rows), np.zeros(3)],
            Told,
            noted,
            tagged,
        ],
    )
    def test_whatever_a_take_gives_comes_as_it_gives_it_for_one_batch(self, of):
        class Giving(Taken):
            def take(self, indices):
                return of(super().take(indices)["x"].tolist())

        config = {"batch_size": 4, "num_workers": 0, "shuffle": False, "num_epochs": 1}
        with Loader(config, source=Giving(64)) as batches:
            got = list(batches)
            assert (0, 0) == (batches.stats().retried, batches.stats().failed)
        expected = [of(list(range(first, first + 4))) for first in range(0, 64, 4)]
        assert list(map(repr, expected)) == list(map(repr, got))

    @pytest.mark.parametrize("in_memory", [False, True])
    @pytest.mark.parametrize("workers", [0, 2])
    def test_what_cannot_be_cut_is_taken_together_once_and_has_not_failed(
        self, workers, in_memory, caplog
    ):
        """Each further try would read its samples twice."""
        caplog.set_level("INFO", "threadloader")

        class Giving(Taken):
            def take(self, indices):
                return {**super().take(indices), "unit": "metres"}

        Giving.in_memory = in_memory
        source = Giving(64)
        config = {"batch_size": 4, "num_workers": workers, "stall_action": "raise"}
        with Loader({**config, "stall_seconds": 60, "prefetch_batches": 5}, source) as batches:
            before = batches.stats().prefetch_batches
            assert 32 == sum(len(list(epoch)) for epoch in batches.epochs(2))
            stats, depth = batches.stats(), batches._supply._depth
        assert (0, 0, 5) == (stats.retried, stats.failed, depth)
        assert (5, True) == (stats.prefetch_batches, before > 5) if workers else before == 0
        # What was under way when the first could not be cut: groups of 2, 4 and 8 at most.
        assert sum(len(indices) > 4 for indices in source.taken) <= 3
        assert 1 == sum("taken one by one" in each.getMessage() for each in caplog.records)

    def test_what_cannot_be_cut_after_a_first_piece_of_a_job_has_not_failed_either(self):
        class Giving(Taken):
            sample_bytes, in_memory = 1 << 18, True

            def take(self, indices):
                batch = super().take(indices)
                return {**batch, "unit": "metres"} if max(indices) >= 20 else batch

        source = Giving(64)
        with Loader({"batch_size": 4, "num_workers": 0, "shuffle": False}, source) as batches:
            assert 16 == len(list(batches))
            assert (0, 0) == (batches.stats().retried, batches.stats().failed)
        assert 1 == sum(len(indices) > 4 and max(indices) >= 20 for indices in source.taken)
        assert any(len(indices) > 4 for indices in source.taken if max(indices) < 20)

    @pytest.mark.parametrize("given", [3, np.float64(1), "abcd", b"abcd", True], ids=repr)
    def test_a_take_that_gives_no_rows_is_told(self, given):
        """As of a `sum` that was not wanted."""
        source = type("Summing", (Taken,), {"take": lambda self, indices: given})(16)
        with Loader({"batch_size": 4, "num_workers": 0}, source=source) as batches:
            with pytest.raises(CollateError, match="take: expected a batch of 4 rows, got "):
                next(iter(batches))

    @pytest.mark.parametrize("told", [None, 0, -8, "8", 8.0, lambda self: 8])
    def test_a_source_that_says_no_number_of_bytes_is_asked_for_one_batch_at_a_time(self, told):
        source = type("Telling", (Taken,), {"sample_bytes": told})(16)
        with Loader({"batch_size": 2, "num_workers": 0}, source=source) as batches:
            assert 8 == len(list(batches))
        assert {2} == set(map(len, source.taken))

    def test_it_says_which_batches_it_makes(self):
        indices = np.arange(6).reshape(3, 2)
        recipe, span = Recipe(None, None, None, gather=2), Span(4, 7, 3, 14, 2, 40, False, False)
        job = GroupJob(recipe, span, indices, np.ones(2, bool))
        assert "the batches of steps 7 to 9, epoch 4" == job.describe(None)
        assert "the batches of steps 7 to 8, epoch 4" == job.describe(0)
        assert "the batches of steps 9 to 9, epoch 4" == job.describe(1)

    def test_several_workers_gather_what_is_handed_over_together(self):
        """A group of arrays in memory has a part for each call, in whatever order they are made."""
        indices = np.arange(14).reshape(7, 2)
        recipe = Recipe(None, None, None, take=lambda rows: rows * 10, group=7, gather=3)
        job = GroupJob(recipe, Span(0, 0, 7, 0, 2, 14, False, False), indices, np.ones(2, bool))
        assert 3 == job.parts
        for claim in ([2], [0, 1]):
            job.run(iter(claim))
        assert (10 * indices).tolist() == [batch.tolist() for batch in job.finish()]

    def test_a_group_that_was_finished_may_be_run_again(self):
        """As after a Ctrl-C behind the finish, without workers."""
        indices = np.arange(6).reshape(3, 2)
        recipe = Recipe(None, None, None, take=lambda rows: rows * 10, group=3, gather=2)
        job = GroupJob(recipe, Span(0, 0, 3, 0, 2, 6, False, False), indices, np.ones(2, bool))
        for _ in range(2):
            job.run(iter(range(job.parts)))
            assert (10 * indices).tolist() == [batch.tolist() for batch in job.finish()]

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_one_call_of_a_worker_gathers_up_to_a_bound(self, in_memory):
        """Else a batch that is kept would keep a whole group."""
        facts = {"sample_bytes": GATHER_BYTES // 8, "in_memory": in_memory}
        source = type("Wide", (Taken,), facts)(128)
        config = {"batch_size": 2, "num_workers": 2, "stall_seconds": 60, "stall_action": "raise"}
        with Loader(config, source) as batches:  # with a stall raised, they stay with the workers
            assert 64 == len(list(batches))
            group = batches.stats().prefetch_batches // GROUPS_AHEAD
        assert 4 == max(len(rows) // 2 for rows in source.taken)
        assert group == (GROUP_BYTES // GATHER_BYTES if in_memory else 1) * 4

    @pytest.mark.parametrize(("workers", "prefetch", "ahead"), [(8, 6, 6), (5, 8, 5), (2, 8, 3)])
    @pytest.mark.parametrize("bound", [None, 3 << 20])
    def test_where_a_source_may_wait_each_worker_can_be_at_a_group(
        self, workers, prefetch, ahead, bound
    ):
        """And all groups together take no more memory than three would, or than the bound."""
        bytes_ = 1 << 15
        source = type("Narrow", (Taken,), {"sample_bytes": bytes_, "in_memory": False})(5000)
        config = {"batch_size": 1, "num_workers": workers, "prefetch_batches": prefetch}
        with Loader({**config, "max_bytes": bound}, source) as batches:
            prepared, group = batches.stats().prefetch_batches, batches._supply._recipe.group
        assert ahead * group == prepared
        most, taken = GATHER_BYTES * GROUPS_AHEAD, prepared * bytes_
        if bound:  # with the group that the loop is in
            most, taken = bound, taken + group * bytes_
        assert 0.8 * most < taken <= most

    @pytest.mark.parametrize(("batch", "ahead", "group"), [(1 << 17, 24, 4), (1 << 19, 6, 4)])
    def test_for_more_workers_no_group_has_fewer_than_four_batches(self, batch, ahead, group):
        """Where one of three would have more. Else a cheap `take` comes at a third of the rate."""
        source = type("Narrow", (Taken,), {"sample_bytes": batch, "in_memory": False})(5000)
        config = {"batch_size": 1, "num_workers": 64, "prefetch_batches": 64}
        with Loader(config, source) as batches:
            recipe = batches._supply._recipe
        assert (ahead, group) == (recipe.ahead, recipe.group)
        with Loader({**config, "max_bytes": 32 * batch}, source) as batches:
            recipe = batches._supply._recipe
        assert 4 <= recipe.group

    def test_with_a_bound_of_bytes_groups_are_no_larger_than_one_call_makes(self):
        """A larger one would pass the bound by more: it holds up to one result a worker."""
        source = type("Wide", (Taken,), {"sample_bytes": 1 << 20, "in_memory": True})(64)
        with Loader({"batch_size": 1, "max_bytes": "1GiB"}, source) as batches:
            assert (GATHER_BYTES >> 20) * GROUPS_AHEAD == batches.stats().prefetch_batches

    @pytest.mark.parametrize(("samples", "most"), [(200, 300), (600, 556), (2000, 768)])
    def test_no_more_batches_are_said_to_be_prepared_than_their_epochs_let(self, samples, most):
        """No group reaches into the next epoch: so a buffer that is full can be told."""
        with Loader({"batch_size": 2}, np.zeros(samples)) as batches:
            assert most == batches.stats().prefetch_batches

    def test_the_bound_of_bytes_holds_for_groups_and_the_batch_in_hand(self):
        bound = 3 << 20
        source = type("Wide", (Taken,), {"sample_bytes": 1 << 12, "in_memory": True})(4096)
        with Loader({"batch_size": 2, "num_workers": 2, "max_bytes": bound}, source) as batches:
            ahead = batches.stats().prefetch_batches
        assert bound >= (ahead + ahead // GROUPS_AHEAD) * 2 * (1 << 12) > bound * 0.9

    def test_batches_of_a_group_share_no_row(self):
        with Loader({"batch_size": 4, "num_workers": 0}, source=np.zeros((64, 3))) as batches:
            kept = list(batches)
        for number, batch in enumerate(kept):
            batch += number
        assert all((batch == number).all() for number, batch in enumerate(kept))

    def test_what_is_left_of_a_group_is_let_go_at_the_end(self):
        with Loader({"batch_size": 1, "num_workers": 0}, source=np.zeros((64, 3))) as batches:
            epoch = iter(batches)
            batch = next(epoch)
            for _ in range(9):
                batch = next(epoch)
            there = weakref.ref(batch.base)
        del batch
        gc.collect()
        assert there() is None

    @pytest.mark.parametrize(
        ("workers", "samples", "width", "epochs"),
        [(0, 64, 1 << 16, 100), (2, 20_000, 512, 20)],
        ids=["batches of 1 MiB without workers", "groups of 2 MiB"],
    )
    def test_what_the_user_holds_is_never_written_again(self, workers, samples, width, epochs):
        """The last 64 batches, or views of them, have every value that they came with.

        Memory is used again in both: smaller batches come from numpy where there is no worker.
        """
        rows = np.arange(samples, dtype=np.float32)
        source = np.repeat(rows[:, np.newaxis], width, axis=1)
        held, addresses = deque(maxlen=64), set()
        with Loader({"batch_size": 4, "num_workers": workers, "seed": 1}, source=source) as batches:
            batches._supply.choice = None
            for turn, epoch in enumerate(batches.epochs(epochs)):
                for number, batch in enumerate(epoch):
                    indices = batches.info.indices
                    if number % 3:
                        held.append((memoryview(batch), indices[:, np.newaxis]))
                    else:
                        held.append((batch[1:, ::2].T, indices[1:]))
                    if turn:  # before, groups begin small, in memory from numpy
                        addresses.add(batch.base.ctypes.data)
                    if number % 50 == 0:
                        for kept, expected in held:
                            assert (np.asarray(kept) == expected).all()
            count = batches.stats().batches
        assert epochs * samples // 4 == count
        # The memory was the pool's, and used again, many times: else the test would say nothing.
        assert len(addresses) < 200
        assert {0} == {address % 64 for address in addresses}


@pytest.mark.parametrize("at", [2, 3, 4])
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_read_of_several_batches_that_fails_once_is_counted(workers, in_memory, at):
    """Made one by one all are good, and nothing else would tell of storage that fails at times."""
    calls = []

    def take(self, indices):
        calls.append(indices)
        if len(calls) == at:
            raise OSError(5, "once")
        return np.array(indices)

    facts = {"take": take, "sample_bytes": 1 << 18, "in_memory": in_memory}
    source = type("Failing", (Numbers,), facts)(40)
    config = {"batch_size": 4, "num_workers": workers, "stall_action": "raise", "stall_seconds": 60}
    with Loader({**config, "shuffle": False}, source) as batches:
        assert list(range(40)) == np.concatenate(list(batches)).tolist()
        assert (1, 0) == (batches.stats().retried, batches.stats().failed)
