"""From a config, and what was given in code, to the order of an epoch and how it is dealt."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import samplers, sources
from ..config import Base, LoaderConfig
from ..errors import ConfigError, Problem, SourceError, StateError, by_handler, from_signal
from ..order import LONGEST, Deal
from ..state import NOTHING, Cursor, Excluded
from ._caching import check_folder
from ._schedule import Plan, Sampling

__all__ = ["NO_BATCH", "Samplings", "deal_of", "without_source"]

NO_BATCH = (
    "the source is empty, or its samples are left out (by exclude, on_error, the sampler, "
    "drop_last or the shard's remainder) or on other shards"
)
"""Why a shard may have no batch, as the commands say it."""

_LISTS = ("weights", "indices", "labels")


def deal_of(config: LoaderConfig) -> Deal:
    """Give how orders are dealt to the shards.

    Raises:
        ConfigError: ``shard: "auto"`` finds an environment that makes no sense.
    """
    if config.shard == "auto":
        from ..adapters.launcher import shard_of_process  # imported when it is asked for

        index, count = shard_of_process()
        remainder = "pad"
    else:
        index, count, remainder = (config.shard[k] for k in ("index", "count", "remainder"))
    return Deal(config.batch_size, index, count, remainder, config.drop_last)


def without_source(config: LoaderConfig, base: Base) -> tuple[LoaderConfig, int]:
    """Give the part of a config that can be checked while its source is not there.

    Args:
        config: the config.
        base: the folder to which relative paths in it are relative.

    Returns:
        The config, less a sampler that reads a field of the source, and a cache in a folder,
        which needs the source's fingerprint; and the length of the source to assume when the
        lists of other samplers are checked: that of the weights or labels, or else the longest
        that a source can have.

    Raises:
        ConfigError: a file of weights or labels is missing or damaged; or it, or the folder of the
            cache, lies outside of ``root``, or that is no folder.
    """
    if config.cache and config.cache["folder"] is not None:
        check_folder(config, base)
        config = dataclasses.replace(config, cache=None)
    spec = dict(config.sampler or {})
    if spec.get("field") is not None:
        config, spec = dataclasses.replace(config, sampler=None), {}
    for option in ("weights", "labels"):
        if spec.get(option) is not None:
            return config, len(_numbers(config, base, spec[option], f"/sampler/{option}"))
    return config, LONGEST


def _numbers(config: LoaderConfig, base: Base, named: Any, pointer: str) -> Any:
    """Give a list of numbers of the config, or read it from the file that is named there."""
    if not isinstance(named, str):
        return named
    root = base.bound(config.root)
    whole = pointer != "/sampler/weights"
    torn: Callable[[bytes], bool] | None = None
    if pointer == "/exclude":  # which takes a quarantine file, too
        from ..quarantine import is_torn  # imported when it is asked for

        torn = is_torn
        _refuse_own_quarantine(config, base, named)
    try:
        return sources.read_numbers(named, base.path, root, option=pointer, whole=whole, torn=torn)
    except SourceError as error:
        kind = "an integer" if whole else "a number"
        if torn is not None:
            kind = 'an integer, or an object with an "index",'
        expected = f"a file with {kind} a line, or of .npy content"
        raise ConfigError(Problem(pointer, expected, str(error))) from error


def _refuse_own_quarantine(config: LoaderConfig, base: Base, exclude: str) -> None:
    """Refuse a file to which other shards add: one that reads it later reads another list."""
    own = config.on_error.get("quarantine") if isinstance(config.on_error, dict) else None
    if own is None or deal_of(config).shard_count == 1:
        return
    try:  # it may have two names: a relative one and an absolute one, say, or a link
        same = (base / own).samefile(base / exclude)
    except (OSError, ValueError) as error:  # one of them is not there, or no file can be
        if by_handler(error):
            raise
        same = False
    if same or os.path.normpath(own) == os.path.normpath(exclude):
        expected = "another file than the quarantine of this run, to which its other shards add"
        hint = "copy the file before the run, and name the copy"
        raise ConfigError(Problem("/exclude", expected, repr(exclude), hint))


@contextlib.contextmanager
def _collected(errors: list[ConfigError]) -> Iterator[None]:
    """Keep the error of one list, to be raised together with those of the other lists."""
    try:
        yield
    except ConfigError as error:
        errors.append(error)


class Samplings:
    """Makes samplers, for what is excluded now or was when an epoch began.

    What the config names as files is read once, here.

    Args:
        config: the config.
        base: the folder to which relative paths in it are relative.
        source: the open source.
        n: its samples.
        given: the sampler that was given in code, or None.

    Attributes:
        now: the sampling of the config.

    Raises:
        ConfigError: weights, labels, indices or what is excluded do not fit the source, or a file
            of them is missing or damaged; it holds the problems of all of them.
        Exception: what the source raises for a sample that is read for its label and kept.
    """

    def __init__(
        self, config: LoaderConfig, base: Base, source: sources.Source, n: int, given: Any
    ) -> None:
        self._config = config
        self._n = n
        self._given = given
        self._spec = dict(config.sampler or {}) if given is None else {}
        errors: list[ConfigError] = []
        for option in _LISTS:
            if self._spec.get(option) is not None:
                named, pointer = self._spec[option], f"/sampler/{option}"
                with _collected(errors):
                    self._spec[option] = _numbers(config, base, named, pointer)
        lists_read, excluded = not errors, NOTHING
        kept = samplers.Kept(n, np.empty(0, np.int64))
        if config.exclude is not None:
            with _collected(errors):
                listed = _numbers(config, base, config.exclude, "/exclude")
                with self._files_named():
                    kept, excluded = self._excluded(listed)
        if not errors and (field := self._spec.get("field")) is not None:

            def passes(index: int, error: Exception) -> bool:
                return kept.rank(index) is None and not from_signal(error)

            self._spec["labels"] = sources.column(source, field, "/sampler/field", passes)
        # Labels are checked only if the excluded samples are known, whose labels do not matter.
        if lists_read and (not errors or self._spec.get("type") != "balanced"):
            with _collected(errors), self._files_named():
                self.now = self._make(kept, excluded)
        if errors:
            problems = [problem for error in errors for problem in error.problems]
            try:
                raise ConfigError(problems) from errors[0].__cause__
            finally:
                errors.clear()  # their tracebacks lead to this frame

    def plan(self, cursor: Cursor, excluded: Excluded) -> Plan:
        """Give the plan of a run that goes on where a state stands.

        Args:
            cursor: where that is; at position 0 its epoch was not begun, and leaves out what the
                config says now.
            excluded: what was left out of that epoch.

        Raises:
            StateError: the samples left out are not all in the source, leave its sampler nothing
                to draw from, or are too many for the memory; or the epoch ends before that place.
        """
        plan = self._plan_at(cursor, excluded)
        length = plan.of(cursor.epoch).sampler.length
        if length is not None and cursor.position > length:
            raise StateError(
                f"the state does not fit: world.position: expected at most {length}, "
                f"the length of the epoch, got {cursor.position}"
            )
        return plan

    def _plan_at(self, cursor: Cursor, excluded: Excluded) -> Plan:
        if not cursor.position or excluded == self.now.excluded:
            return Plan(self.now)
        try:
            kept = samplers.Kept(self._n, samplers.from_text(excluded.text, self._n))
            return Plan(self.now, self._make(kept, excluded), cursor.epoch)
        except (ValueError, OverflowError, MemoryError) as error:
            if from_signal(error):
                raise
            got = str(error)
            if isinstance(error, MemoryError):
                named = f"'{excluded.text:.40}'"
                got = f"expected no more samples than memory has room for, got {named}"
            raise StateError(f"the state does not fit: exclude: {got}") from error

    @contextlib.contextmanager
    def _files_named(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            raise ConfigError(map(self._with_file, error.problems)) from error

    def _with_file(self, problem: Problem) -> Problem:
        """Name the file that the wrong values stand in, if they are from one."""
        spec = self._config.sampler or {}
        named = {"/exclude": self._config.exclude}
        named.update((f"/sampler/{option}", spec.get(option)) for option in _LISTS)
        if not isinstance(file := named.get(problem.pointer), str):
            return problem
        return problem._replace(got=f"{problem.got}, in {file}")

    def _excluded(self, listed: Any) -> tuple[samplers.Kept, Excluded]:
        indices = np.sort(samplers.checked(listed, self._n, "/exclude"))
        # What numpy 2.4 has for this took 2 s for a million in a row.
        once = indices[np.diff(indices, prepend=-1) != 0]
        return samplers.Kept(self._n, once), Excluded.of(samplers.to_text(once))

    def _make(self, kept: samplers.Kept, excluded: Excluded) -> Sampling:
        n, config = self._n, self._config
        if self._given is not None:
            sampler = samplers.given(self._given, n, kept)
        elif self._spec:
            sampler = samplers.configured(self._spec, n, config.seed, kept)
        else:
            sampler = samplers.Plain(config.seed, config.shuffle, kept)
        return Sampling(sampler, excluded)
