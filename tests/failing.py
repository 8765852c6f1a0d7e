"""What fails when a test has planned it: sources, threads, a file.

A `Plan` says which hit of a point fails and with what, and keeps what it raised and for which
sample, so that a test can say where it must come out.
"""

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

import numpy as np

from threadloader._runtime import Runtime

__all__ = [
    "SAMPLES",
    "Batched",
    "Closing",
    "File",
    "Grouped",
    "Into",
    "Pieced",
    "Plan",
    "Source",
    "Taking",
    "Threads",
    "row",
]

SAMPLES = 10


class Plan:
    """What fails, and what came of it.

    Args:
        at: which hit fails, counted from 1; 0: none.
        always: whether all later ones fail as well.
        make: gives the exception.

    Attributes:
        hits: how often the point was passed.
        raised: (first index of what was asked for or None, exception) of each failure.
    """

    def __init__(self, at: int, always: bool, make: Callable[[], Any]) -> None:
        self.at, self.always, self.make = at, always, make
        self.hits = 0
        self.raised: list[tuple[int | None, BaseException]] = []
        self._lock = Lock()

    def hit(self, index: int | None = None) -> None:
        """Pass the point, for what begins with a sample of this index."""
        with self._lock:
            self.hits += 1
            fails = self.hits == self.at or (self.always and self.hits > self.at > 0)
        if fails:
            try:
                raise self.make()
            except BaseException as error:
                with self._lock:
                    self.raised.append((index, error))
                raise

    def due(self, indices: list[int]) -> BaseException | None:
        """Give what was raised last for the lowest of some samples, and take off that of all."""
        with self._lock:  # threads raise meanwhile, for other samples
            for index in indices:
                found = [error for where, error in self.raised if where == index]
                if found:
                    gone = set(indices)
                    self.raised[:] = [
                        (-1 if where in gone else where, error) for where, error in self.raised
                    ]
                    return found[-1]
        return None


def row(index: int) -> Any:
    """Sample `index`: what a batch must hold of it, bit by bit."""
    return np.array([index, index * index + 0.5, -index])


class Source:
    """Gives samples one by one; each is a point named `read`."""

    def __init__(self, plan: Plan, point: str = "") -> None:
        self.plan, self.point = plan, point

    def pass_by(self, point: str, index: int | None = None) -> None:
        if point == self.point:
            self.plan.hit(index)

    def __len__(self) -> int:
        self.pass_by("length")
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        time.sleep(0)  # lets another worker come in between, so that several rows fail at once
        self.pass_by("read", index)
        if self.point == "locate" and index in (1, 4, 9):
            raise LookupError("cannot be read")
        return row(index)

    def fingerprint(self) -> str:
        self.pass_by("fingerprint")
        return "points"

    def locate(self, index: int) -> str:
        self.pass_by("locate", index)
        return f"line {index}"


class Closing(Source):
    """One of its own for each thread."""

    def close(self) -> None:
        self.pass_by("close")


class Batched(Source):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.pass_by("getitems", indices[0])
        return [row(index) for index in indices]


class Taking(Source):
    """Makes whole batches. As it says nothing of their size, each is made by itself."""

    sample_bytes = 1 << 30

    def take(self, indices: Any) -> Any:
        self.pass_by("take", int(indices[0]))
        return np.array([row(index) for index in indices.tolist()])


class Into(Taking):
    def take_into(self, indices: Any, empty: Any) -> Any:
        self.pass_by("take_into", int(indices[0]))
        return np.array([row(index) for index in indices.tolist()])


class Grouped(Taking):
    """Small samples: the loader makes several batches at once."""

    sample_bytes = 24

    def take(self, indices: Any) -> Any:
        self.pass_by("group", int(indices[0]))
        return np.array([row(index) for index in indices.tolist()])


class Pieced(Taking):
    """Of arrays in memory, as it says, the loop gathers one or two batches at a time."""

    sample_bytes = 80 << 10
    in_memory = True

    def take(self, indices: Any) -> Any:
        self.pass_by("piece", int(indices[0]))
        return np.array([row(index) for index in indices.tolist()])


class Threads(Runtime):
    """The real runtime, whose threads may not start."""

    def __init__(self, plan: Plan, point: str) -> None:
        self._plan, self._point = plan, point
        self._launched: list[Lock] = []

    def launch(self, function: Any, args: Any) -> Any:  # type: ignore[override]
        if self._point == "launch":
            self._plan.hit()
        done = Lock()
        done.acquire()
        number = Runtime.launch(_launched, ([function, args], done))
        self._launched.append(done)
        return number

    def over(self) -> None:
        """Wait until the bare threads have let go of what they were given."""
        for done in self._launched:
            done.acquire()

    def thread(self, target: Any, args: Any, name: str) -> Any:
        plan = self._plan if self._point == "start" else None
        return _Thread(plan, target=target, args=args, name=name, daemon=True)


def _launched(given: list[Any], done: Any) -> None:
    args, function = given.pop(), given.pop()
    function(*args)
    del function, args
    done.release()


class _Thread(Thread):
    def __init__(self, plan: Plan | None, **options: Any) -> None:
        super().__init__(**options)
        self._plan = plan

    def start(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.hit()
        super().start()


class File:
    """A file whose steps can fail."""

    def __init__(self, file: Any, pass_by: Callable[[str], None]) -> None:
        self._file, self._pass_by = file, pass_by

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        self._pass_by("write")
        self._file.write(data[len(data) // 2 :])

    def flush(self) -> None:
        self._pass_by("flush")
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())
