"""What a sampler gives is the order of its epoch, and a state says which sampler that was."""

import json

import numpy as np
import pytest
from oracle import expected_epoch
from sampler_kinds import (
    CLASSES,
    KINDS,
    WEIGHTS,
    WORKERS,
    N,
    Source,
    kinds,
    lists,
    loader,
    named,
    needs_64_bits,
    whole,
)

from threadloader import ConfigError, Loader, StateError
from threadloader.samplers import Kept, configured


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
