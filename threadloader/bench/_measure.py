"""Takes the time of one run: any loader's epochs, in the calling thread."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._process import BenchError

__all__ = ["Memory", "Timing", "storage_bytes", "take_time"]

_END: Any = object()


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a run, in seconds. All but the first are of the time after the first batch.

    Attributes:
        first_batch: from the beginning of the first epoch to its first batch.
        measured: wall time, from the first batch to the last one.
        wait: the part of it in which the loop waited for batches.
        step: the part of it that its steps took.
        cpu: processor time of all threads of the process.
        epoch_gaps: for each later epoch, from asking past the end of the one before to its
            first batch.
        batches: batches that came.
        samples: in them, where they were counted, else 0.
    """

    first_batch: float
    measured: float
    wait: float
    step: float
    cpu: float
    epoch_gaps: list[float]
    batches: int
    samples: int


def take_time(
    begin: Callable[[], Iterator[Any]],
    *,
    step: Callable[[], object] | None = None,
    seconds: float | None,
    batches: int | None,
    after_first: Callable[[], object] = lambda: None,
    count: Callable[[Any], int] = lambda batch: 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing | None:
    """Run epochs until the time is over.

    The measured time begins when the first batch is there, and `after_first` is called then. It
    ends with a later batch: the first that comes after `seconds`, or the one with which there are
    `batches`, the first one included. So each batch that is counted has its step and its wait in
    that time.

    Returns:
        The times, or None where the first epoch has no batch.

    Raises:
        BenchError: a later epoch has no batch.
    """
    called = clock()
    epoch = begin()
    batch = next(epoch, _END)
    if batch is _END:
        return None
    began = clock()
    after_first()
    first, cpu = began - called, time.process_time()
    wait = stepped = 0.0
    gaps: list[float] = []
    delivered, samples = 1, 0
    while True:
        called = clock()
        if step is not None:
            step()
            now = clock()
            stepped += now - called
            called = now
        batch = next(epoch, _END)
        if batch is _END:
            epoch = begin()
            batch = next(epoch, _END)
            if batch is _END:
                raise BenchError(
                    f"expected a batch in each epoch, got none in epoch {len(gaps) + 1}: all its"
                    " samples were left out"
                )
            gaps.append(clock() - called)
        now = clock()
        wait += now - called
        samples += count(batch)
        delivered += 1
        if delivered == batches or (seconds is not None and now - began >= seconds):
            cpu = time.process_time() - cpu
            return Timing(first, now - began, wait, stepped, cpu, gaps, delivered - 1, samples)


class Memory:
    """The peak of this process's resident memory, above what it is when this object is made.

    Only Linux and macOS tell it; macOS, and Linux where it does not forget, above the peak up to
    then. Mapped files count as far as they are in memory.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            # Linux forgets the peak up to now, which imports have left.
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = _peak()

    def bytes_above_start(self) -> int | None:
        """Give the peak above the start, or None where the system does not tell."""
        peak = _peak()
        return None if peak is None or self._before is None else max(0, peak - self._before)

    def with_children(self) -> int | None:
        """Give that peak plus the memory that child processes have to themselves.

        Theirs is what it is now, not at its peak. None where the system does not tell.
        """
        above = self.bytes_above_start()
        try:
            children = [child.pid for child in multiprocessing.active_children()]
            return None if above is None else above + sum(map(_private, children))
        except OSError:  # one has just ended, or the system has no such file
            return None


def _peak() -> int | None:
    if sys.platform == "linux":
        # Not getrusage: on Linux its peak is at least that of the process that started this one.
        with contextlib.suppress(OSError, ValueError, LookupError):
            return 1024 * _in_proc("self/status", "VmHWM:")[0]
    elif sys.platform == "darwin":  # pragma: no cover - another system
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


def _private(process: int | None) -> int:
    """Give the bytes of a process that no other one shares."""
    return 1024 * sum(_in_proc(f"{process}/smaps_rollup", "Private_"))


def storage_bytes() -> int | None:
    """Give the bytes that this process has had read from storage, or None if it is not told.

    What the system had in its cache does not count, nor what a network file system reads.
    """
    with contextlib.suppress(OSError, ValueError, LookupError):
        return _in_proc("self/io", "read_bytes:")[0]
    return None


def _in_proc(file: str, start: str) -> list[int]:
    """Give the number in each line of a file of /proc that begins with `start`."""
    lines = Path("/proc", file).read_text(encoding="utf-8").splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(start)]
