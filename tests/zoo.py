"""Exceptions of every kind that user code has been seen to raise, and some that are worse.

`ZOO` gives, by name, what makes a new one; members of `KEPT` give the same object each time. Longer
than other files, as a collection is.
"""

import asyncio
import dataclasses
import queue
import subprocess
import threading

from threadloader import (
    BusyError,
    ClosedError,
    CollateError,
    ConfigError,
    SourceError,
    StateError,
    WorkerError,
)
from threadloader.errors import Problem

__all__ = ["CYCLIC", "KEPT", "WRAPPED", "ZOO", "Payload", "kind"]


class Payload:
    """Something large that stands in a frame; whoever keeps the traceback keeps it."""


# Odd constructors: an exception that is made anew from its text fails here.


class TwoArguments(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


class KeywordOnly(Exception):
    def __init__(self, *, reason):
        super().__init__(reason)


class Once(Exception):
    """Its constructor works, but not when it is called with what `args` has."""

    def __init__(self, number):
        if not isinstance(number, int):
            raise TypeError("expected an int")
        super().__init__(f"number {number}")


class Keyed(Exception):
    """Its constructor looks its argument up, as clients of remote storage do."""

    def __init__(self, response):
        super().__init__("{Code}: {Message}".format(**response["Error"]))


class Response(OSError):
    """The shape of an HTTP error: attributes, and nothing in `args` of what it needs."""

    def __init__(self, url, status, headers):
        super().__init__(status, "the server said no")
        self.url, self.headers = url, headers


# Texts that cannot be had.


class NoStr(Exception):
    def __str__(self):
        raise RuntimeError("no str")


class NoRepr(Exception):
    def __repr__(self):
        raise SystemExit("no repr")

    __str__ = __repr__


class Endless(Exception):
    def __str__(self):
        return str(self)

    __repr__ = __str__


class NotText(Exception):
    def __str__(self):
        return 7  # noqa: PLE0307 - that is what is wrong with it


# Objects that cannot be copied, written to, compared or asked.


class Unpicklable(Exception):
    def __init__(self):
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Lying(Exception):
    def __reduce__(self):
        return ValueError, ("another one",)


class Slots(Exception):
    __slots__ = ("where",)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    where: int = 0


class Falsy(Exception):
    def __bool__(self):
        return False

    def __len__(self):
        return 0


class Incomparable(Exception):
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no comparing")


class Unasked(Exception):
    """Whoever looks at it from Python gets another exception."""

    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")


class NoNote(Exception):
    def add_note(self, note):
        raise TypeError("no notes")


class DropsNotes(Exception):
    def add_note(self, note):
        pass


class OddNotes(Exception):
    __notes__ = "not a list"


class InNote(Exception):
    """Raises what ends programs when it is given a note."""

    def add_note(self, note):
        raise KeyboardInterrupt


# Ends that are none.


class EndOfData(StopIteration):
    pass


class OtherBase(BaseException):
    pass


def cycle():
    """An exception whose contexts lead back to it."""
    first, second = ValueError("first"), KeyError("second")
    first.__context__, second.__context__ = second, first
    return first


def chained():
    try:
        try:
            {}["a"]
        except KeyError:
            raise OSError(5, "read failed")  # noqa: B904 - the context is wanted
    except OSError as error:
        return error


def group():
    return ExceptionGroup("several", [ValueError("one"), OSError(2, "two")])


def base_group():
    return BaseExceptionGroup("several", [KeyboardInterrupt(), SystemExit(3)])


def down(levels):
    held = Payload()
    if levels:
        return down(levels - 1)
    raise RecursionError(f"deep, with {type(held).__name__}")


def deep(levels=150):
    """An exception with many frames of its own already, each of which holds something."""
    try:
        down(levels)
    except RecursionError as error:
        return error


def heavy():
    """An exception that holds something itself."""
    error = ValueError("heavy")
    error.held = [Payload() for _ in range(3)]
    return error


_AGAIN, _NOTED = ValueError("again"), RuntimeError("noted")
_NOTED.add_note("a note of the user's")

ZOO = {
    "plain": lambda: ValueError("bad sample"),
    "no-arguments": Exception,
    "two-arguments": lambda: TwoArguments(5, "five"),
    "keyword-only": lambda: KeywordOnly(reason="no reason"),
    "not-again": lambda: Once(1),
    "keyed": lambda: Keyed({"Error": {"Code": 503, "Message": "slow down"}}),
    "response": lambda: Response("http://x", 404, {}),
    "str-raises": NoStr,
    "repr-raises": NoRepr,
    "str-recurses": Endless,
    "str-of-no-str": NotText,
    "unpicklable": Unpicklable,
    "reduce-lies": Lying,
    "slots": lambda: Slots("slots"),
    "frozen": Frozen,
    "falsy": Falsy,
    "incomparable": Incomparable,
    "unasked": Unasked,
    "no-note": NoNote,
    "drops-notes": DropsNotes,
    "odd-notes": OddNotes,
    "raises-in-note": InNote,
    "errno": lambda: FileNotFoundError(2, "No such file", "a.bin"),
    "interrupted-call": lambda: InterruptedError(4, "Interrupted"),
    "would-block": lambda: BlockingIOError(11, "again"),
    "connection": lambda: ConnectionResetError(104, "reset by peer"),
    "broken-pipe": lambda: BrokenPipeError(32, "broken pipe"),
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "process": lambda: subprocess.CalledProcessError(2, ["decode"], b"out", b"err"),
    "key-with-newline": lambda: KeyError("a\nb"),
    "index": lambda: IndexError("list index out of range"),
    "attribute": lambda: AttributeError("no x", name="x", obj=Payload()),
    "syntax": lambda: SyntaxError("odd", ("a.py", 3, 1, "x y", 3, 4)),
    "group": group,
    "base-group": base_group,
    "cycle": cycle,
    "chained": chained,
    "deep": deep,
    "heavy": heavy,
    "again": lambda: _AGAIN,
    "noted-again": lambda: _NOTED,
    "class-itself": lambda: ZeroDivisionError,
    "stop-iteration": lambda: StopIteration(7),
    "end-of-data": EndOfData,
    "stop-async-iteration": StopAsyncIteration,
    "generator-exit": GeneratorExit,
    "exit-0": lambda: SystemExit(0),
    "exit-none": lambda: SystemExit(None),
    "exit-text": lambda: SystemExit("x"),
    "ctrl-c": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "other-base": OtherBase,
    "memory": MemoryError,
    "recursion": lambda: RecursionError("maximum recursion depth exceeded"),
    "warning": lambda: UserWarning("as an error"),
    "queue-empty": queue.Empty,
    "queue-full": queue.Full,
    "timeout": lambda: TimeoutError("timed out"),
    "barrier": threading.BrokenBarrierError,
    "closed": lambda: ClosedError("another loader's"),
    "busy": lambda: BusyError("another loader's"),
    "worker": lambda: WorkerError("another loader's"),
    "source": lambda: SourceError("damaged", "a.bin", "offset 3"),
    "collate": lambda: CollateError("rows differ", rows=(0, 99)),
    "config": lambda: ConfigError(Problem("/x", "y", "z")),
    "state": lambda: StateError("differs", ("seed",)),
}
"""What makes an exception, by name. One gives a class, which `raise` makes an exception of."""

KEPT = {"again", "noted-again"}
"""Names of those that give one object, raised again and again, in several threads at once."""

CYCLIC = {"cycle"}
"""Names of those that are in a cycle of their own."""

WRAPPED = {
    "cancelled",
    "stop-iteration",
    "end-of-data",
    "stop-async-iteration",
    "generator-exit",
    "exit-0",
    "exit-none",
    "exit-text",
    "ctrl-c",
    "frozen",
    "unasked",
    "no-note",
    "drops-notes",
    "odd-notes",
    "raises-in-note",
}
"""Names of those that come as the cause of a `WorkerError`: they would be taken for an end, or
do not take the note."""


def kind(error):
    """Give the class of an exception of the zoo."""
    made = ZOO[error]()
    try:
        return made if type(made) is type else type(made)
    finally:
        del made  # its traceback may lead here
