"""The exceptions of threadloader: one small tree.

::

    LoaderError
    ├── ConfigError   (ValueError)    the config, or an argument, is wrong
    ├── SourceError   (OSError)       data is missing, damaged or changed
    ├── CollateError  (ValueError)    samples that do not fit into one batch
    ├── WorkerError   (RuntimeError)  user code raised what would be taken for an end
    ├── StateError    (ValueError)    a state that is damaged or of another run
    ├── ClosedError   (RuntimeError)  the loader, its iterator or its source is not open
    ├── StalledError  (TimeoutError)  nothing has moved for ``stall_seconds``
    └── BusyError     (RuntimeError)  two users at once

Each leaf is also the builtin that a reader expects, so ``except ValueError``
around a config works. A failed sample raises none of these: it raises the
source's own exception with a note of sample, epoch and step.
"""

import functools
import opcode
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

__all__ = [
    "BusyError",
    "ClosedError",
    "CollateError",
    "ConfigError",
    "LoaderError",
    "Problem",
    "SourceError",
    "StalledError",
    "StateError",
    "WorkerError",
]


class LoaderError(Exception):
    """Base of every error that threadloader itself raises."""


class Problem(NamedTuple):
    """One thing that is wrong with a config, and where.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the whole document; ``""`` is its root.
        expected: what would be right there.
        got: what was found there, shortened.
        hint: what to do about it; ``""`` when ``expected`` says it all.
        line: line in the file, from 1; 0 when the config is not a file.
        column: column in the line, in characters from 1; 0 when not a file.
    """

    pointer: str
    expected: str
    got: str
    hint: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = self.pointer or "the config"
        if self.line:
            where = f"{self.line}:{self.column}: {where}"
        text = f"{where}: expected {self.expected}, got {self.got}"
        if self.hint:
            text += f"; {self.hint}"
        # One line, and safe for a terminal, whatever key or value it quotes.
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
        )


class ConfigError(LoaderError, ValueError):
    """The config, or an argument that replaces an option, is wrong.

    Attributes:
        problems: every problem found, in the order of the document.
        file: the config file as it was named; ``""`` when the config is not a file.
    """

    _placed = False  # whether it says where in its document the problems stand, if it has one

    def __init__(self, problems: Iterable[Problem] | Problem, file: str = "") -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.file = file
        super().__init__(self.problems, file)

    def __str__(self) -> str:
        prefix = f"{self.file}:" if self.file else ""
        return "\n".join(f"{prefix}{problem}" for problem in self.problems)


class SourceError(LoaderError, OSError):
    """Data is missing, damaged, or not what it was when the source was opened.

    Attributes:
        path: the file, or ``""`` when the source is not a file.
        place: what in the file: a field, a record, an offset; ``""`` for the whole.
        option: which option of the source asked for it, as a JSON pointer below the
            source (``"/fields/x"``); ``""`` where it is the path's.
    """

    def __init__(self, message: str, path: object = "", place: str = "", option: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = str(path)
        self.place = place
        self.option = option

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.path, self.place) if part)
        return f"{where}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.path, self.place, self.option), vars(self)


class CollateError(LoaderError, ValueError):
    """Samples that do not fit into one batch.

    A collate raises it with the rows it compared; the loader fills in which
    samples those rows are, so that both are named.

    Attributes:
        rows: rows of the batch that the message is about; the reference first.
        samples: their dataset indices, in the same order; empty until known.
    """

    def __init__(self, message: str, rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.rows = tuple(rows)
        self.samples: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.rows:
            return self.message
        if not self.samples:
            return f"{self.message} (rows {', '.join(map(str, self.rows))})"
        pairs = zip(self.rows, self.samples, strict=True)
        named = ", ".join(f"row {row} is sample {sample}" for row, sample in pairs)
        return f"{self.message} ({named})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.rows), vars(self)


class WorkerError(LoaderError, RuntimeError):
    """User code raised an exception that cannot be passed on as it is.

    `StopIteration`, `StopAsyncIteration`, `GeneratorExit`, `SystemExit` and `KeyboardInterrupt`
    from a source, transform or collate would be taken for the end of the epoch or of
    the program; an exception that accepts no note could not say where it
    happened. The original is the ``__cause__``.
    """


class StateError(LoaderError, ValueError):
    """A state that is damaged, of another format, or of another run.

    Attributes:
        fields: the names of the fields that differ; empty for a damaged state.
    """

    def __init__(self, message: str, fields: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.fields = tuple(fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.fields), vars(self)


class StalledError(LoaderError, TimeoutError):
    """No sample was read or made for ``stall_seconds``.

    The message names each busy worker, its sample, and its stack. Nothing is lost: calling
    `next` again waits for the same batch.

    Attributes:
        seconds: how long nothing has moved.
    """

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.seconds), vars(self)


class ClosedError(LoaderError, RuntimeError):
    """The loader, its iterator or its source is not open.

    The ``with`` was not entered or was left, a newer iterator has begun, this is a forked child,
    or the interpreter is shutting down.
    """


class BusyError(LoaderError, RuntimeError):
    """Two users of one loader at once: it serves one at a time."""


# From here on for the rooms, and not in `__all__`. What catches errors of the system, or of data,
# asks this one; what calls user code asks `from_signal`, since that may raise any of them itself.
def by_handler(error: BaseException) -> bool:
    """Tell whether a signal handler has raised this, and not the file or the data.

    An error of the system has a number, and a `TimeoutError` that a timer raises has none.
    """
    # Past a class that answers for itself, and may raise: it may be any error of the user's.
    kind = type(error)
    if not issubclass(kind, OSError) or issubclass(kind, LoaderError):
        return from_signal(error)
    return vars(OSError)["errno"].__get__(error) is None or from_signal(error)


def lost_interrupt() -> NoReturn:
    """Raise `KeyboardInterrupt` for what a signal handler has raised, and C code has lost.

    `from_signal` knows this function, and takes what comes out of it for a handler's.
    """
    raise KeyboardInterrupt


def shown(value: object) -> str:
    """Give a value as Python writes it, in 80 characters; its type where that cannot be done.

    >>> shown("x"), shown(10**5000)
    ("'x'", 'a value of type int')
    """
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - an int of too many digits, a list too deep, or anything
        return f"a value of type {type(value).__name__}"


_RAISING = {opcode.opmap[name] for name in ("RAISE_VARARGS", "YIELD_VALUE", "RETURN_GENERATOR")}
"""Where Python code raises what ``raise`` or ``throw`` says; no signal is looked for there."""

_MAKING = opcode.opmap["RETURN_GENERATOR"]


def from_signal(error: BaseException) -> bool:
    """Tell whether a signal handler raised this, and not the code that it interrupted.

    Whoever calls user code asks this one, since that may raise anything. A handler runs in the
    main thread between two bytecodes of whatever runs there, so a Ctrl-C during a read looks
    like an exception of the source. It is told apart by its traceback: a handler written in
    Python stands in it; Python's own handler, written in C, leaves no frame, and its
    KeyboardInterrupt ends where no ``raise`` stands, and nothing that only ``throw`` of a
    generator makes raise. What this cannot see: a handler written in C by somebody else; and,
    from CPython 3.13 on, a KeyboardInterrupt that user code throws into a generator that has
    begun, which passes for a real one.

    An error of ours that was made of such an exception counts as one, since a file of ours took
    it for the system's.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    import signal  # where something was raised, and not with the package

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for handler in handlers if (code := _code(handler)) is not None}
    codes.add(lost_interrupt.__code__)
    error = raised_first(error)
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
    # A generator that has not begun stands at its making, from 3.13 on just after it.
    return code[at] not in _RAISING and code[max(at - 2, 0)] != _MAKING


def raised_first(error: BaseException) -> BaseException:
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
