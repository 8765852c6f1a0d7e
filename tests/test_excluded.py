"""What is excluded never comes, whatever the sampler; another list holds from the next epoch on."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_samplers import kept_of
from oracle import expected_epoch, expected_len
from sampler_kinds import KINDS, N, kinds, lists, loader, needs_64_bits, whole

from threadloader import ConfigError, Loader, StateError
from threadloader import samplers as room
from threadloader.state import Excluded, dump, load


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


class TestKept:
    @given(n=st.integers(0, 60), data=st.data())
    def test_ranks_count_what_is_left(self, n, data):
        gone = data.draw(st.sets(st.integers(0, max(n - 1, 0)), max_size=n)) if n else set()
        left = [index for index in range(n) if index not in gone]
        kept = kept_of(n, gone)
        assert (len(left), not gone) == (kept.count, kept.all)
        assert left == kept.indices(np.arange(len(left))).tolist()
        ranks = [left.index(index) if index in left else None for index in range(n)]
        assert ranks == [kept.rank(index) for index in range(n)]
        assert left == kept.among(np.arange(n)).tolist()

    def test_a_list_of_which_nothing_is_excluded_is_not_copied(self):
        indices, kept = np.arange(9), kept_of(9, [])
        assert kept.among(indices) is indices is kept.of(indices)

    @given(gone=st.sets(st.integers(0, 10**12 - 1)), rank=st.integers(0, 10**11))
    def test_a_list_of_few_is_as_good_for_a_huge_source(self, gone, rank):
        kept = kept_of(10**12, gone)
        index = int(kept.indices(np.array([rank], np.int64))[0])
        assert (rank, [index]) == (kept.rank(index), kept.among(np.array([index])).tolist())
        assert rank == index - sum(other < index for other in gone)

    @given(st.sets(st.integers(0, 300)))
    def test_a_list_is_the_same_as_text(self, indices):
        array = np.array(sorted(indices), np.int64)
        assert array.tolist() == room.from_text(room.to_text(array), 301).tolist()

    @pytest.mark.parametrize(
        "text",
        ["5", "3-1", "1 1", "2 0-1", "1-2 2-3", "-1", "1-", "x", "1,2", "0-5", "1.0"],
    )
    def test_text_that_is_none_of_ours_is_refused(self, text):
        with pytest.raises(ValueError, match=r"expected ascending|invalid literal"):
            room.from_text(text, 5)

    @pytest.mark.parametrize(
        "text",
        ["+3", "0_1 3", "03", "\u0663", "3-3", "1 2", "0-1 2", "1\n3", "1  3", " 3", "3 ", " "],
    )
    def test_text_of_another_form_than_ours_is_refused(self, text):
        with pytest.raises(ValueError, match=r"expected ascending|expected numbers and ranges"):
            room.from_text(text, 5)


def test_an_empty_npy_file_is_no_empty_list(tmp_path):
    """As a full disk leaves it: what was to be left out would be trained on."""
    (tmp_path / "test.npy").touch()
    config = {"exclude": str(tmp_path / "test.npy")}
    with pytest.raises(ConfigError, match="got an empty file; write it again"):
        Loader(config, source=range(9)).__enter__()
