"""A Ctrl-C, or something else, at each line that a thread executes: one line a run.

Lines are those of the library, and of the standard library's `queue` and `threading` below it.
At the wanted one the trace function puts `PyErr_SetInterrupt`, which is what a real Ctrl-C
calls, in its own place: a function in C, so that no line of Python comes between that and the
code that is interrupted, and the interpreter itself says where the interrupt lands: where it
looks for signals next. So nothing has to be left out as a place where none can come.
"""

import ctypes
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import threadloader

__all__ = ["Interrupt", "Sweep"]

LIBRARY = str(Path(threadloader.__file__).parent)
FILES = (queue.__file__, threading.__file__)
MARK = "raised by a handler"

_set_interrupt = ctypes.PYFUNCTYPE(None, *[ctypes.py_object] * 3)(
    ("PyErr_SetInterrupt", ctypes.pythonapi)
)
"""Takes what a trace function is given, and ignores it."""


class Sweep:
    """Does something at one of the lines that the body of a ``with`` executes.

    Args:
        at: at which, counted from 1.
        act: called there with the frame.
        opcodes: whether each instruction counts, in the place of each line.

    Attributes:
        passed: how many lines were executed up to now, at most `at`.
        where: the line at which it was, as `file:line function`; "" until then.
    """

    def __init__(self, at: int, act: Callable[[FrameType], Any], *, opcodes: bool = False) -> None:
        self.at, self.act = at, act
        self.passed = 0
        self.where = ""
        self._event = "opcode" if opcodes else "line"
        self._wanted: dict[CodeType, bool] = {}

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        if self.passed < self.at:
            sys.settrace(self._call)

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.passed == self.at:
            return None
        code = frame.f_code
        wanted = self._wanted.get(code)
        if wanted is None:
            name = code.co_filename
            wanted = self._wanted[code] = name.startswith(LIBRARY) or name in FILES
        if wanted and self._event == "opcode":
            frame.f_trace_opcodes = True
        return self._in if wanted else None

    def _in(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == self._event and self.passed < self.at:
            self.passed += 1
            if self.passed == self.at:
                name = Path(frame.f_code.co_filename).name
                self.where = f"{name}:{frame.f_lineno} {frame.f_code.co_qualname}"
                return self.act(frame)
        return self._in


class Interrupt:
    """The `act` of a Ctrl-C, and its handler, which raises KeyboardInterrupt or something else.

    Args:
        raises: what the handler raises.

    Attributes:
        heard: how often the handler was called.
        came: how often what it raised came out, itself and with nothing noted on it.
        reported: how often CPython reported it and swallowed it, as in a finalizer.
    """

    def __init__(self, raises: type[BaseException] = KeyboardInterrupt) -> None:
        self.raises = raises
        self.heard = self.came = self.reported = 0

    def __call__(self, frame: FrameType) -> Any:
        # Called at the next event of this frame, and, all of it the same interrupt, at those
        # behind it until that is handled; and of the frames below, where a trace function in
        # Python would be interrupted itself. Not for calls: one is that of the handler, and
        # each begins with a look; only a generator that is closed does not. So what is called for
        # a call is in C as well, and gives None.
        sys.settrace(getattr)
        below = frame.f_back
        while below is not None:
            if below.f_trace is not None:
                below.f_trace = _set_interrupt
            below = below.f_back
        return _set_interrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        self.heard += 1
        raise self.raises(MARK)

    def _report(self, told: Any) -> None:
        self.reported += self._is_ours(told.exc_value)
        self._before[1](told)

    def _is_ours(self, error: BaseException | None) -> bool:
        # By a mark: to keep the exception would keep all that its traceback leads to.
        return type(error) is self.raises and error.args == (MARK,)

    def came_as(self, error: BaseException) -> None:
        """Note an exception that came out, if it is one of the handler."""
        self.came += self._is_ours(error) and not hasattr(error, "__notes__")

    def look(self) -> None:
        """Look that all that the handler raised came out, or was reported."""
        assert self.heard == self.came + self.reported, vars(self)

    def __enter__(self) -> "Interrupt":
        self._before = signal.signal(signal.SIGINT, self._handle), sys.unraisablehook
        sys.unraisablehook = self._report
        return self

    def __exit__(self, *exception: object) -> None:
        handler, sys.unraisablehook = self._before
        signal.signal(signal.SIGINT, handler)
