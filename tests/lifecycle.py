"""Plays the ways in which a loader is left, and looks at what is left behind."""

import logging
import random
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path

from leaks import Watch
from ways import SOURCES, WAYS, Life

from threadloader import Loader

BLOCK = 25
"""Lives between two looks."""

log = logging.getLogger("threadloader")


class Kept(logging.Handler):
    """Keeps what is logged, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def logged() -> Iterator[list[str]]:
    """Keep what the library logs, and let nobody else hear it."""
    handler, before = Kept(), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield handler.texts
    finally:
        log.removeHandler(handler)
        log.propagate = before


@contextmanager
def unhandled() -> Iterator[list[str]]:
    """Give what threads were ended by, as text: kept itself, it would keep what it leads to."""
    texts: list[str] = []
    before = threading.excepthook
    threading.excepthook = lambda told: texts.append(repr(told.exc_value))
    try:
        yield texts
    finally:
        threading.excepthook = before


@contextmanager
def heard() -> Iterator[None]:
    """Let Ctrl-C be heard, which what a shell runs in the background has ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def warm_up() -> None:
    """Once, have everything made and imported that is so when it is first needed."""
    for source in SOURCES.values():
        for workers in (0, 2):
            config = {"num_workers": workers, "batch_size": 5}
            with Loader(config, source) as batches:
                list(batches)
                batches.load_state_dict(batches.state_dict())
                batches.stats()


def block(name: str, seed: int, number: int, lives: int = BLOCK) -> set[bytes]:
    """Play some lives that are left in one way, and look at what is left.

    Args:
        name: of the way.
        seed: lives are drawn from it, and from the other arguments.
        number: of the block.
        lives: how many.

    Returns:
        8 bytes for each life that had another config than the others.

    Raises:
        AssertionError: something is left, or a life saw something else than it must.
    """
    play, least = WAYS[name]
    distinct = set()
    with tempfile.TemporaryDirectory() as folder, logged() as texts, heard(), unhandled() as raised:
        # Not of numpy's format, whose header Python's `ast` reads, which leaves garbage itself.
        path = Path(folder) / "x.txt"
        path.write_text("\n".join(map(str, range(24))), "ascii")
        # What is made once, when it is first needed, is no leak.
        warm_up()
        play(Life(random.Random(f"{seed}, {name}"), least, texts, str(path)))
        with Watch(*SOURCES.values()) as watch:
            for life in range(lives):
                draw = random.Random(f"{seed}, {name}, {number}, {life}")
                one = Life(draw, least, texts, str(path))
                distinct.add(blake2b(f"{name} {one.config}".encode(), digest_size=8).digest())
                try:
                    play(one)
                    left = [it.name for it in threading.enumerate() if "threadloader" in it.name]
                    assert not left, f"threads that live on: {left}"
                    assert not texts, texts
                    assert not raised, raised
                except BaseException as error:
                    error.add_note(f"life {life} of block({name!r}, {seed}, {number})")
                    raise
            del draw, one
            try:
                watch.look()
            except AssertionError as error:
                error.add_note(f"after block({name!r}, {seed}, {number}, {lives})")
                raise
    return distinct
