"""From the option `on_error` to what is done about samples that fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import sources
from .._runtime import Runtime
from ..config import Base, LoaderConfig

if TYPE_CHECKING:
    from ..jobs import Failure, Policy
    from ..quarantine import Quarantine

__all__ = ["Skipping", "policy_of", "unlisted"]


def policy_of(config: LoaderConfig, runtime: Runtime) -> Policy | None:
    """Give what jobs do about samples that fail; None: raise the error."""
    if not isinstance(config.on_error, Mapping):
        return None
    # Imported when it is asked for; but here, and not by the first batch or the first sample that
    # is left out: a fork beside an import leaves the lock of that module held for ever.
    from ..jobs import Pause, Policy, RetryingJob  # noqa: F401
    from ..stats import Stats  # noqa: F401

    options = config.on_error
    pause = Pause(runtime.lock(), runtime.wait)
    skip = options["skip"] is not None
    if skip:
        from ..jobs import BatchInfo, Failure  # noqa: F401
    return Policy(options["retry"], options["backoff"], skip, pause)


def unlisted(config: LoaderConfig) -> LoaderConfig:
    """Give a config without its quarantine file: for commands, whose runs are not the user's."""
    if not isinstance(config.on_error, Mapping):
        return config
    return dataclasses.replace(config, on_error={**config.on_error, "quarantine": None})


class Skipping:
    """The budget of samples that may be left out, and the file that lists them.

    Args:
        config: the config.
        base: the folder to which relative paths are relative.

    Attributes:
        budget: how many samples a run may leave out on this shard.

    Raises:
        ConfigError: the quarantine file cannot be one, or lies outside of `root`.
    """

    def __init__(self, config: LoaderConfig, base: Base) -> None:
        options = config.on_error if isinstance(config.on_error, Mapping) else {}
        self._skips = options.get("skip") is not None
        self.budget: int = options.get("skip") or 0
        self._quarantine: Quarantine | None = None
        if options.get("quarantine") is not None:
            from ..quarantine import Quarantine  # imported when it is asked for

            path = base / options["quarantine"]
            root = base.bound(config.root)
            self._quarantine = Quarantine(sources.inside(path, root, "/on_error/quarantine"))

    def why_raised(self, skipped: int, *, spent: bool) -> str:
        """Say, for the note on an error, why its sample is not left out; "" where none would be.

        Args:
            skipped: how many samples were left out before this batch.
            spent: whether the budget is spent; else it is an error for which none is left out.
        """
        if not self._skips:
            return ""
        if not spent:
            return '; "on_error" leaves out no sample for that'
        permits = f'; "on_error" permits to skip {self.budget}, and {skipped} were skipped before'
        return f"{permits} this batch, in which more than the rest failed"

    def note(self, failures: tuple[Failure, ...]) -> None:
        """Write down samples that are left out of the batch that is delivered next.

        Raises:
            OSError: the system cannot write the file; asked again, it is tried again.
        """
        if self._quarantine is not None:
            self._quarantine.add(map(dataclasses.asdict, failures))
