"""Stops Python's clocks, or moves them ahead, to see whether a function depends on the time.

One that does gives the same each time while they stand still, and something else when they are
ahead.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ..errors import innermost

__all__ = ["clock_ahead", "stopped_clock"]

CLOCKS = tuple(
    name
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for name in (clock, f"{clock}_ns")
)
ASKED = ("clock_gettime", "clock_gettime_ns", "localtime", "gmtime", "asctime", "ctime", "strftime")
"""Clocks that take arguments; not every system has all of them."""

LOOKS = 30_000
"""How often a stopped clock is read before it goes on, so that code which waits for it to move does
not wait for ever: ten times for each call that an experiment makes."""

_datetime = dt.datetime


@contextlib.contextmanager
def stopped_clock(function: Any) -> Iterator[None]:
    """Stop Python's clocks: those of `time` and `datetime`.

    Args:
        function: clocks that its module has imported by name are stopped there, too.
    """
    clocks = [getattr(time, name) for name in (*CLOCKS, *ASKED) if hasattr(time, name)]
    stopped: dict[int, Any] = {id(clock): _stopped(clock) for clock in clocks}
    stopped[id(_datetime)] = _standing(_stopped(_datetime.now), _stopped(_datetime.utcnow))
    with _replaced(function, stopped):
        yield


@contextlib.contextmanager
def clock_ahead(function: Any, seconds: float) -> Iterator[None]:
    """Move the clocks ahead that tell the time of day: those of `time` and `datetime`.

    The others serve to measure how long to wait: code that noted a deadline meanwhile would wait so
    much longer once they were put back.

    Args:
        function: as for `stopped_clock`. Within its ``with``, these clocks are ahead and stand
            still.
        seconds: by how much.
    """
    now, now_ns, local, date = time.time, time.time_ns, time.localtime, dt.datetime
    delta = dt.timedelta(seconds=seconds)

    def later() -> float:
        return now() + seconds

    def of_seconds(clock: Callable[..., Any]) -> Callable[..., Any]:
        return lambda asked=None: clock(later() if asked is None else asked)

    ahead: dict[int, Any] = {
        id(now): later,
        id(now_ns): lambda: now_ns() + int(seconds * 10**9),
        **{id(clock): of_seconds(clock) for clock in (local, time.gmtime, time.ctime)},
        id(time.asctime): lambda asked=None, it=time.asctime: it(asked or local(later())),
        id(time.strftime): lambda text, asked=None, it=time.strftime: it(
            text, asked or local(later())
        ),
        id(date): _standing(
            lambda *zone, **named: date.now(*zone, **named) + delta, lambda: date.utcnow() + delta
        ),
    }
    with _replaced(function, ahead):
        yield


@contextlib.contextmanager
def _replaced(function: Any, others: dict[int, Any]) -> Iterator[None]:
    """Within, ``others[id(clock)]`` stands in the place of each clock."""
    places = [
        (home, name, it)
        for home in (time, dt, *_homes(function))
        for name, it in vars(home).items()
        if id(it) in others
    ]

    def put_back() -> None:
        for home, name, it in places:
            setattr(home, name, it)

    try:
        for home, name, it in places:
            setattr(home, name, others[id(it)])
        yield
    finally:
        try:
            put_back()
        except BaseException:  # a Ctrl-C between two of them
            put_back()
            raise


def _homes(function: Any) -> Iterator[ModuleType]:
    """Give the module of a function, or of an object's class."""
    home = sys.modules.get(getattr(innermost(function), "__module__", None) or "")
    if home is not None:
        yield home


def _stopped(clock: Callable[..., Any]) -> Callable[..., Any]:
    """Give a clock that, for the same arguments, says what it said first, for `LOOKS` times."""
    looks, said = itertools.count(), functools.cache(clock)

    def stopped(*arguments: Any, **options: Any) -> Any:
        return (said if next(looks) < LOOKS else clock)(*arguments, **options)

    return stopped


def _standing(now: Callable[..., Any], utcnow: Callable[..., Any]) -> type:
    """Give a class in place of `datetime.datetime`, whose methods in C cannot be replaced.

    Calling it makes objects of the real one.
    """
    return _Standing(
        "datetime",
        (_datetime,),
        {
            "__new__": lambda cls, *arguments, **options: _datetime(*arguments, **options),
            "now": staticmethod(now),
            "utcnow": staticmethod(utcnow),
        },
    )


class _Standing(type):
    """The metaclass of such a class: for `isinstance`, objects of the real one are its objects."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, _datetime)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _datetime)
