"""`Recipe`, how batches are made, and `Span`, where a job's batches lie in their epoch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import CollateError, has_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._policy import Policy

    _Empty = Callable[..., NDArray[Any]]
    _Made = Callable[[int, int], list[Any]]

__all__ = ["Recipe", "Span", "samples_of"]


class Recipe(NamedTuple):
    """How a batch is made, the same for every batch of a run.

    Attributes:
        source: where samples come from.
        transform: (sample, key of the epoch, position) -> sample, or None.
        collate: samples -> batch.
        pin: batch -> batch in page-locked memory, or None.
        take: indices -> batch, where the source builds whole batches.
        take_batches: the same for many batches, as that of `ArraySource`; None where they are
            cut out of what `take` gives for all of them.
        empty: ``empty(shape, dtype) -> array``, which makes the memory for `take_batches`.
        piece_empty: the same, for batches that the consumer's thread prepares.
        whole: "take" where the source builds whole batches, "getitems" where it reads a batch's
            samples in one call, "" otherwise.
        digest: batch -> fingerprint of its content, or None.
        group: how many batches a worker's job makes at most; more than 1 only with "take".
        gather: how many batches of a group a worker makes by one call, at most.
        ahead: how many groups are made ahead, at least.
        piece: how many batches of a job the consumer's thread makes together, where it prepares
            them; 0: all of them, as a worker does.
        series: whether a job that the consumer runs may have many batches, each made when it is
            asked for, although `group` is 1. Only without `policy` and `digest`.
        rows: count of rows -> what samples are written into as they come, or None; as
            `collate.RowsMaker.rows`. Only where collate stacks, and no sample is left out.
        measure: batch -> its bytes, or None where they do not count.
        together: what makes a batch at once of the samples that were read, in place of
            `transform` and `collate`: (samples, key of the epoch, positions) -> batch; or None.
            The samples stay as they are. Only without `policy`.
        policy: what is done about samples that fail; None raises what they raise.
        threads_only: whether the consumer's thread must not prepare batches where there are
            workers.
        foreign: whether code that is not the package's runs in a job.
        light: whether a batch is put together by nothing but the package's code and numpy's, in a
            moment. (What the samples themselves do when they are stacked, as objects of the user's,
            is all that may come with it.) Not with `whole`, `pin`, `digest` or `together`.
        unlocked: whether nearly all the work in a job is done without the GIL.
        locate: index -> where the sample stands, as `Source.locate`, of a source that is known to
            answer at once in any thread; else None.
        opened: tells whether what failed last in this thread was a sample, and not the opening of
            what the thread reads from.
        free: lets go of memory that waits to be used again.
    """

    source: Any
    transform: Callable[[Any, int, int], Any] | None
    collate: Callable[[list[Any]], Any]
    pin: Callable[[Any], Any] | None = None
    take: "Callable[[NDArray[np.int64]], Any] | None" = None
    take_batches: "Callable[[NDArray[np.int64], _Empty], _Made] | None" = None
    empty: "_Empty" = np.empty
    piece_empty: "_Empty" = np.empty
    whole: str = ""
    digest: Callable[[Any], bytes] | None = None
    group: int = 1
    gather: int = 1
    ahead: int = 1
    piece: int = 0
    series: bool = False
    rows: Callable[[int], Any] | None = None
    measure: Callable[[Any], int] | None = None
    together: "Callable[[list[Any], int, NDArray[np.int64]], Any] | None" = None
    policy: "Policy | None" = None
    threads_only: bool = False
    foreign: bool = True
    light: bool = False
    unlocked: bool = False
    locate: Callable[[int], str] | None = None
    opened: Callable[[], bool] = lambda: True
    free: Callable[[], None] = lambda: None

    @property
    def each(self) -> Callable[[Any, int, int], Any] | None:
        """What is done to each sample as it is read; None where that is nothing."""
        return self.transform if self.together is None else None

    def strict(self) -> "Recipe":
        """Give the same recipe, but that a sample which fails is raised, as of `Policy.strict`."""
        policy = self.policy
        return self._replace(policy=policy and policy._replace(strict=True))

    def finished(self, batch: Any) -> tuple[Any, bytes | None]:
        """Give a collated batch as it is delivered; and its fingerprint, or None where unwanted."""
        digest = None if self.digest is None else self.digest(batch)
        return (batch if self.pin is None else self.pin(batch)), digest


def samples_of(source: Any, indices: list[int]) -> list[Any]:
    """Read samples at once of a source that has `__getitems__`.

    Raises:
        CollateError: it gives another number of them, or no list of them at all.
        Exception: whatever else it raises.
    """
    expected = len(indices)  # before: it may use them up
    given = source.__getitems__(indices)
    if type(given) is not list and not has_order(given):
        what = "None" if given is None else type(given).__name__
        raise CollateError(
            f"the source's __getitems__: expected a list of {expected} samples, got "
            f"{what}; return a list with a sample for each index"
        )
    samples = list(given)
    if (got := len(samples)) != expected:
        raise CollateError(
            f"the source's __getitems__: expected {expected} samples, got {got}; return one "
            "for each index, in their order"
        )
    return samples


class Span(NamedTuple):
    """Where a job's batches lie in their epoch.

    Attributes:
        epoch: number of the epoch.
        step: number of the first batch.
        size: how many batches there are.
        position: where the world stands before the first.
        stride: positions that the world takes in a step.
        length: positions of the epoch's global order.
        last: whether this shard has no further step in the epoch.
        over: whether no shard has one.
    """

    epoch: int
    step: int
    size: int
    position: int
    stride: int
    length: int
    last: bool
    over: bool

    def one(self, number: int) -> "Span":
        """Give the span of one of the batches."""
        epoch, step, size, position, stride, length, last, over = self
        end, position = number == size - 1, position + number * stride
        return Span(epoch, step + number, 1, position, stride, length, last and end, over and end)

    def rest(self, first: int) -> "Span":
        """Give the span of the batches from number `first` on."""
        position = self.position + first * self.stride
        return self._replace(step=self.step + first, size=self.size - first, position=position)

    def after(self, count: int) -> tuple[int, int, int]:
        """Give epoch, position and step at which the run stands after some of the batches."""
        if self.over and count == self.size:
            return self.epoch + 1, 0, 0
        return self.epoch, self.position + count * self.stride, self.step + count
