"""A state says exactly where the loop stands; it goes on from there, or the state is refused."""

import gc
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import WORKERS, Numbers, lists, load
from strategies import deals

from threadloader import BusyError, Loader, StateError


class TestState:
    def run(self, config, source, until=None, state=None, workers=2):
        """Collects (epoch, step, batch) up to a count, from a state on; gives the state too."""
        got = []
        loader = Loader({"num_workers": workers, **config}, source)
        with loader as batches:
            if state is not None:
                batches.load_state_dict(json.loads(json.dumps(state)))
            for epoch in batches.epochs(3):
                for batch in epoch:
                    got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                    if len(got) == until:
                        return got, batches.state_dict()
            return got, batches.state_dict()

    @settings(max_examples=40)
    @given(
        n=st.integers(1, 20),
        batch_size=st.integers(1, 6),
        drop_last=st.booleans(),
        cuts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        workers=st.sampled_from([0, 2]),
    )
    def test_a_run_cut_any_number_of_times_is_the_uninterrupted_one(
        self, n, batch_size, drop_last, cuts, workers
    ):
        """Batch for batch, over three epochs, whatever was prefetched at the cuts."""
        config = {"batch_size": batch_size, "drop_last": drop_last, "seed": 3}
        whole, end = self.run(config, Numbers(n), workers=0)
        got, state = [], None
        for until in [*cuts, None]:
            part, state = self.run(config, Numbers(n), until, state, workers)
            got += part
        assert whole == got
        assert end["world"] == state["world"]

    def test_loading_reads_no_sample_but_those_that_come_next(self):
        _, state = self.run({"batch_size": 2, "shuffle": False}, Numbers(10), until=3)
        source = Numbers(10)
        with load(source, batch_size=2, num_workers=0) as batches:
            batches.load_state_dict(state)
            assert [] == source.read
            assert [6, 7] == next(iter(batches)).tolist()
        assert [6, 7] == source.read

    def test_what_is_loaded_is_what_is_given_back(self):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2}, Numbers(10)) as batches:
            batches.load_state_dict(state)
            assert state == batches.state_dict()

    def test_at_the_end_of_an_epoch_the_state_stands_at_the_next_one(self):
        """Before and after StopIteration alike."""
        with load(Numbers(4), batch_size=2) as batches:
            epoch = iter(batches)
            next(epoch), next(epoch)
            before = batches.state_dict()
            assert [] == list(epoch)
            assert before == batches.state_dict()
            assert {"epoch": 1, "position": 0, "step": 0} == {
                name: before["world"][name] for name in ("epoch", "position", "step")
            }

    def test_a_shard_with_a_step_less_gets_to_the_next_epoch_when_its_iteration_ends(self):
        shard = {"index": 1, "count": 2, "remainder": "keep"}
        with Loader({"batch_size": 2, "shard": shard}, Numbers(5)) as batches:
            epoch = iter(batches)
            next(epoch)
            assert (0, 4) == tuple(batches.state_dict()["world"][k] for k in ("epoch", "position"))
            assert [] == list(epoch)
            assert (1, 0) == tuple(batches.state_dict()["world"][k] for k in ("epoch", "position"))

    @given(
        n=st.integers(0, 60),
        first=deals(max_batch=4, max_shards=3),
        second=deals(max_batch=5, max_shards=4),
        steps=st.integers(0, 8),
        seed=st.integers(0, 5),
    )
    @settings(max_examples=60)
    def test_another_world_deals_the_remaining_positions_anew(self, n, first, second, steps, seed):
        """Over both worlds every sample comes once: none twice, none lost (but by drop)."""

        def config(deal, index):
            return {
                "batch_size": deal["batch_size"],
                "seed": seed,
                "num_workers": 0,
                "shard": {"index": index, "count": deal["shard_count"], "remainder": "keep"},
            }

        seen, states = [], []
        for index in range(first["shard_count"]):
            with Loader(config(first, index), Numbers(n)) as batches:
                epoch = iter(batches)
                for _ in range(steps):
                    if (batch := next(epoch, None)) is None:
                        break
                    seen += batch.tolist()
                states.append(batches.state_dict())
        if len({json.dumps(state["world"]) for state in states}) != 1 or not seen:
            return  # a shard had no step left: the world was not cut behind one step
        for index in range(second["shard_count"]):
            with Loader(config(second, index), Numbers(n)) as batches:
                batches.load_state_dict(states[0])
                if states[0]["world"]["epoch"] == 0:
                    seen += sum(lists(batches), [])
        assert list(range(n)) == sorted(seen)

    @pytest.mark.parametrize(
        ("change", "field"), [({"seed": 1}, "seed"), ({"shuffle": False}, "shuffle")]
    )
    def test_a_state_of_another_order_is_refused_by_name(self, change, field):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2, **change}, Numbers(10)) as batches:
            with pytest.raises(StateError, match=field) as caught:
                batches.load_state_dict(state)
            assert (field,) == caught.value.fields
            assert 0 == batches.state_dict()["world"]["position"]

    @pytest.mark.parametrize("source", [Numbers(11), np.arange(10)])
    def test_a_state_of_another_source_is_refused(self, source):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2}, source) as batches:
            with pytest.raises(StateError, match="source"):
                batches.load_state_dict(state)

    def test_a_source_whose_length_was_another_is_refused_whatever_it_says_of_itself(self):
        """The order is one of n samples; a fingerprint of the user's may leave n out."""

        class Named(Numbers):
            def fingerprint(self):
                return "always the same"

        with Loader({"batch_size": 2}, Named(10)) as batches:
            state = batches.state_dict()
        with Loader({"batch_size": 2}, Named(12)) as batches:
            with pytest.raises(StateError, match="samples: the state has 10, this run 12"):
                batches.load_state_dict(state)

    def test_an_iterator_that_is_garbage_is_not_live(self):
        """As one is that an exception leads to, which is part of a cycle."""
        with load(Numbers(6), batch_size=2) as batches:
            state = batches.state_dict()
            cycle = [iter(batches)]
            cycle.append(cycle)
            gc.disable()
            try:
                next(cycle[0])
                del cycle
                batches.load_state_dict(state)
            finally:
                gc.enable()
            assert [[0, 1], [2, 3], [4, 5]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_iterator_that_is_closed_lets_a_state_be_loaded(self, workers):
        """As behind a `break`, where the loop's variable still has it; and it gives no more."""
        with load(Numbers(12), batch_size=2, num_workers=workers) as batches:
            for epoch in batches.epochs(2):
                assert [[0, 1], [2, 3]] == lists(itertools.islice(epoch, 2))
                state = batches.state_dict()
                assert [[4, 5]] == lists(itertools.islice(epoch, 1))
                break
            with pytest.raises(BusyError, match=r"or call its close\(\)"):
                batches.load_state_dict(state)
            epoch.close()
            epoch.close()
            assert [] == list(epoch)
            batches.load_state_dict(state)
            assert [[4, 5], [6, 7], [8, 9], [10, 11]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_iterator_without_a_name_is_ended_by_the_next_one(self, workers):
        """As the error says: behind a loop that a Ctrl-C has left, whose traceback is kept."""
        with load(Numbers(12), batch_size=2, num_workers=workers) as batches:
            held = iter(batches)  # as a frame of the traceback holds it
            assert [[0, 1], [2, 3]] == lists(itertools.islice(held, 2))
            state = batches.state_dict()
            with pytest.raises(
                BusyError, match=r"take the state first and end it by iter\(batches\).close"
            ):
                batches.load_state_dict(state)
            iter(batches).close()
            batches.load_state_dict(state)
            assert [[4, 5], [6, 7], [8, 9], [10, 11]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_closing_an_iterator_leaves_what_was_delivered_and_a_newer_one_as_they_are(
        self, workers
    ):
        with load(Numbers(6), batch_size=2, num_workers=workers) as batches:
            first = iter(batches)
            assert [0, 1] == next(first).tolist()
            before = batches.state_dict()
            first.close()
            assert before == batches.state_dict()
            second = iter(batches)
            assert 1 == second.number
            first.close()
            assert [[0, 1], [2, 3], [4, 5]] == lists(second)

    def test_the_number_of_an_epoch_is_only_read(self):
        """The state is worked out of it."""
        with load(Numbers(4)) as batches:
            epoch = iter(batches)
            with pytest.raises(AttributeError):
                epoch.number = 1

    def test_loading_while_an_iterator_is_live_is_refused(self):
        with Loader({"batch_size": 2}, Numbers(6)) as batches:
            state, epoch = batches.state_dict(), iter(batches)
            first = next(epoch).tolist()
            with pytest.raises(BusyError, match="live"):
                batches.load_state_dict(state)
            assert 2 == len(lists(epoch))
            batches.load_state_dict(state)
            assert first == next(iter(batches)).tolist()

    def test_after_a_break_a_state_can_be_loaded(self):
        """The loop's iterator is gone, so nobody is in the middle of an epoch."""
        with load(Numbers(6), batch_size=2) as batches:
            state = batches.state_dict()
            for _ in batches:
                break
            batches.load_state_dict(state)
            epoch = iter(batches)
            assert (0, [[0, 1], [2, 3], [4, 5]]) == (epoch.number, lists(epoch))

    def test_the_state_can_be_taken_after_the_with(self):
        with load(Numbers(6), batch_size=2) as batches:
            next(iter(batches))
            inside = batches.state_dict()
        assert inside == batches.state_dict()
