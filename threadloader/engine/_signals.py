"""What a signal handler raises is told from what the code raises that it interrupts."""

from __future__ import annotations

import functools
import opcode
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..errors import LoaderError, lost_interrupt
from ._slots import caught

__all__ = ["attempt", "from_signal"]

_RAISING = {opcode.opmap[name] for name in ("RAISE_VARARGS", "YIELD_VALUE", "RETURN_GENERATOR")}
"""Where Python code raises what ``raise`` or ``throw`` says; no signal is looked for there."""

_MAKING = opcode.opmap["RETURN_GENERATOR"]


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Call a function; give its result, or what it raised, but raise what a signal handler did."""
    result, error = caught(function, *args)
    try:
        if error is not None and from_signal(error):
            raise _raised(error)
        return result, error
    finally:
        del error  # its traceback leads to this frame


def from_signal(error: BaseException) -> bool:
    """Tell whether a signal handler raised this, and not the code that it interrupted.

    A handler runs in the main thread between two bytecodes of whatever runs there, so a
    Ctrl-C during a read looks like an exception of the source. It is told apart by its
    traceback: a handler written in Python stands in it; Python's own handler, written in C,
    leaves no frame, and its KeyboardInterrupt ends where no ``raise`` stands, and nothing that
    only ``throw`` of a generator makes raise. What this cannot see: a handler written in C by
    somebody else; and, from CPython 3.13 on, a KeyboardInterrupt that user code throws into a
    generator that has begun, which passes for a real one.

    An error of ours that was made of such an exception counts as one, since a file of ours took
    it for the system's.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    import signal  # where something was raised, and not with the package

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for handler in handlers if (code := _code(handler)) is not None}
    codes.add(lost_interrupt.__code__)
    error = _raised(error)
    # Past a class that answers for its attributes itself, and may raise; isinstance asks it too.
    step: TracebackType | None = object.__getattribute__(error, "__traceback__")
    last = step
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        last, step = step, step.tb_next
    if last is None or not issubclass(type(error), KeyboardInterrupt):
        return False
    if signal.default_int_handler not in handlers:
        return False
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    # A generator that has not begun stands at its making, from 3.13 on behind that.
    return code[at] not in _RAISING and code[max(at - 2, 0)] != _MAKING


def _raised(error: BaseException) -> BaseException:
    """Give what was raised first: the cause of an error of ours, and else the error itself."""
    seen: set[int] = set()  # a cause may lead back to its error
    while issubclass(type(error), LoaderError) and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or error
    return error


def _code(handler: Any) -> Any:
    """Give the code of a handler in Python: a function, a method, a partial, or an object."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(type(handler), "__call__", None)  # noqa: B004 (its code is what is wanted)
    return getattr(handler, "__code__", None) or getattr(call, "__code__", None)
