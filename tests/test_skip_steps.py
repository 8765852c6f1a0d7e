"""`skip_steps` leaves out the next steps and nothing else; what no run has is refused."""

import numpy as np
import pytest
from oracle import expected_epoch
from stopped import config, cut, delivered, place

from threadloader import ConfigError, Loader, StateError, WorkerError
from threadloader.loader._skip_steps import FURTHEST


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
    for where in ([0, 0], [0, 3], [1, 1]):
        with Loader(config(**options), np.arange(10), resume=state, skip_steps=2) as batches:
            delivered(batches, 1)
            state = batches.state_dict()
        expected.append([*where, 2])
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
    with pytest.raises(ConfigError, match="skip_steps: expected none to leave out, since an epoc"):
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
    with pytest.raises(ConfigError, match="of 0 samples has no step, got 1; give fewer"):
        Loader(config(), np.arange(0), skip_steps=1).__enter__()


@pytest.mark.parametrize("zeros", [25, 5000])
def test_more_steps_than_any_run_has_are_refused(zeros):
    with pytest.raises(ConfigError, match="skip_steps: expected steps that end before epoch"):
        Loader(config(), np.arange(10), skip_steps=10**zeros).__enter__()


def test_the_last_epoch_that_steps_are_left_out_up_to_ends_in_a_state_that_goes_on():
    options = {"batch_size": 4, "num_workers": 0}
    with Loader(options, range(4), skip_steps=FURTHEST - 1) as batches:
        for _ in range(3):
            assert 1 == len(list(batches))
        state = batches.state_dict()
    with Loader(options, range(4), resume=state) as batches:
        assert FURTHEST + 2 == state["world"]["epoch"]
    with pytest.raises(ConfigError, match=f"expected steps that end before epoch {FURTHEST}, got"):
        Loader(options, range(4), skip_steps=FURTHEST).__enter__()


@pytest.mark.parametrize("start", [0, 7, 15])
@pytest.mark.parametrize("more", [1, 5, 10**5000], ids=["1", "5", "very many"])
def test_more_steps_than_are_left_of_the_run_are_refused(start, more):
    """With their number: three epochs of five steps, of which some are done."""
    _, state = cut(start, np.arange(10), num_epochs=3)
    left = 15 - start
    loader = Loader(config(num_epochs=3), np.arange(10), resume=state, skip_steps=left + more)
    said = (
        rf"^skip_steps: expected at most {left}, the steps left up to the end of num_epochs \(3\)"
    )
    with pytest.raises(ConfigError, match=said):
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
    with pytest.raises(ConfigError, match="expected at most 4, the steps left up to the end"):
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
