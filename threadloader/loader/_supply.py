"""Where the results of a run's jobs come from: threads, or the thread that asks for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from .._runtime import Runtime
from ..config import LoaderConfig, bytes_of
from ..engine import Engine, Inline, InlineStream, Outcome, Stream, here
from ..errors import BusyError, ClosedError, WorkerError, log
from ..jobs import Recipe
from ..order import BLOCK, Deal
from ..state import Cursor
from ..stats import Tally
from ._choice import Choice
from ._failure import FAILED, ITS_OWN, closing
from ._pace import Pace
from ._place import Delivery
from ._schedule import Plan, jobs, most_ahead
from ._switching import AUTO_SECONDS, restore, shorten

__all__ = ["Supply"]

PROCESSORS = 0.8
"""Processors that workers have, all together, from which it is asked whether one thread would do
the same work in less time. Below they wait, for storage, say, and one thread would wait longer."""

STARVED = 0.005
"""Part of the time spent waiting from which ``switch_interval: "auto"`` acts."""


class Supply:
    """Opens streams of results, and watches what they cost.

    The consumer's; any thread may call `stop`, `wait`, `inside`, `check_open`, and read attributes.

    Args:
        config: the config.
        recipe: how batches are made.
        deal: how orders are dealt.
        runtime: where threads and clocks come from.
        steps: of an epoch; None where its sampler has to be asked each time, by the feeder.

    Attributes:
        engine: the threads; without workers, an `Inline`.
        inline: those through which the consumer prepares batches itself.
        choice: decides whether workers or the consumer prepare batches; None where that is settled.
        now: the clock, in seconds.
        adds_up: whether batches may be added up: no sample is left out of one, and none has a mark.
        ahead: how many batches are prepared ahead, at most.
        shortened: whether the switch interval was shortened.
        closed: whether it was told to stop; goes to True, once, by whoever stops it.
    """

    def __init__(
        self, config: LoaderConfig, recipe: Recipe, deal: Deal, runtime: Runtime, steps: int | None
    ) -> None:
        self._config = config
        self._steps = steps
        self._deal = deal
        self.now, self._unlike_worker = runtime.monotonic, runtime.unlike_worker
        self.engine: Engine | Inline = (
            Engine(
                config.num_workers,
                config.close_timeout,
                runtime,
                stall_seconds=config.stall_seconds or float("inf"),  # null: tells of no stall
                stall_raises=config.stall_action == "raise",
                max_bytes=None if config.max_bytes is None else bytes_of(config.max_bytes),
            )
            if config.num_workers
            else Inline(runtime)
        )
        self._in_loop = Inline(runtime, apart=True)  # user code must not see which thread runs it
        self._at_work: Inline | None = None  # what makes a batch at the stop
        self.inline = [it for it in (self.engine, self._in_loop) if isinstance(it, Inline)]
        settled = not config.num_workers or steps is None or recipe.threads_only
        settled |= config.stall_action == "raise"  # nobody sees a stall of its own
        self.choice = None if settled else Choice(recipe.gather, unlocked=recipe.unlocked)
        self.adds_up = recipe.policy is None and recipe.digest is None
        self._grouped: Recipe | None = recipe if recipe.group > 1 else None
        self._make_by(recipe)
        self._pace = Pace()
        self._jobs = partial(jobs, seed=config.seed, most=self._pace.most)
        self._wish: object | None = None  # owns our shorter switch interval; `stop` takes it back
        self.shortened = self.closed = False

    def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: the system starts no more threads, or one does not come to life.
        """
        self.engine.start()
        if isinstance(self._config.switch_interval, float | int):
            self._shorten(self._config.switch_interval)

    def stop(self, behind: Callable[[], object]) -> bool:
        """End the threads; say whether nothing is at work any more.

        Args:
            behind: called by a thread that runs a job itself, as soon as that job is done.
        """
        for engine in self.inline:
            engine.behind = partial(closing, behind)
        self.closed = True
        if self._wish is not None:
            restore(self._wish)
        if self._recipe.policy is not None:
            self._recipe.policy.pause.end()  # before the workers in it are waited for
        for each in (self.engine, self._in_loop):
            if not each.stop():
                self._at_work = each if isinstance(each, Inline) else None
                return False
        for engine in self.inline:
            engine.behind = None
        return True

    def wait(self) -> None:
        """Wait, with a bound, for the thread that was making a batch itself when `stop` came."""
        if (at_work := self._at_work) is not None:  # read once: another that closes may clear it
            at_work.wait(self._config.close_timeout)

    def forked(self) -> None:
        """In a forked child: forget the thread that was running a job itself; it is not there."""
        for engine in self.inline:
            engine.running = 0

    def inside(self) -> bool:
        """Tell whether the calling thread is a worker, the feeder, or one that logs for a stop."""
        return here.shared is self.engine.mark

    def give_to_feeder(self, close: Callable[[], object]) -> bool:
        """Have the feeder close the loader if the calling thread is the engine's; say if it is."""
        if inside := self.inside():  # it cannot wait for itself, and nobody leaves after it
            cast("Engine", self.engine).end_with(close)
        return inside

    def check_open(self) -> None:
        """Refuse whoever asks after the end, or in a thread that would wait for itself.

        Raises:
            ClosedError: the ``with`` was left, or this is a forked child.
            WorkerError: a thread of the loader's own has failed.
            BusyError: this is one of the loader's own threads.
        """
        if self.closed or not self.engine.usable:
            if (failed := self.engine.failed) is not None and not self.closed:
                raise WorkerError(FAILED) from failed.error
            raise ClosedError(
                "the batches are closed: `close` was called, the `with Loader(...)` block left, "
                "the interpreter is shutting down, or this is a fork of the process that entered "
                "it; iterate inside the block, and in a fork inside that of a copy of the loader"
            )
        if self.inside():  # it would wait for itself
            raise BusyError(ITS_OWN)

    def _shorten(self, seconds: float) -> None:
        self._wish = wish = object()
        weakref.finalize(self, restore, wish).atexit = False  # for a loader that is dropped
        self.shortened = shorten(wish, seconds)
        if self.closed:  # by now: `stop` may not have seen the wish
            restore(wish)

    def open(
        self,
        plan: Plan,
        cursor: Cursor,
        end: int | None,
        singly: int = 0,
        *,
        strict: bool = False,
    ) -> Stream | InlineStream:
        """Open a stream of results.

        Args:
            plan: which samples each epoch has.
            cursor: where it begins.
            end: the epoch before which it ends; the cursor's own epoch is in it in any case.
            singly: how many batches come from jobs of their own first.
            strict: whether a failing sample of the first batch is raised, and not left out.
        """
        end = None if end is None else max(end, cursor.epoch + 1)
        by_loop = self.choice is not None and self.choice.here and not self._only_workers()
        engine = self._in_loop if by_loop else self.engine
        series: Callable[[], int] | None = None
        if isinstance(engine, Inline):
            # Without a choice nothing is measured: all batches whose order is made together.
            series = (lambda: BLOCK) if self.choice is None else self.choice.series
        upcoming = self._jobs(
            self._recipe, self._deal, plan, cursor, end, singly=singly, series=series, strict=strict
        )
        return engine.stream(upcoming, self._depth)

    def _make_by(self, recipe: Recipe) -> None:
        """Have batches made by a recipe, from the next stream on; the consumer's alone."""
        depth = self._config.prefetch_batches
        if recipe.group > 1:  # each job has several batches
            depth = max(recipe.ahead, -(-depth // recipe.group))
        ahead = most_ahead(depth, recipe.group, self._steps) if self._config.num_workers else 0
        self._recipe, self._depth, self.ahead = recipe, depth, ahead  # stores only, together

    def no_groups(self, why: str, *, for_good: bool = True) -> None:
        """From the next stream on, have each batch taken by itself, and say why."""
        if for_good:
            self._grouped = None
        self._make_by(self._recipe._replace(group=1, piece=0))
        log("info", "%s: batches are taken one by one", why, aside=True)

    def prepared_here(self, stream: Any) -> bool:
        """Tell whether a stream has the consumer prepare batches in place of workers."""
        return self.choice is not None and isinstance(stream, InlineStream)

    def _only_workers(self) -> bool:
        """Tell whether user code runs in jobs, and could act differently in this thread."""
        return self._recipe.foreign and self._unlike_worker()

    def misplaced(self, stream: Any) -> bool:
        """Tell whether a stream has the consumer prepare batches that it must not prepare now."""
        return self.prepared_here(stream) and self._only_workers()

    @property
    def may_shorten(self) -> bool:
        """Whether to look out for a loop that starves, and shorten the switch interval then."""
        return self._config.switch_interval == "auto" and self._wish is None

    def forget(self) -> None:
        """Leave the time since the last batch unmeasured: something other than batches came."""
        if self.choice is not None:
            self.choice.forget()

    def late(self, delivery: Delivery) -> bool:
        """Note that a series takes too long; tell whether it is to end. Not without workers."""
        if self.choice is None:
            return False
        self.choice.late(delivery.waited, delivery.made)
        return True

    def rest(self, called: float, before: float) -> None:
        """Note that an epoch's batches were taken, as of `Choice.rest`."""
        if self.choice is not None:
            self.choice.rest(called, before)

    def note(
        self,
        stream: Any,
        outcome: Outcome,
        tally: Tally,
        called: float,
        now: float,
        before: float,
    ) -> None:
        """Note what an outcome has cost, and change what is too slow.

        Args:
            stream: where it comes from.
            outcome: the outcome, of a job that went well.
            tally: the counts up to now.
            called: when it was asked for.
            now: when it was there.
            before: seconds spent waiting for the later batches of the job before this one.
        """
        if self.may_shorten and not self.prepared_here(stream):
            elapsed = now - (now if tally.started is None else tally.started)
            if tally.data_wait_seconds > STARVED * elapsed and self.engine.gil_held:
                self._shorten(AUTO_SECONDS)
        batches, made = outcome.job.span.size, len(outcome.value)
        work = outcome.seconds + outcome.finish  # the collate is in the finish
        waited = now - called  # where the consumer makes them, this is the work itself
        if self._grouped is not None:
            self._pace.note(work or waited, made)
            # Compared each time: an interrupt may have kept the last change from being made.
            if self._pace.singly != (self._recipe.group == 1):
                if self._pace.singly:
                    self.no_groups("a batch takes long", for_good=False)
                else:
                    self._make_by(self._grouped)
                    log("info", "a batch takes less: batches are taken together again", aside=True)
                stream.wind_down()
        if (choice := self.choice) is None or self._only_workers():  # settled, while that lasts
            self.forget()
            return
        if self.prepared_here(stream) != choice.here:
            # Begun before the choice changed; a Ctrl-C has kept it from being wound down then.
            stream.wind_down()
            return
        alone = float("inf")
        if cast("Engine", self.engine).processors > PROCESSORS:  # with a choice there are workers
            alone = outcome.quickest * outcome.job.parts + outcome.finish
        rows = outcome.job.samples(batches)
        if choice.note(now, waited, batches, rows, work, made or batches, before, alone):
            stream.wind_down()  # what comes next is prepared the other way
