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
around a config works. A failed sample raises what its source raised, of ours a `SourceError`,
with a note of sample, epoch and step; what would be taken for an end comes in a `WorkerError`.

Since every room may know this one, also here: `_handlers` tells what a signal handler raised,
`_callables` whether a callable takes what it will be given, `_log` logs, and `_open_files` tells of
too many open files, and waits a moment where another program has one open.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

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


def one_line(text: str) -> str:
    """One line that is safe for a terminal, whatever keys, file names and data it quotes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


class LoaderError(Exception):
    """Base of the errors below; for wrong calls Python's own are raised as well."""


class Problem(NamedTuple):
    """One thing that is wrong with a config, and where.

    Attributes:
        pointer: JSON pointer (RFC 6901) into the whole document; ``""`` is its root.
        expected: what would be right there.
        got: what was found there, shortened.
        hint: what to do about it; ``""`` when ``expected`` says it all.
        line: line in the file, from 1; 0 when the config is not a file, or not what is wrong.
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
        return one_line(text)


class ConfigError(LoaderError, ValueError):
    """The config, or an argument that replaces an option, is wrong.

    Args:
        problems: every problem found, or one; or a text, as code of yours may raise it.
        file: the config file as it was named; ``""`` if there is none.

    Attributes:
        problems: every problem found, in the order of the document; none where a text was given.
        file: the config file as it was named; ``""`` when the config is not a file.
    """

    _placed = False  # whether the problems have their places in the document, if there is one

    def __init__(self, problems: Iterable[Problem] | Problem | str, file: str = "") -> None:
        self.problems: tuple[Problem, ...] = ()
        if isinstance(problems, Problem):
            self.problems = (problems,)
        elif not isinstance(problems, str):
            self.problems = tuple(problems)
        self.file = file
        super().__init__(problems if isinstance(problems, str) else self.problems, file)

    def __str__(self) -> str:
        text = self.args[0] if self.args else ""  # a user's subclass may have none
        if isinstance(text, str):
            return text
        # A problem without a line is about what was given in code, and not about the file.
        return "\n".join(
            f"{self.file}:{it}" if self.file and it.line else f"{it}" for it in self.problems
        )


class SourceError(LoaderError, OSError):
    """Data is missing, damaged, or not what it was when the source was opened.

    Attributes:
        message: what is wrong, without where.
        path: the file, or ``""`` when the source is not a file.
        place: what in the file: a field, a record, an offset; ``""`` for the whole.
        option: which option of the source asked for it, as a JSON pointer below the
            source (``"/fields/x"``); ``""`` where it is the path's.
        errno: the number of the system's error behind it; None where there is none.
        filename: the path, or None, as of the system's errors.
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

    @property
    def errno(self) -> int | None:  # type: ignore[override]  # it is not written to
        """The number of the system's error behind it; None if there is none."""
        first: Any = raised_first(self)
        number: int | None = vars(self).get("_errno")  # in a copy: that of its original
        if issubclass(type(first), OSError) and not issubclass(type(first), LoaderError):
            number = vars(OSError)["errno"].__get__(first)
        return number

    @property
    def filename(self) -> str | None:
        """The path, or None, as errors of the system have it."""
        return self.path or None

    def __reduce__(self) -> tuple[Any, ...]:
        number = self.errno  # that of the cause, which a copy does not have
        known = vars(self) if number is None else {**vars(self), "_errno": number}
        return type(self), (self.message, self.path, self.place, self.option), known


class CollateError(LoaderError, ValueError):
    """Samples that do not fit into one batch.

    A collate raises it with the rows it compared; the loader fills in which
    samples those rows are, so that both are named.

    Attributes:
        message: what is wrong, without where.
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

    `StopIteration`, `StopAsyncIteration`, `GeneratorExit`, `SystemExit`, `KeyboardInterrupt` and
    asyncio's `CancelledError` from a source, transform, collate or sampler would be taken for the
    end of the epoch, of the program or of a task; an exception that accepts no note could not say
    where it happened. Also raised where a thread of the loader's own has failed. The original is
    the ``__cause__``.
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

    The ``with`` was not entered or was left, a newer iterator has begun, this is a forked child of
    a process that has workers, or the interpreter is shutting down.
    """


class BusyError(LoaderError, RuntimeError):
    """Two users of one loader at once: it serves one at a time.

    Two threads in `next`, a worker that asks its own loader, a state that is loaded while an
    iterator is live, or a `Loader` that is entered while it is open.
    """


# From here on for the rooms, and not in `__all__`.
def at_need(room: dict[str, Any], files: Mapping[str, str]) -> tuple[Any, Any]:
    """Give a room's `__getattr__` and `__dir__`: some names are imported when asked for (PEP 562).

    Args:
        room: the globals of the room.
        files: the file of each such name, as seen from there.
    """

    def get(name: str) -> Any:
        if name in files:
            return getattr(import_module(files[name], room["__name__"]), name)
        raise AttributeError(f"module {room['__name__']!r} has no attribute {name!r}")

    return get, lambda: sorted({*room, *room["__all__"]})


def shown(value: object) -> str:
    """Give a value as Python writes it, in 80 characters at most; its type where that fails.

    >>> shown("x"), shown(10**5000)
    ("'x'", 'a value of type int')
    """
    try:
        return f"{value!r:.80}"
    except Exception as error:  # an int of too many digits, a list too deep, or anything
        if from_signal(error):
            raise
        return f"a value of type {name_of(type(value))}"


name_of: Callable[[type], str] = vars(type)["__name__"].__get__
"""Give the name of a class, also where its metaclass has a ``__name__``, which may raise."""

# Last: it knows the exceptions above.
from . import _callables, _handlers, _log, _open_files  # noqa: E402

by_handler, ends, from_signal = _handlers.by_handler, _handlers.ends, _handlers.from_signal
lost_interrupt, raised_first = _handlers.lost_interrupt, _handlers.raised_first
traceback_of = _handlers.traceback_of
log, misfit, signature = _log.log, _callables.misfit, _callables.signature
has_order, innermost = _callables.has_order, _callables.innermost
TOO_MANY, most_open = _open_files.TOO_MANY, _open_files.most_open
too_many, once_free = _open_files.too_many, _open_files.once_free
unencoded = _open_files.unencoded
