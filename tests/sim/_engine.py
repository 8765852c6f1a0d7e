"""Scenarios over the engine: small streams of jobs, and every way in which they end.

Each is a `Program`: drawn at random, told by its text, run on any schedule. What holds for
all of them is checked by `Watch` while they run, and by `Play.over` in the end.
"""

import warnings
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar
from unittest.mock import patch

from threadloader.engine import ENDED, Engine, _feeder

from ._jobs import FINISH, OUT_OF_MEMORY, Plan, Watch, no_more_threads
from ._programs import ROOT, Program

CLOSE_SECONDS = 5.0
"""The `close_timeout` of all scenarios, on the simulated clock."""

SLACK_SECONDS = 0.25
"""How much longer than that `stop` may take."""


@dataclass(frozen=True)
class EngineScenario(Program):
    """A stream of jobs and its end.

    Attributes:
        end: which, of `ENDS`.
        workers, depth: of engine and stream.
        parts: a digit for each job: how many parts it has.
        fails: comma-separated ``job.part`` that fail; part 9 is the finish.
        draw: number of the job instead of which the iterator of jobs fails; -1: none.
        ms: milliseconds that a part takes, on the simulated clock; below 0 it is not even a
            scheduling point.
        gil: milliseconds that a worker waits for the GIL.
        most: bytes of results that may wait; a result has as many as its job parts; 0: any.
        light: whether the feeder may finish jobs, 1 or 0; 2: and has time for all of them.
        at: when the end comes; what it counts is said there.
    """

    end: str = "full"
    workers: int = 1
    depth: int = 1
    parts: str = ""
    fails: str = ""
    draw: int = -1
    ms: int = 0
    gil: int = 0
    most: int = 0
    light: int = 0
    at: int = 0

    family: ClassVar[str] = "engine"
    traced: ClassVar[tuple[str, ...]] = (str(ROOT / "threadloader" / "engine"),)

    def plan(self):
        pairs = [pair.split(".") for pair in self.fails.split(",") if pair]
        fails = frozenset((int(number), int(part)) for number, part in pairs)
        parts = tuple(map(int, self.parts))
        return Plan(parts, fails, self.draw, self.ms / 1000, light=bool(self.light))

    def __call__(self, sim, kind=None):
        """Run it on a runtime, as a `Play` or another kind of it."""
        always = patch.object(_feeder, "_has_time", lambda *known: True)
        with always if self.light > 1 else nullcontext():
            play = (kind or Play)(sim, self)
            ENDS[self.end](play)
            play.over()


class Play:
    """A scenario on one schedule: the engine, its stream, and what they have in common.

    Attributes:
        stuck: how many workers it is to give up.
        broken: whether it failed itself: that error's traceback may keep what it leads to.
    """

    def __init__(self, sim, scenario):
        self.sim = sim
        sim.gil_seconds = scenario.gil / 1000
        self.at = scenario.at
        self.depth = scenario.depth
        self.plan = scenario.plan()
        most = scenario.most or None
        self.engine = Engine(scenario.workers, CLOSE_SECONDS, sim, max_bytes=most)
        self.bound = scenario.most + scenario.workers * max(self.plan.sizes, default=0)
        self.workers = scenario.workers
        self.stuck, self.broken = 0, False
        self._weak = weakref.ref(self.engine)
        self._watches = []

    def usable(self):
        """Whether it was not stopped. Gone, it was, but for a finalizer held up half way."""
        engine = self._weak()
        return self.sim.grain != "call" if engine is None else engine.usable

    def watch(self, plan=None, inside=None):
        """Make a stream's jobs and consumer."""
        watch = Watch(self.sim, plan or self.plan, self.depth, self.usable, inside)
        self._watches.append(watch)
        return watch

    def begin(self, inside=None):
        """Start the engine; give a watched stream and its watch."""
        self.engine.start()
        watch = self.watch(inside=inside)
        return self.engine.stream(watch.draw(), self.depth), watch

    def stop(self):
        """Stop the engine: within its bound, and then none of its threads is left (G6)."""
        began = self.sim.now
        self.sim.check(self.engine.stop(), "G6: stop says that it was called in a worker")
        peak = self.engine.peak_bytes
        self.sim.check(peak <= self.bound, lambda: f"G12: {peak} bytes were ready")
        took = self.sim.now - began
        self.sim.check(took <= CLOSE_SECONDS + SLACK_SECONDS, lambda: f"G6: a stop took {took} s")
        left = [name for name in self.sim.alive() if name.startswith("threadloader")]
        self.sim.check(len(left) == self.stuck, lambda: f"G6: after the stop there is {left}")
        self.sim.check(not self.engine.usable, "G5: a stopped engine is usable")

    def over(self):
        """Check what holds at every end."""
        sim = self.sim
        self.engine = None
        left = sim.drain()
        sim.check(not left, lambda: f"G6: {left} wait for ever")
        sim.check(not sim.escaped, lambda: f"G7: an exception has ended {sim.escaped}")
        sim.check(len(sim.logged) == self.stuck, lambda: f"G6: the log has {sim.logged}")
        for watch in self._watches if not self.broken else ():
            watch.gone()


def full(play):
    """All results are taken, and the end asked for again."""
    stream, watch = play.begin()
    play.sim.check(watch.consume(stream), "G1: the results end early")
    play.stop()


def break_off(play):
    """After `at` results the engine is stopped."""
    stream, watch = play.begin()
    stream.prefetch()
    play.sim.check(watch.consume(stream, play.at), "G1: the results end early")
    play.stop()
    play.sim.check(stream.result(watch.taken) is ENDED, "G5: a result after the stop")


def stop_elsewhere(play):
    """One thread takes results, another stops the engine after `at` steps of its own."""
    stream, watch = play.begin()
    consumer = play.sim.thread(watch.consume, (stream,), "consumer")
    consumer.start()
    for _ in range(play.at):
        play.sim.step()
    play.stop()
    consumer.join()


def two_stops(play):
    """One thread takes results, two others stop the engine."""
    stream, watch = play.begin()
    others = [play.sim.thread(play.stop, (), f"stopper-{number}") for number in range(2)]
    for other in others:
        other.start()
    watch.consume(stream)
    for other in others:
        other.join()
    play.stop()


def cancel(play):
    """After `at` results the stream is cancelled; another one is taken to its end."""
    stream, watch = play.begin()
    play.sim.check(watch.consume(stream, play.at), "G1: the results end early")
    stream.cancel()
    watch.cancelled = True
    play.sim.check(stream.result(watch.taken) is ENDED, "a result of a cancelled stream")
    backwards = play.plan._replace(sizes=play.plan.sizes[::-1], fails=frozenset(), no_draw=-1)
    other = play.watch(backwards)
    stream = play.engine.stream(other.draw(), play.depth)
    play.sim.check(other.consume(stream), "G1: the results of the second stream end early")
    play.stop()


def stop_in_a_worker(play):
    """A part of job `at` stops its own engine; it does not wait for itself."""
    engine = play.engine

    def inside(number, part):
        if number == play.at:
            play.sim.check(not engine.stop(), "G6: a stop in a worker says that all have ended")

    stream, watch = play.begin(inside)
    watch.consume(stream)
    play.stop()
    watch.inside = None  # it holds the engine


def stuck(play):
    """Part 0 of job `at` does not return; a consumer waits in a thread of its own."""
    gate = play.sim.lock()
    gate.acquire()

    def never_returns(number, part):
        if (number, part) == (play.at, 0):
            gate.acquire()

    stream, watch = play.begin(never_returns)
    consumer = play.sim.thread(watch.consume, (stream,), "consumer")
    consumer.start()
    play.sim.sleep(600)  # until all that can be done is done
    reached = play.at < play.plan.drawn
    play.stuck = int(reached)
    play.stop()
    if reached:
        (text,) = play.sim.logged
        told = "threadloader-worker-", f"job {play.at}, part 0", "in never_returns"
        play.sim.check(all(word in text for word in told), f"G6: the log says {text}")
    consumer.join()
    gate.release()


def no_thread(play):
    """The start of thread number `at` fails, counted from 1: all start, or none."""
    play.sim.fail("start", play.at, no_more_threads)
    fails = 1 <= play.at <= play.workers + 2
    try:
        play.engine.start()
    except RuntimeError as error:
        play.sim.check(fails, f"start raises {error}")
        play.sim.check("can't start new thread" == str(error), f"start raises {error}")
    else:
        play.sim.check(not fails, "start does not raise")
    play.stop()


def feeder_fails(play):
    """The feeder's own put number `at` runs out of memory: whoever waits is told."""
    stream, watch = play.begin()
    play.sim.fail("put", play.at, lambda: MemoryError(OUT_OF_MEMORY))
    play.broken = not watch.consume(stream)
    if play.broken:
        play.sim.check(stream.result(watch.taken) is ENDED, "G5: a result behind the end")
    play.sim.fail("put", 0, None)  # the words that it is over are to get through
    play.stop()


def told(play):
    """The threads are told to end while results are taken; then it is stopped."""
    stream, watch = play.begin()
    watch.consume(stream, play.at)
    play.engine.tell()
    play.sim.check(stream.result(watch.taken) is ENDED, "G5: a result after the stop")
    play.stop()


def dropped(play):
    """After `at` results the engine is forgotten: its threads end, and one warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream, watch = play.begin()
        watch.consume(stream, play.at)
        del stream
        play.engine = None
        play.sim.check(not play.sim.drain(), "G6: a dropped engine's threads are left")
    found = [each.category for each in caught]
    play.sim.check(found == [ResourceWarning], lambda: f"the warnings are {found}")


ENDS = {
    "full": full,
    "break": break_off,
    "elsewhere": stop_elsewhere,
    "two-stops": two_stops,
    "cancel": cancel,
    "in-a-worker": stop_in_a_worker,
    "stuck": stuck,
    "no-thread": no_thread,
    "feeder-fails": feeder_fails,
    "told": told,
    "dropped": dropped,
}


def drawn(rng, end):
    """Draw a scenario with a given end, a key of `ENDS`, from a `random.Random`."""
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(0, 6))]
    fails = [
        f"{number}.{part}"
        for number, size in enumerate(sizes)
        for part in (*range(size), FINISH)
        if rng.random() < 0.15
    ]
    at = rng.randint(0, len(sizes))
    if end == "elsewhere":
        at = rng.randint(0, 30)
    elif end in ("no-thread", "feeder-fails"):
        at = rng.randint(0, 6)
    return EngineScenario(
        end=end,
        workers=rng.randint(1, 3),
        depth=rng.randint(1, 3),
        parts="".join(map(str, sizes)),
        fails=",".join(fails) if rng.random() < 0.5 else "",
        draw=rng.randint(0, len(sizes)) if rng.random() < 0.15 else -1,
        ms=rng.choice((0, 0, 1, 3000)),
        gil=rng.choice((0, 5)),
        at=at,
        most=rng.choice((0, 0, 1, 3, 6)),
        light=rng.choice((0, 1, 2)),
    )
