"""Jobs that watch the engine at work: what they see is held against its guarantees.

The numbers are those of the docstring of `threadloader.engine`.
"""

import weakref
from typing import NamedTuple

from freeing import AT_ONCE, free_at_once

from threadloader.engine import ENDED

FINISH = 9
"""In a plan of failures, the part that stands for a job's finish."""


class Bad(Exception):
    """Raised by what is to fail: (number of the job, part)."""


OUT_OF_MEMORY = "the engine itself is out of memory"
"""What may come instead of a result, where a test lets that happen."""


def no_more_threads():
    """What the system says to the start of a thread too many."""
    return RuntimeError("can't start new thread")


class Result(list):
    """A job's number, then what its parts gave. Unlike a plain list, it can be watched."""


class Plan(NamedTuple):
    """What the jobs of a stream are.

    Attributes:
        sizes: how many parts each has.
        fails: (number, part) that fail; part `FINISH` is the finish.
        no_draw: number of the job instead of which the iterator of jobs fails; -1: none.
        seconds: how long a part takes, on the simulated clock; at 0 it is a scheduling point
            all the same, below 0 it is none.
        light: whether the feeder may finish a job.
    """

    sizes: tuple[int, ...]
    fails: frozenset[tuple[int, int]] = frozenset()
    no_draw: int = -1
    seconds: float = 0.0
    light: bool = False

    @property
    def drawn(self):
        """How many jobs the iterator gives."""
        return self.no_draw if self.no_draw >= 0 else len(self.sizes)

    def expected(self):
        """List what a serial run gives: (value, error, part) of each outcome (G1, G3, G7)."""
        outcomes = []
        for number, size in enumerate(self.sizes):
            if number == self.no_draw:
                return [*outcomes, (None, (number, None), None)]
            bad = [part for part in range(size) if (number, part) in self.fails]
            if bad:
                outcomes.append((None, (number, bad[0]), bad[0]))
            elif (number, FINISH) in self.fails:
                outcomes.append((None, (number, FINISH), None))
            else:
                outcomes.append(([number, *range(size)], None, None))
        if self.no_draw == len(self.sizes):
            outcomes.append((None, (self.no_draw, None), None))
        return outcomes


class Watch:
    """One stream of jobs and its consumer, watched.

    Args:
        sim: the runtime of the schedule.
        plan: what the jobs are.
        depth: of the stream.
        usable: says whether the engine has not been stopped.
        inside: called in each part with (number, part), where a test wants to do more.
    """

    def __init__(self, sim, plan, depth, usable, inside=None):
        self.sim = sim
        self.plan = plan
        self.depth = depth
        self.inside = inside
        self.jobs = []  # weakly
        self.taken = 0
        self.cancelled = False  # set by the test, right behind the cancel
        self.expected = plan.expected()
        self._usable = usable
        self._asked = 0
        self._begun = set()
        self._late = set()
        self._done = set()

    def draw(self):
        """Give the jobs; runs in the feeder."""
        for number, size in enumerate((*self.plan.sizes, 0)):
            self._without_locks("the iterator of jobs")
            late = self.cancelled and self.sim.grain == "call"
            self.sim.check(not late, f"job {number} is drawn behind the cancel")
            # What was asked for last counts as taken once it is done: it is about to be given.
            # (Or ended, by a stop.)
            taken = self._asked + (self._asked in self._done or not self._usable())
            self.sim.check(
                number < taken + self.depth,
                lambda at=number, n=taken: f"G2: job {at}, {n} taken, depth {self.depth}",
            )
            if self.plan.light:  # meanwhile a worker may come to the end of another job
                self.sim.sleep(self.plan.seconds) if self.plan.seconds > 0 else self.sim.step()
            if number == self.plan.no_draw:
                raise Bad(number, None)
            if size:
                yield self._job(number, size)

    def _job(self, number, size):
        # Made here: a generator's own variable would keep the job alive.
        job = Job(self, number, size)
        self.jobs.append(weakref.ref(job))
        return job

    def begin(self, number, part):
        """A part begins; in a worker."""
        self._without_locks(f"part {part} of job {number}")
        self.sim.check((number, part) not in self._begun, f"G3: part {part} of {number} twice")
        self._begun.add((number, part))
        if not self._usable():
            # A worker that asked before the stop and was held up since may begin that part.
            # Where calls are the only scheduling points there is none in between.
            me = self.sim.me()
            self.sim.check(
                self.sim.grain != "call" and me not in self._late,
                f"G5: part {part} of job {number} begins after the stop, in {me}",
            )
            self._late.add(me)

    def failed(self, number, part):
        """A part or the finish is about to fail."""
        self._done.add(number)
        raise Bad(number, part)

    def finish(self, number, results):
        """A job's parts are done, it says."""
        self._without_locks(f"the finish of job {number}")
        self.sim.check(number not in self._done, f"G3: job {number} is finished twice")
        self.sim.check(None not in results, f"G3: job {number} is finished with {results}")
        self._done.add(number)

    def _without_locks(self, where):
        held = self.sim.held()
        self.sim.check(not held, lambda: f"G9: {where} runs under {', '.join(held)}")

    def consume(self, stream, most=None):
        """Take results, at most so many, and compare them with those of a serial run.

        Returns:
            Whether they came to their end, or to `most`; False: they were ended earlier, or
            the engine itself failed.
        """
        expected = self.expected
        end = len(expected) if most is None else min(most, len(expected))
        while self.taken < end:
            self._asked = number = self.taken
            ready = stream.ready(number)
            self.sim.check(0 <= ready <= self.depth, lambda n=ready: f"G2: {n} results are ready")
            outcome = stream.result(number)
            if outcome is ENDED:
                return False
            error = None if outcome.error is None else outcome.error.args
            if error == (OUT_OF_MEMORY,):
                outcome.error = None
                return False
            found = outcome.value, error, outcome.part
            self.sim.check(
                found == expected[number],
                lambda at=number, it=found: f"G1, G3, G7: {at}: expected {expected[at]}, got {it}",
            )
            kept = weakref.ref(outcome.error or outcome.value)
            found = outcome.value = outcome.error = None
            # Its frames are the consumer's own: kept, an error keeps them and all that is there.
            gone = kept() is None or not AT_ONCE
            self.sim.check(gone, f"G10: the outcome of job {number} is held elsewhere")
            self.taken += 1
        if most is None:
            self._asked = end
            for number in (end, end, end + 1):
                self.sim.check(stream.result(number) is ENDED, "G3: no end behind the last job")
        return True

    def gone(self):
        """Check that nothing keeps a job alive, without the garbage collector (G10)."""
        free_at_once()
        left = sum(job() is not None for job in self.jobs)
        self.sim.check(not left, lambda: f"G10: {left} of {len(self.jobs)} jobs are left")


class Job:
    """A job of the engine: its parts give their own numbers, in a list."""

    def __init__(self, watch, number, parts):
        self.parts = self.size = parts
        self.light = watch.plan.light
        self._watch = watch
        self._number = number
        self._results = [None] * parts

    def run(self, parts):
        watch, number = self._watch, self._number
        for part in parts:
            watch.begin(number, part)
            if watch.inside is not None:
                watch.inside(number, part)
            if watch.plan.seconds > 0:
                watch.sim.sleep(watch.plan.seconds)
            elif watch.plan.seconds == 0:
                watch.sim.step()
            if (number, part) in watch.plan.fails:
                watch.failed(number, part)
            self._results[part] = part

    def finish(self):
        watch, number = self._watch, self._number
        watch.finish(number, self._results)
        if (number, FINISH) in watch.plan.fails:
            watch.failed(number, FINISH)
        return Result([number, *self._results])

    def failed(self, part):
        pass

    def describe(self, part):
        return f"job {self._number}, part {part}"
