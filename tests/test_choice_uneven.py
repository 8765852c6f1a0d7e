"""Whoever prepares the batches is chosen by what is usual, where their costs or the loop vary."""

import pytest

from threadloader.loader import _choice
from threadloader.loader._choice import Choice


def stays(threads, here, loop, until):
    """Lets a loop run, by a clock of its own; gives how long the consumer made them, each time.

    Args:
        threads: gives the seconds for which batch `i` is waited for where threads make it.
        here: where the consumer does.
        loop: gives the seconds of the loop's own work beside it.
        until: when to end, in seconds.
    """
    choice, now, found, number, begun = Choice(), 0.0, [], 0, 0.0
    while now < until:
        wait = (here if choice.here else threads)(number)
        now += wait
        if choice.note(now, wait, 1, 8, 1e-4, 1, 0.0):
            if choice.here:
                begun = now
            else:
                found.append(now - begun)
        now += loop(number)
        number += 1
    return [*found, now - begun] if choice.here else found


@pytest.mark.parametrize("phase", range(15))
def test_a_long_step_now_and_then_does_not_decide(phase):
    """Every 15th takes 30 ms, as one that writes a log. Behind it three batches are ready."""

    def since(number):
        return (number + phase) % 15

    took = stays(
        threads=lambda number: 0.0 if since(number) in (1, 2, 3) else 0.6e-3,
        here=lambda number: 2.4e-3,
        loop=lambda number: 30e-3 if since(number) == 0 else 0.0,
        until=60.0,
    )
    assert took
    assert max(took) < 1.0


def test_a_window_is_no_longer_than_it_must_be_for_a_single_step():
    """One of 20 s at first, as of a loop that compiles: what follows it is looked at by itself."""
    choice, now = Choice(), 0.0
    for number in range(1000):
        now += 300e-6
        if choice.note(now, 300e-6, 1, 8, 1e-4, 1, 0.0):
            break
        now += 20.0 if number == _choice.WARMING_MOST else 0.0
    assert now < 20.1


@pytest.mark.parametrize("every", [2, 3, 8])
def test_a_trial_costs_a_tenth_of_a_second_and_two_batches_at_most(every):
    """Some batches are dear: two of them in a row may never come. Threads share each of them."""
    dear = 160e-3
    took = stays(
        threads=lambda number: 10e-3,
        here=lambda number: 0.0 if number % every else dear,
        loop=lambda number: 0.0,
        until=60.0,
    )
    assert took
    assert max(took) <= 0.1 + 2 * dear + every * 10e-3


@pytest.mark.parametrize(("every", "stall"), [(60, 0.3), (40, 0.3), (25, 0.12)])
def test_one_stall_does_not_end_a_trial(every, stall):
    """Nor one after the other each of many: what stalls now and then does so either way."""

    def late(number, seconds):
        return stall if number % every == 0 else seconds

    took = stays(
        threads=lambda number: late(number, 4e-3),
        here=lambda number: late(number, 1e-3),
        loop=lambda number: 1e-3,
        until=300.0,
    )
    assert sum(took) > 250.0


def test_a_trial_that_wins_is_not_ended_by_its_dear_batches():
    """What it gains by the others counts, too."""
    took = stays(
        threads=lambda number: 30e-3,
        here=lambda number: 90e-3 if number % 5 == 0 else 1e-3,
        loop=lambda number: 0.0,
        until=60.0,
    )
    assert sum(took) > 50.0


@pytest.mark.parametrize(("every", "seconds"), [(1000, 0.3), (3000, 0.6), (3000, 0.9), (300, 0.05)])
@pytest.mark.parametrize("slower", [2, 4, 8])
def test_a_checkpoint_now_and_then_is_no_reason_to_leave_the_threads(every, seconds, slower):
    """Nor if it is in all that the trial is compared with, and the trial has none."""
    threads = 0.5e-3
    took = stays(
        threads=lambda number: threads,
        here=lambda number: slower * threads,
        loop=lambda number: 0.1e-3 + (seconds if number % every == every - 1 else 0.0),
        until=60.0,
    )
    assert sum(took) < 60.0 / 6
