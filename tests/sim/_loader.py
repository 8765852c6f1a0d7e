"""Scenarios over `Loader` and `Batches`: small runs, and every way in which they end.

As in `_engine`. What holds for all of them is checked by `Play` while they run, and by its
`over` in the end.
"""

import warnings
from dataclasses import dataclass
from typing import ClassVar

from freeing import free_at_once

from threadloader import BusyError, ClosedError

from ._batches import Play, expected
from ._jobs import Bad, no_more_threads
from ._programs import ROOT, Program


@dataclass(frozen=True)
class LoaderScenario(Program):
    """A run of batches and its end.

    Attributes:
        end: which, of `ENDS`.
        workers, ahead, batch, seed: of the config; seed -1 does not shuffle.
        samples: how many the source has.
        epochs: how many the run has.
        fails: comma-separated indices that cannot be read.
        own: 1 for a source of its own for each thread, which the loader closes.
        take: 1 for a source that makes whole batches.
        ms: milliseconds that a read takes, on the simulated clock; from 5 on the loader may
            come to make batches in the consumer's thread.
        at: when the end comes; what it counts is said there.
    """

    end: str = "full"
    workers: int = 1
    ahead: int = 1
    batch: int = 1
    samples: int = 0
    epochs: int = 1
    seed: int = -1
    fails: str = ""
    own: int = 0
    take: int = 0
    ms: int = 0
    at: int = 0

    family: ClassVar[str] = "loader"
    traced: ClassVar[tuple[str, ...]] = (
        str(ROOT / "threadloader" / "engine"),
        str(ROOT / "threadloader" / "loader"),
    )

    def __call__(self, sim):
        play = Play(sim, self)
        ENDS[self.end](play)
        play.over()


def full(play):
    """All epochs are taken."""
    with play.loader() as batches:
        play.consume(batches)
        play.sim.check(play.place == len(play.expected), "G1: the run ends early")
        play.stands(batches)
    play.ended()


def break_off(play):
    """The `with` is left after `at` batches, by an exception of the body."""
    try:
        with play.loader() as batches:
            play.consume(batches, play.at)
            play.stands(batches)
            raise Bad("the body")
    except Bad as error:
        play.sim.check(error.args == ("the body",), f"the body's exception became {error}")
    play.ended()


def resume(play):
    """After `at` batches the run goes on in another loader, of other threads and depth."""
    with play.loader() as batches:
        play.consume(batches, play.at)
        state = play.stands(batches)
    if 0 < play.place < len(play.expected) and play.failing(play.place - 1):
        play.place -= 1  # the state stands before a failed batch that was not passed
    with play.loader(workers=play.scenario.ahead, ahead=play.scenario.workers or 1) as batches:
        batches.load_state_dict(state)
        play.consume(batches)
        play.sim.check(play.place == len(play.expected), "G3: the resumed run ends early")
        play.stands(batches)
    play.ended()


def load_state(play):
    """The run goes back to its beginning after `at` batches."""
    with play.loader() as batches:
        state = play.stands(batches)
        play.consume(batches, play.at)
        batches.load_state_dict(state)
        play.place = play.delivered = 0
        play.consume(batches)
        play.stands(batches)
    play.ended()


def again(play):
    """After `at` batches another iterator is begun: the next epoch, and the end of the old one."""
    with play.loader() as batches:
        old = iter(batches)
        while play.place < play.at and play.next(batches, old):
            pass
        begun = [number for number, (epoch, *_) in enumerate(play.expected) if epoch > 0]
        play.place = begun[0] if begun else len(play.expected)
        new = iter(batches)
        try:
            next(old)
        except (ClosedError, StopIteration):  # the latter where it had come to its end
            pass
        else:
            play.sim.check(False, "an ended iterator gives a batch")
        if begun:
            while play.next(batches, new):
                pass
            play.sim.check(play.place == len(play.expected), "G1: the second epoch ends early")
    play.ended()


def close_elsewhere(play):
    """Another thread closes the batches after `at` steps of its own."""

    def close():
        for _ in range(play.at):
            play.sim.step()
        batches.close()

    with play.loader() as batches:
        other = play.sim.thread(close, (), "closer")
        other.start()
        try:
            play.consume(batches)
        except ClosedError:
            pass
        other.join()
        play.stands(batches)
    play.ended()


def close_in_a_worker(play):
    """The read of sample `at` closes its own loader."""

    def inside(index):
        if index == play.at:
            batches.close()

    with play.loader() as batches:
        play.inside = inside
        try:
            play.consume(batches)
        except ClosedError:
            pass
        play.stands(batches)
    play.inside = None
    play.ended()


def two_consumers(play):
    """Two threads ask one iterator: each batch goes to one of them, in order, or to nobody."""

    def ask():
        refused = 0
        while refused < 3:
            try:
                if not play.next(batches, epoch):
                    return
            except BusyError:
                refused += 1
                play.sim.step()

    play.alone = False
    with play.loader() as batches:
        epoch = iter(batches)
        others = [play.sim.thread(ask, (), f"consumer-{number}") for number in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        while play.next(batches, epoch):
            pass
        play.stands(batches)
    play.ended()


def looked_at(play):
    """Another thread asks for state and statistics while batches are taken: one moment each."""

    def look():
        for _ in range(play.at):
            state = batches.state_dict()
            world, found = state["world"], state["shard"]["samples"]
            stands = world["epoch"] * play.scenario.samples + world["position"]
            play.sim.check(found == stands, f"of one moment: {found} samples, {stands}")
            stats = batches.stats()
            rows = sum(len(indices) for _, _, indices in play.expected[: stats.batches])
            play.sim.check(stats.samples == rows, f"of one moment: {rows} samples, {stats}")

    with play.loader() as batches:
        other = play.sim.thread(look, (), "observer")
        other.start()
        play.consume(batches)
        other.join()
    play.ended()


def no_thread(play):
    """The start of thread number `at` fails, counted from 1; the loader can be entered again."""
    play.sim.fail("start", play.at, no_more_threads)
    fails = 1 <= play.at <= play.scenario.workers + 2 and play.scenario.workers > 0
    loader = play.loader()
    try:
        with loader as batches:
            play.sim.check(not fails, "entering does not raise")
    except RuntimeError as error:
        play.sim.check(fails, f"entering raises {error}")
    play.ended()
    play.sim.fail("start", 0, None)
    with loader as batches:
        play.consume(batches)
    play.ended()


def dropped(play):
    """After `at` batches everything is forgotten: the threads end, and one warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batches = play.loader().__enter__()
        play.consume(batches, play.at)
        del batches
        free_at_once()  # an exception that it has raised may lead to it
        left = play.sim.drain()
        play.sim.check(not left, lambda: f"G6: {left} are left of a dropped loader")
    found = [each.category for each in caught]
    expected = [ResourceWarning] if play.scenario.workers else []
    play.sim.check(found == expected, lambda: f"the warnings are {found}")
    play.opened = 0  # a dropped loader closes nothing: its sources go with it


ENDS = {
    "full": full,
    "break": break_off,
    "resume": resume,
    "load-state": load_state,
    "again": again,
    "elsewhere": close_elsewhere,
    "in-a-worker": close_in_a_worker,
    "two-consumers": two_consumers,
    "looked-at": looked_at,
    "no-thread": no_thread,
    "dropped": dropped,
}


def drawn(rng, end):
    """Draw a scenario with a given end, a key of `ENDS`, from a `random.Random`."""
    ms = rng.choice((0, 0, 0, 1, 5))
    # The loader decides who makes the batches after eight of them.
    samples = rng.randint(8, 12) if ms == 5 else rng.randint(0, 6)
    batch, epochs = 1 if ms == 5 else rng.randint(1, 3), rng.randint(1, 2)
    fails = [str(index) for index in range(samples) if rng.random() < 0.2]
    at = rng.randint(0, len(expected(samples, batch, -1, epochs)))
    if end in ("elsewhere", "looked-at", "no-thread"):
        at = rng.randint(0, {"elsewhere": 30}.get(end, 6))
    return LoaderScenario(
        end=end,
        workers=rng.choice((0, 1, 1, 2, 2, 3)),
        ahead=rng.randint(1, 3),
        batch=batch,
        samples=samples,
        epochs=epochs,
        seed=rng.choice((-1, 0, 1)),
        fails=",".join(fails) if rng.random() < 0.5 and end != "looked-at" else "",
        own=rng.randint(0, 1),
        take=int(rng.random() < 0.3),
        ms=ms,
        at=at,
    )
