"""From a config, and what was given in code, to the order of an epoch and how it is dealt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import samplers, sources
from ..adapters.launcher import shard_of_process
from ..config import LoaderConfig
from ..errors import ConfigError, Problem, SourceError, StateError
from ..order import Deal
from ..state import NOTHING, Excluded
from ._schedule import Plan, Sampling

__all__ = ["Samplings", "deal_of"]


def deal_of(config: LoaderConfig) -> Deal:
    """Give how orders are dealt to the shards.

    Raises:
        ConfigError: ``shard: "auto"`` finds an environment that makes no sense.
    """
    if config.shard == "auto":
        index, count = shard_of_process()
        remainder = "pad"
    else:
        index, count, remainder = (config.shard[k] for k in ("index", "count", "remainder"))
    return Deal(config.batch_size, index, count, remainder, config.drop_last)


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
        ConfigError: weights, labels or indices do not fit the source, or a file of them is
            missing or damaged.
    """

    def __init__(
        self, config: LoaderConfig, base: Path, source: sources.Source, n: int, given: Any
    ) -> None:
        self._config = config
        self._base = base
        self._n = n
        self._given = given
        self._spec = dict(config.sampler or {}) if given is None else {}
        for option in ("weights", "indices", "labels"):
            if isinstance(self._spec.get(option), str):
                self._spec[option] = self._read(self._spec[option], f"/sampler/{option}")
        if self._spec.get("field") is not None:
            field = self._spec["field"]
            self._spec["labels"] = sources.column(source, field, "/sampler/field")
        self.now = self._make(self._excluded())

    def plan(self, epoch: int, position: int, excluded: Excluded) -> Plan:
        """Give the plan of a run that goes on where a state stands.

        Args:
            epoch: its epoch.
            position: its position there: at 0 the epoch was not begun, and has what the
                config says now.
            excluded: what was left out of that epoch.

        Raises:
            StateError: samples are left out that the source does not have.
        """
        if not position or excluded == self.now.excluded:
            return Plan(self.now)
        try:
            return Plan(self.now, self._make(excluded), epoch)
        except (ValueError, OverflowError) as error:
            raise StateError(f"the state is damaged: exclude: {error}") from error

    def _excluded(self) -> Excluded:
        named: Any = self._config.exclude
        if named is None:
            return NOTHING
        if isinstance(named, str):
            named = self._read(named, "/exclude")
        indices = samplers.checked(named, self._n, "/exclude")
        return Excluded.of(samplers.to_text(np.unique(indices)))

    def _make(self, excluded: Excluded) -> Sampling:
        n, config = self._n, self._config
        kept = samplers.Kept(n, samplers.from_text(excluded.text, n))
        if self._given is not None:
            sampler = samplers.given(self._given, n, kept)
        elif self._spec:
            sampler = samplers.configured(self._spec, n, config.seed, kept)
        else:
            sampler = samplers.plain(config.seed, config.shuffle, kept)
        return Sampling(sampler, excluded)

    def _read(self, path: str, pointer: str) -> NDArray[Any] | list[float]:
        root = None if self._config.root is None else self._base / self._config.root
        try:
            return sources.read_numbers(path, self._base, root)
        except SourceError as error:
            expected = "a file with a number a line, or of .npy content"
            raise ConfigError(Problem(pointer, expected, str(error))) from error
