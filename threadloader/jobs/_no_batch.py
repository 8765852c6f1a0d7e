"""A job without a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._recipe import Span

if TYPE_CHECKING:
    from ._failure import Failure
    from ._info import BatchInfo

__all__ = ["NoBatch"]


class NoBatch:
    """Takes the place of the batches of an epoch in which this shard has no step."""

    parts = 1
    size = 0
    light = False
    failures: tuple[Failure, ...] = ()
    retried = 0

    def __init__(self, span: Span) -> None:
        self.span = span
        self.digests: list[bytes] = []

    def info(self, number: int) -> BatchInfo:
        """Say what a batch is; there is none.

        Raises:
            IndexError: always.
        """
        raise IndexError(f"expected no question for a batch of {self.describe(None)}, got {number}")

    def samples(self, count: int) -> int:
        """Count the rows: none."""
        return 0

    def run(self, parts: Iterator[int]) -> None:
        """Do nothing."""
        for _ in parts:
            pass

    def finish(self) -> list[Any]:
        """Give no batch."""
        return []

    def failed(self, part: int | None) -> None:
        """Do nothing; as of a `BatchJob`."""

    def describe(self, part: int | None) -> str:
        """Say what it is."""
        return f"epoch {self.span.epoch}, which has no step"
