"""One batch whose samples are tried again where they fail, and then left out: `on_error`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import from_signal
from ._batch import BatchJob
from ._cut import UncutError, join
from ._recipe import samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._failure import Failure
    from ._info import BatchInfo
    from ._policy import Policy

__all__ = ["RetryingJob"]


class RetryingJob(BatchJob):
    """A batch with a policy about samples that fail.

    The arguments are those of `BatchJob`; the recipe has a policy.

    Attributes:
        failures: the samples that were left out, once the batch is made, lowest row first; none
            for a row of padding.
        strict: whether a sample that fails is raised, and not left out; never a row of padding,
            which counts nowhere, unless none is left out.
    """

    __slots__ = ("_again", "_failed", "_kept", "_tries", "failures", "strict")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Written by the worker that finishes, before the fill.
        self.failures: tuple[Failure, ...] = ()
        self.strict = self._policy.strict or not self._policy.skip
        self._kept: NDArray[np.int64] | None = None  # the rows that are left, where some are not
        # By row, written by the worker that claimed it: its failure if it is left out, its retries.
        self._failed: list[Failure | None] = [None] * len(self._indices)
        self._tries = [0] * len(self._indices)
        self._again = 0  # how often the whole, or all that is left of it, was read again

    @property
    def _policy(self) -> Policy:
        return cast("Policy", self._recipe.policy)

    @property
    def retried(self) -> int:
        """How often a sample was tried again, or the batch, or all that is left of it."""
        return sum(self._tries) + self._again

    def info(self, number: int = 0) -> BatchInfo:
        """Say what the batch is."""
        info = super().info(number)
        if self._kept is None:
            return info
        from dataclasses import replace

        indices, valid = info.indices[self._kept], info.valid[self._kept]
        indices.flags.writeable = valid.flags.writeable = False
        skipped = tuple(failure.index for failure in self.failures)
        return replace(info, indices=indices, valid=valid, skipped=skipped)

    def samples(self, count: int) -> int:
        """Count the rows that are neither padding nor left out."""
        return self._real if self._kept is None else int(np.count_nonzero(self.info().valid))

    def run(self, parts: Iterator[int]) -> None:
        """Read the samples of some rows, again where that fails."""
        if self._samples is None:  # without workers, a Ctrl-C after the finish runs it again
            self._samples = [None] * len(self._indices)
        for part in parts:
            if self._recipe.whole:
                self._samples = self._try_whole()
            else:
                self._samples[part] = self._try(part, self._read_row)

    def finish(self) -> list[Any]:
        """Collate the samples that are left.

        Returns:
            The batch; none where each of its samples was left out.
        """
        samples, self._samples = self._samples, None
        self._kept, self.failures = None, ()  # it may be run again, after a Ctrl-C
        if any(self._failed):
            kept = [row for row, failed in enumerate(self._failed) if failed is None]
            self._kept = np.array(kept, np.int64)
            # A row of padding repeats a sample that another row or shard counts.
            rows = zip(self._failed, self._valid.tolist(), strict=True)
            self.failures = tuple(failed for failed, real in rows if failed and real)
            if not kept:
                return []
            if self._recipe.whole != "take":
                samples = [samples[row] for row in kept]
        return [self._made_of(samples)]

    def _read_row(self, row: int) -> Any:
        sample = self._recipe.source[self._index_of[row]]
        if self._recipe.transform is not None:
            sample = self._recipe.transform(sample, self._key, self._position_of[row])
        return sample if self._into is None else self._into.put(row, sample)

    def _try(self, row: int, read: Callable[[int], Any]) -> Any:
        """Give what is read of a row, again where that fails; None where it is left out."""
        self._tries[row] = 0  # those of a run that a Ctrl-C cut short do not count
        while True:
            try:
                sample = read(row)
                self._failed[row] = None  # of a run that a Ctrl-C cut short, without workers
                return sample
            except Exception as error:
                if _is_no_failure(error):
                    raise
                if self._policy.again(self._tries[row]):
                    self._tries[row] += 1
                elif self._recipe.opened() and self._policy.leaves_out(
                    error, padding=not self._valid[row]
                ):
                    from ._failure import failure_of

                    index = int(self._indices[row])
                    self._failed[row] = failure_of(index, self._locate(index), error)
                    return None
                else:
                    raise

    def _try_whole(self) -> Any:
        """Read the batch as a whole, or, where that fails, row by row."""
        # It may be run again, after a Ctrl-C.
        self._failed, self._tries = [None] * len(self._indices), [0] * len(self._indices)
        self._again = 0
        try:
            return self._read_whole()
        except Exception as error:
            if _is_no_failure(error):
                raise
        samples = []
        for row in range(len(self._indices)):
            self.at = row
            samples.append(self._try(row, self._read_alone))
        self.at = None
        kept = [row for row, failed in enumerate(self._failed) if failed is None]
        # If each row is good at once, only this count shows that storage fails at times.
        self._again = int(len(kept) == len(samples) and not any(self._tries))
        if self._recipe.whole != "take" or not kept:
            return samples
        return self._take_kept(kept, [samples[row] for row in kept])

    def _take_kept(self, kept: list[int], alone: list[Any]) -> Any:
        """Read the rows that are left as a whole; each has been read well by itself just now.

        Where that fails, what each gave `alone` is joined; if that cannot be, all are read again.
        """
        tries, before = 0, self._again
        indices = self._indices[kept]
        indices.flags.writeable = False  # as `take` is always given them
        while True:
            self._again = before + tries
            try:
                return self._take(indices)
            except Exception as error:
                if _is_no_failure(error):
                    raise
                if not tries:
                    with suppress(UncutError):
                        return join(alone)
                elif not self._policy.again(tries - 1):
                    raise
                tries += 1

    def _take(self, indices: NDArray[np.int64]) -> Any:
        return cast("Any", self._recipe.take)(indices)

    def _read_alone(self, row: int) -> Any:
        """Read one row of a source that reads many at once; to find out which of them fails."""
        if self._recipe.whole == "take":
            return self._take(self._indices[row : row + 1])
        (sample,) = samples_of(self._recipe.source, self._index_of[row : row + 1])
        if self._recipe.transform is None:
            return sample
        return self._recipe.transform(sample, self._key, self._position_of[row])


def _is_no_failure(error: BaseException) -> bool:
    """Tell whether no sample is at fault: a signal's handler raised it, or a debugger was left."""
    left = getattr(sys.modules.get("bdb"), "BdbQuit", None)
    return from_signal(error) or (left is not None and issubclass(type(error), left))
