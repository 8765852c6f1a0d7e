"""Whether a signal handler raised an exception, and not the code that it interrupted.

A handler runs in the main thread between two bytecodes of whatever runs there, so a Ctrl-C during
a read looks like an exception of the source. Code that catches errors of the system, or of data,
asks `by_handler`; code that calls user code asks `from_signal`, since user code may raise any.
"""

from __future__ import annotations

# Not `signal`, which is made of it: importing that takes half a millisecond, and after an error
# perhaps no file can be opened any more. `_signal` is part of the interpreter.
import _signal  # type: ignore[import-not-found]  # mypy knows the other alone
import functools
import opcode
import threading
from collections.abc import Callable
from inspect import CO_GENERATOR, CO_VARARGS
from itertools import pairwise
from types import CellType, FrameType, TracebackType
from typing import Any, NoReturn

from . import LoaderError

__all__ = ["by_handler", "ends", "from_signal", "lost_interrupt", "raised_first", "traceback_of"]


def by_handler(error: BaseException) -> bool:
    """Tell whether a signal handler has raised this, and not the file or the data.

    An error of the system has a number; a `TimeoutError` that a timer's handler raises has none.
    """
    # The error is not asked itself: a user's class may answer for its attributes, and raise.
    kind = type(error)
    if not issubclass(kind, OSError) or issubclass(kind, LoaderError):
        return from_signal(error)
    return vars(OSError)["errno"].__get__(error) is None or from_signal(error)


def ends(error: BaseException) -> bool:
    """Tell whether this ends what a command is doing: any Ctrl-C, or what a handler has raised.

    What else user code raises, it tells, also if that is no `Exception`. A Ctrl-C reaches the main
    thread alone.
    """
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and (issubclass(type(error), KeyboardInterrupt) or from_signal(error))


def lost_interrupt() -> NoReturn:
    """Raise `KeyboardInterrupt` for what a signal handler has raised, and C code has lost.

    `from_signal` knows this function, and takes what comes out of it for a handler's.
    """
    raise KeyboardInterrupt


_RAISING = {opcode.opmap[name] for name in ("RAISE_VARARGS", "YIELD_VALUE", "RETURN_GENERATOR")}
"""The instructions that raise what ``raise`` or ``throw`` says; none of them looks for signals."""

_MAKING = opcode.opmap["RETURN_GENERATOR"]

traceback_of: Callable[[BaseException], TracebackType | None]
traceback_of = vars(BaseException)["__traceback__"].__get__
"""Give an exception's traceback, also where its class answers for attributes, and may raise."""


def from_signal(error: BaseException) -> bool:
    """Tell whether a signal handler raised this, and not the code that it interrupted.

    Its traceback tells. A handler written in Python has a frame there: a function counts as one if
    it was called with a signal's number and the frame that it interrupted, or is installed as one
    now; of the functions that one decorator has made, that one alone. (A handler may have installed
    another in its place before it raised.) Python's own handler, written in C, leaves no frame: its
    KeyboardInterrupt ends neither at a ``raise`` nor where only ``throw`` of a generator can raise.
    The handler of ``asyncio.run`` cancels a task; the KeyboardInterrupt is then raised by
    ``asyncio.Runner.run``.

    What this cannot see: a handler written in C by somebody else; one in Python that has lost what
    it was called with, and is not installed any more; a KeyboardInterrupt that user code has caught
    and raises anew. What it wrongly takes for a handler's: what a function raises that user code
    calls with what a handler gets; and, from CPython 3.13 on, a KeyboardInterrupt that user code
    throws into a generator that has begun.

    An error of ours whose cause is such an exception counts as one: a file of ours took that for
    the system's.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [_signal.getsignal(number) for number in _signal.valid_signals()]
    installed = [*map(_function, handlers), lost_interrupt]
    error = raised_first(error)
    last = step = traceback_of(error)
    # The first frame has caught the exception, and still runs: a look at its `f_locals` could leave
    # those behind, and with them the exception.
    first = None if step is None else step.tb_frame
    inside = {first}
    while step is not None and _is_inside(step.tb_frame, first, inside):
        frame = step.tb_frame
        if any(_runs(frame, it) for it in installed) or (step is not last and _handles(frame)):
            return True
        last, step = step, step.tb_next
    if last is None or not issubclass(type(error), KeyboardInterrupt):
        return False
    if last.tb_frame.f_globals.get("__name__") == "asyncio.runners":
        return True
    if _signal.default_int_handler not in handlers:
        return False
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    # A generator that has not begun stands at its making, from 3.13 on just after it.
    return code[at] not in _RAISING and code[max(at - 2, 0)] != _MAKING


def _is_inside(frame: FrameType, first: FrameType | None, inside: set[FrameType | None]) -> bool:
    """Tell whether a frame of a traceback was called, however deep, by the first one.

    An exception that is raised again has the frames of the raise before behind those of this one.
    Where it cannot be told, a frame counts as inside: if it ran in a generator, or if the first one
    is a generator's, into which a ``with`` throws what was raised below its own caller.

    Args:
        frame: the frame.
        first: the first one, which still runs.
        inside: the frames known to be inside; this one is put with them if it is.
    """
    at: FrameType | None = frame
    bottom = frame
    while at is not None and at not in inside:
        bottom, at = at, at.f_back
    if at is None and first is not None and not first.f_code.co_flags & CO_GENERATOR:
        # Not called by the first one; perhaps by one of those that called that.
        while first is not None and first is not bottom:
            first = first.f_back
        if first is not None:
            return False
    inside.add(frame)
    return True


def raised_first(error: BaseException) -> BaseException:
    """Give what was raised first: the cause of an error of ours, and else the error itself."""
    seen: set[int] = set()  # a cause may lead back to its error
    while issubclass(type(error), LoaderError) and id(error) not in seen:
        seen.add(id(error))
        error = error if (cause := error.__cause__) is None else cause
    return error


def _handles(frame: FrameType) -> bool:
    """Tell whether a frame that has ended was called as a handler is."""
    code, found = frame.f_code, frame.f_locals
    given = [found.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        rest = found.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        given += rest if type(rest) is tuple else ()
    below = frame.f_back
    return any(type(number) is int and it is below is not None for number, it in pairwise(given))


def _function(handler: Any) -> Any:
    """Give the function or method that is called: of a partial, or of an object, the one in it."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(type(handler), "__call__", None)  # noqa: B004 (its code is what is wanted)
    return handler if hasattr(handler, "__code__") else call


def _runs(frame: FrameType, function: Any) -> bool:
    """Tell whether a frame is a function's. All that one decorator has made have the same code."""
    code = frame.f_code
    if getattr(function, "__code__", None) is not code:
        return False
    cells = getattr(function, "__closure__", None) or ()
    # Other cells, other function; where one is empty, or shared by all, its code decides.
    found = frame.f_locals if cells else {}
    pairs = zip(code.co_freevars, cells, strict=True)
    return all(_holds(cell, found[name]) for name, cell in pairs if name in found)


def _holds(cell: CellType, value: object) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # it is empty
        return False
