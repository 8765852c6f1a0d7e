"""What holds for every test: it ends with the threads it began with, and with its files closed.

And fixtures that tests of many files use.
"""

import gc
import os
import signal
import sys
import threading

import pytest
from hypothesis import settings

# A machine with other work to do is no fault of the code: no test has a time in it.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = ("test_simulated.py", "test_sweep.py", "test_config_fuzz.py", "test_security.py")
"""The files that take over a minute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, so that no process is alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def open_files() -> set[str]:
    """Names the files that this process holds open, where the system can say so."""
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        return set()
    names = set()
    for number in os.listdir(folder):
        try:
            names.add(os.readlink(f"{folder}/{number}"))
        except OSError:  # the listing's own handle, gone by now
            continue
    return {name for name in names if name.startswith("/") and not name.startswith("/dev/")}


def our_threads() -> set[str]:
    """Names the living threads of threadloader."""
    return {thread.name for thread in threading.enumerate() if "threadloader" in thread.name}


@pytest.fixture(autouse=True, scope="session")
def no_modes():
    """Lets no package that another test has imported change who prepares a batch."""
    from threadloader import _runtime

    before, _runtime.HAVE_MODES = _runtime.HAVE_MODES, frozenset()
    yield
    _runtime.HAVE_MODES = before


@pytest.fixture
def rung():
    """A signal's handler that raises, as that of a timer does."""

    def ring(number, frame):
        raise TimeoutError("rung")

    before = signal.signal(signal.SIGINT, ring)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ranges(monkeypatch):
    """The ranges of files that `FileReader` has read, as (place, bytes); of a batch, as asked."""
    from threadloader.sources._files import FileReader

    read, read_into, ranges = FileReader.read, FileReader._read_into, []

    def noting(self, offset, length):
        if length:  # else it only looks at the file's size
            ranges.append((offset, length))
        return read(self, offset, length)

    def noting_each(self, given, rows, begins):
        ranges.extend((begin, given.shape[1]) for begin in begins)
        read_into(self, given, rows, begins)

    monkeypatch.setattr(FileReader, "read", noting)
    monkeypatch.setattr(FileReader, "_read_into", noting_each)
    return ranges


@pytest.fixture(autouse=True)
def nothing_left():
    """Fails a test that leaves a thread or an open file behind."""
    threads, files = set(threading.enumerate()), open_files()
    yield
    left = {thread.name for thread in set(threading.enumerate()) - threads}
    assert set() == left
    if open_files() - files:
        # A file whose object is garbage in a traceback of the test itself is not a leak.
        gc.collect()
    assert set() == {name for name in open_files() - files if not name.endswith(".pyc")}


@pytest.fixture
def make_engine():
    """Gives a function that starts an engine; each is stopped at the end of the test."""
    from threadloader._runtime import Runtime
    from threadloader.engine import Engine

    engines = []

    def make(num_workers=2, close_timeout=5.0, runtime=None):
        engine = Engine(num_workers, close_timeout, runtime or Runtime())
        engines.append(engine)
        engine.start()
        return engine

    yield make
    for engine in engines:
        engine.stop()


@pytest.fixture
def run_child(tmp_path):
    """Gives a function that runs a script in a child interpreter, from the repository's root."""
    import subprocess

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def run(code: str, *args: str, timeout: float = 60, **options) -> subprocess.CompletedProcess:
        script = tmp_path / "child.py"
        script.write_text(code, encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": root, **options.pop("env", {})}
        env.pop("PYTHONUNBUFFERED", None)  # under it stderr has no buffer, whose lock matters
        return subprocess.run(
            [sys.executable, *options.pop("flags", ()), str(script), *args],
            capture_output=True,
            check=False,
            text=True,
            timeout=timeout,
            env=env,
            cwd=root,
            **options,
        )

    return run
