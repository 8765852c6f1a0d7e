"""`Loader`: from a config to something that can be entered."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from .. import _runtime, sources, transforms
from ..config import LoaderConfig, examine
from ..errors import ClosedError, ConfigError, from_signal
from ._arguments import check_collate, check_replaced, check_sampler, count_of, refuse_set, state_of
from ._base import again
from ._batches import Batches
from ._caching import cached_source, counted, stamp_of
from ._entry import Door
from ._failure import close_source, is_wrapped, note_beside, wrapping
from ._opening import identity_of, length_of, open_configured, transform_of
from ._recipe import make_recipe
from ._sampling import Samplings, deal_of
from ._skipping import Skipping, policy_of

__all__ = ["Loader"]


class Loader:
    """A recipe for batches; entering it with ``with`` gives the live `Batches`.

    What is given in code replaces what the config says. No thread is started and no data file is
    opened before the ``with``, and none remains after it. A Loader can be entered again, but not
    while it is open; each time starts a new run. A copy, by pickle too, is a Loader of its own; a
    subclass is copied by calling the subclass with these arguments.

    Args:
        config: path of a JSON file (``"train.json"``, or ``"train.json#/training"`` for a
            section of it), a mapping, or a `LoaderConfig`.
        source: where samples come from: an array, a tuple or dict of arrays of equal first
            length, `per_thread`, or anything with ``__len__`` and ``__getitem__``.
        transform: callable of one sample; one with a parameter ``rng`` is given, by that name, a
            numpy `Generator` keyed by seed, epoch and position.
        collate: callable of a list of samples that gives the batch.
        sampler: what gives each epoch its order, in place of `sampler` of the config, and of
            `shuffle`, which may not be true there: a callable of (epoch, n) that gives dataset
            indices, n being the number of samples; or a sequence of them, for every epoch.
        shard: ``{"index": r, "count": W, "remainder": "pad"}`` or ``"auto"``.
        resume: a state that `Batches.state_dict` gave, or the path of a file that
            `Batches.save` wrote: where the run goes on; None: at the beginning.
        skip_steps: how many steps to skip from there; at most those up to `num_epochs`.
        unknown: "error" (default) refuses unknown keys of the config; "ignore" lets through those
            that belong to others; a near miss of one of ours is still an error.

    Raises:
        ConfigError: the config or an argument is wrong; it holds every problem.
        OSError: the config file cannot be read.
        ClosedError: the interpreter shuts down.

    >>> import numpy as np
    >>> with Loader({"batch_size": 2, "shuffle": False}, source=np.arange(5)) as batches:
    ...     [batch.tolist() for batch in batches]
    [[0, 1], [2, 3], [4]]
    """

    _runtime = _runtime.RUNTIME

    def __init__(
        self,
        config: str | PathLike[str] | Mapping[str, Any] | LoaderConfig,
        source: Any = None,
        *,
        transform: Callable[..., Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        sampler: Callable[[int, int], Any] | Sequence[int] | np.ndarray[Any, Any] | None = None,
        shard: Mapping[str, Any] | Literal["auto"] | None = None,
        resume: Mapping[str, Any] | str | PathLike[str] | None = None,
        skip_steps: int = 0,
        unknown: Literal["error", "ignore"] = "error",
    ) -> None:
        if sys.is_finalizing():  # the schema could not be read any more
            raise ClosedError("a Loader cannot be made while the interpreter shuts down")
        self._report = examine(
            config,
            unknown=unknown,
            source_in_code=source is not None,
            sampler_in_code=sampler is not None,
        )
        self._config, self._base = self._report.checked(), self._report.base
        self._options = self._report.options or {}  # as given: see `replace`
        given = {"source": source, "transform": transform, "collate": collate, "sampler": sampler}
        self._in_code = [name for name, it in {**given, "shard": shard}.items() if it is not None]
        if sampler is not None:
            self._config = dataclasses.replace(self._config, sampler=None, shuffle=False)
        if shard is not None:
            self._config = dataclasses.replace(self._config, shard=cast("Any", shard))
            self._options = {**self._options, "shard": self._config.shard}
        check_collate(collate)
        check_sampler(sampler)
        self._given: dict[str, Any] = {**given, "resume": state_of(resume)}
        self._given["skip_steps"] = count_of("skip_steps", skip_steps)
        self._opened: str | None = None  # as of `based`
        try:
            transform = transform_of(self._config, transform)
        except ConfigError as error:
            self._report.complete(error)
            raise
        self._transform = transforms.bind(transform)
        # The transform, if its result depends on the sample alone: then a cache keeps that result.
        several = isinstance(self._transform, transforms.OffersMany)
        alone = transform is not None and not several and not transforms.takes_rng(transform)
        self._cached_transform = transform if alone else None
        self._door = Door(self._runtime)

    @property
    def config(self) -> LoaderConfig:
        """The config, with what was given in code and the defaults filled in; a copy."""
        return copy.deepcopy(self._config)

    def replace(self, **options: Any) -> Loader:
        """Give a loader like this one, but with other options, as in ``replace(num_workers=0)``.

        It is as if the config had said so: `shuffle` follows `sampler` unless the config has it.
        Relative paths still start at the folder of the config file. `config` does not know that
        folder: in a loader made of `config` they start at the current folder.

        Raises:
            ConfigError: there is no such option, or it is wrong, alone or beside the others; or
                it is a source, transform, collate or sampler, and this loader has one from code;
                or it is `resume`, `skip_steps` or `unknown`, which are no options of a config.
        """
        check_replaced(options, self._given)
        made = {**self._options, **options}
        return again(type(self), made, self._given, self._base, self._opened)

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how `copy` and `pickle` make another: with a door of its own, and not open."""
        return again, (type(self), self._options, self._given, self._base, self._opened)

    def __enter__(self) -> Batches:
        """Open the source and start the threads; give the live thing, to be iterated.

        Raises:
            SourceError: the source is missing, damaged, or not what the config says.
            ConfigError: the source in code cannot be one; ``shard: "auto"`` finds an
                environment that makes no sense; the sampler does not fit the source; or what an
                option asks for is not there (torch or CUDA, a folder for the cache).
            StateError: the state to resume is damaged, or of another run.
            BusyError: it is open already.
            ClosedError: the interpreter shuts down.
            WorkerError: the source raised `StopIteration`, `SystemExit` or the like.
            OSError: the file of ``resume`` cannot be read.
            Exception: whatever the source raises when it is asked for its length, or for labels.
            RuntimeError: the system starts no more threads, or one does not come to life.
        """
        if sys.is_finalizing():
            raise ClosedError("a Loader cannot be entered while the interpreter shuts down")
        close, me = None, object()
        try:
            if (left := self._door.unclosed()) is not None:
                self._leave(left, None)
            self._door.enter(me)
            source: sources.Source
            ours = self._given["source"] is None or self._opened is not None
            spec = self._config.source if ours else None
            if (stamp := self._opened) is None:  # else it was taken before, as it has to be
                stamp = stamp_of(self._config, self._base, spec)
            if self._given["source"] is None:
                source = opened = open_configured(spec or {}, self._base.path, self._config.root)
                close = opened.close
            else:
                source = sources.as_source(self._given["source"])
                # The user closes what the user made; what a factory makes for us is ours.
                if isinstance(source, sources.PerThread):
                    source = source.lend()
                    close = source.closer()
            length = length_of(source)
            read, cache, transform = source, None, self._transform
            # Only our own sources: none of them has to wait to say where a sample stands.
            locate = getattr(source, "locate", None) if ours else None
            if self._config.cache is not None:
                read, cache = cached_source(
                    self._config, self._base, spec, source, length, self._cached_transform, stamp
                )
                close = partial(sources.close_all, [it for it in (cache.close, close) if it])
                if self._cached_transform is not None:  # the cache applies it
                    transform = None
            policy = policy_of(self._config, self._runtime)
            recipe, not_pinned = make_recipe(
                self._config, read, transform, self._given["collate"], policy, locate
            )
            samplings = Samplings(self._config, self._base, source, length, self._given["sampler"])
            identity = identity_of(self._config, source, length, samplings.now.sampler.name)
            batches = Batches(
                self._config,
                recipe,
                deal_of(self._config),
                samplings,
                identity,
                close and partial(close_source, close),
                Skipping(self._config, self._base),
                self._runtime,
                not_pinned,
                dict if cache is None else partial(counted, cache),
            )
            self._door.batches = batches
            if self._given["resume"] is not None:
                batches.load_state_dict(self._given["resume"])
            batches._skip(self._given["skip_steps"])
            batches._supply.start()
            return batches
        except BaseException as error:
            if self._door.inside is me:  # no call, where a second Ctrl-C could land
                made = self._door.batches
                try:
                    self._leave(made, error, close)
                except BaseException:  # even interrupted again and again, let others enter
                    self._door.let_in(made)
                    raise
            # isinstance would ask the error itself, which may be of any kind.
            if issubclass(type(error), ConfigError):
                self._report.complete(cast("ConfigError", error), self._in_code)
            if is_wrapped(error) and not from_signal(error):
                raise wrapping(error, "while the source was opened") from error
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the batches by `Batches.close`. An exception of the body passes in any case."""
        if sys is None:  # the program's end has closed them; Python has emptied the modules since
            return
        batches = self._door.batches  # read once: after the close others may have entered
        try:
            if batches is not None:
                # Before the close: whoever learns of the close may enter at once (see `_leave`).
                self._door.let_out(batches, unclosed=batches._supply.give_to_feeder(batches._close))
                self._leave(batches, error)
        except BaseException:
            if batches is not None:  # a Ctrl-C came before the first line of `_leave`, or two in it
                try:
                    self._leave(batches, error)
                except BaseException:  # even interrupted again and again, let others enter
                    self._door.let_in(batches)
                    raise
            raise

    def _leave(
        self,
        batches: Batches | None,
        error: BaseException | None,
        close: Callable[[], bool | None] | None = None,
    ) -> None:
        """Close the batches, or, before there are any, what was opened for them; let others enter.

        The error that ended the body, or the entering, is not hidden.
        """
        if batches is not None:
            close = batches._close
        try:
            if close is not None and close() is False:
                # Not closed yet; if a finalizer called this, nobody leaves later: see `__enter__`.
                self._door.let_out(cast("Batches", batches), unclosed=True)
                return
        except BaseException as problem:
            # A Ctrl-C, or whatever a signal handler raises, that came before the threads were told
            # to end must not leave them. What has been closed is not closed twice.
            cast("Callable[[], bool | None]", close)()
            self._door.let_in(batches)
            if error is None or from_signal(problem):
                raise
            note_beside(error, problem)
        # Last: until here a repeated __exit__ finishes what an interrupt cut short.
        self._door.let_in(batches)

    if not TYPE_CHECKING:  # a type checker is to find none of these

        def __iter__(self) -> Iterator[Any]:
            """Refuse, by a ClosedError with the line to write instead: a recipe has no batches."""
            text = "a Loader is a recipe and is not iterated itself; write: "
            raise ClosedError(text + "with Loader(...) as batches: for batch in batches: ...")

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(Batches, name):
                text += f"; it is a recipe: with Loader(...) as batches: batches.{name} ..."
            raise AttributeError(text, name=name, obj=self)

        def __setattr__(self, name: str, value: Any) -> None:
            """Refuse to take an option or an argument, which would change nothing."""
            arguments = ("source", *Loader.__init__.__kwdefaults__)
            refuse_set(name, LoaderConfig.__slots__, arguments, self)
            super().__setattr__(name, value)
