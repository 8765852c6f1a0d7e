"""The campaign `planted`: each bug of `bugs`, put into a copy of the repository, must be seen.

    python3 tools/campaign planted
    python3 tools/campaign planted --only 'sentinel'

First the tests that are named there run on copies without a bug, and must pass. Then each bug
is planted alone: the tests that it names run, and, if they pass, the whole suite. It counts as
caught when a test fails, when the tests do not end (which a lost wake-up may cause) within the
limit, or when they are ended. The last line says how many were caught; the exit code is 1 if
one was not, or if tests fail without a bug or could not be run.
"""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .bugs import BUGS, Bug
from .cases import some

ROOT = Path(__file__).resolve().parent.parent.parent

LEFT_OUT = (".git", ".venv", "__pycache__", ".hypothesis", ".*_cache", "*.egg-info", "build")

MUST_RUN = "import threadloader.cli, threadloader.loader"
"""What must work with a bug in place: where nothing can be imported, nothing is tested."""

PYTEST = ("-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider")

WHOLE = 8
"""How many times as long as the tests that a bug names the whole suite may take. Chosen."""


class Change(NamedTuple):
    """A change of one file, which tests are to see.

    Attributes:
        says: what it is.
        file: the file, from the root of the repository.
        text: the whole file with it.
        tests: what is expected to see it, as arguments of pytest.
        runs: whether the library must still be importable: if it is not, nothing was tested.
    """

    says: str
    file: str
    text: str
    tests: tuple[str, ...]
    runs: bool = True


class Came(NamedTuple):
    """What came of changes: how many were caught, and whether all that ran was as it should be."""

    caught: int
    good: bool


def planted(bug: Bug, root: Path) -> str:
    """Give the text of a bug's file with the bug in it.

    Raises:
        ValueError: what it replaces does not stand there, or in several places.
    """
    text = (root / bug.file).read_text(encoding="utf-8")
    if (places := text.count(bug.old)) != 1:
        raise ValueError(
            f"{bug.file}: expected {bug.old!r} in one place, got {places}; "
            f"plant it anew: {bug.says}"
        )
    return text.replace(bug.old, bug.new)


class Copy:
    """A copy of the repository, in which one change at a time is made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process: subprocess.Popen[str] | None = None
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def tries(self, change: Change, limit: float, *, whole: bool) -> tuple[bool, str]:
        """Make a change and look for it.

        Args:
            change: the change.
            limit: seconds that the tests which it names may take.
            whole: whether the whole suite runs when those see nothing.

        Returns:
            Whether it was caught, and what saw it, or why nothing did.
        """
        path = self.root / change.file
        before = path.read_bytes()
        path.write_text(change.text, encoding="utf-8")
        try:
            if self._run(["-c", MUST_RUN], limit)[0] != 0:
                return not change.runs, "it cannot even be imported: no bug, but a ruin"
            named = (change.tests, limit)
            runs = [named, ((), limit * WHOLE)] if whole else [named]
            for tests, seconds in runs:
                if seen := self.failing(tests, seconds):
                    return True, seen
            return False, "no test fails"
        finally:
            path.write_bytes(before)

    def failing(self, tests: tuple[str, ...], limit: float) -> str:
        """Run tests, or all; give the first that fails, or "".

        Raises:
            RuntimeError: they could not be run.
        """
        # What an earlier bug has taught hypothesis is not to be known to the next.
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        code, out = self._run([*PYTEST, *tests], limit)
        if code is None:
            return f"no end within {limit:g} s"
        if code == 0:
            return ""
        failed = [line for line in out.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if code in (1, 2) and failed:  # 2: a test file cannot be imported
            return failed[0].partition(" ")[2].partition(" - ")[0]
        if code < 0 or "KeyboardInterrupt" in out:
            return f"the tests were ended, by {'a signal' if code < 0 else 'KeyboardInterrupt'}"
        raise RuntimeError(f"pytest ended with {code}:\n{out[-2000:]}")

    def _run(self, args: list[str], limit: float) -> tuple[int | None, str]:
        """Run Python in the copy; give its exit code, None when it did not end, and output."""
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.root), str(self.root / "tests")]),
            # Bugs come and go within the second by which compiled files are told apart.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with subprocess.Popen(
            [sys.executable, *args],
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that it can be ended with the children it has
        ) as self._process:
            try:
                out, _ = self._process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                self.end()
                return None, self._process.communicate()[0]
        return self._process.returncode, out

    def end(self) -> None:
        """End what runs, with its children."""
        process = self._process
        if process is not None and process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


def run(name: str, changes: list[Change], processes: int, limit: float, *, whole: bool) -> Came:
    """Make changes; print what came of each, and, with the campaign's name, of all."""
    began, caught, good = time.monotonic(), 0, True
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()

    def on_a_copy(work: Callable[[Copy], tuple[str, str]]) -> tuple[str, str]:
        copy = free.get()
        try:
            return work(copy)
        except RuntimeError as error:
            return "BROKEN", str(error)
        finally:
            free.put(copy)

    def clean(copy: Copy, file: str) -> tuple[str, str]:
        failed = copy.failing((file,), limit)
        return "BROKEN" if failed else "", f"without a bug, {failed} fails"

    def dirty(copy: Copy, change: Change) -> tuple[str, str]:
        found, what = copy.tries(change, limit, whole=whole)
        return "caught" if found else "MISSED", f"{change.says} [{what}]"

    files = sorted({test for change in changes for test in change.tests})
    works = [partial(clean, file=file) for file in files]
    works += [partial(dirty, change=change) for change in changes]
    # What is sent to this process alone is to end the tests, too.
    for number in (getattr(signal, it, None) for it in ("SIGTERM", "SIGHUP")):
        if number and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        copies = [Copy(Path(folder, str(number))) for number in range(processes)]
        for copy in copies:
            free.put(copy)
        try:
            for done in as_completed([pool.submit(on_a_copy, work) for work in works]):
                word, text = done.result()
                caught += word == "caught"
                good = good and word != "BROKEN"
                if word:
                    print(f"{word}: {text}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.end()
            raise
    seconds = time.monotonic() - began
    print(f"{name}: {caught} of {len(changes)} caught, in {seconds:.0f} s")
    return Came(caught, good)


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign planted", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    processors = os.cpu_count() or 1
    parser.add_argument("--only", default="", help="plant those whose sentence has this in it")
    parser.add_argument("--named", action="store_true", help="leave it at the tests they name")
    parser.add_argument("--processes", type=some, default=processors, help=f"({processors})")
    parser.add_argument("--limit", type=some, default=300, help="seconds for named tests (300)")
    options = parser.parse_args(args)
    bugs = [bug for bug in BUGS if options.only in bug.says]
    if not bugs:
        parser.error(f"--only: expected a part of a bug's sentence, got {options.only!r}")
    try:
        changes = [Change(bug.says, bug.file, planted(bug, ROOT), bug.tests) for bug in bugs]
        came = run("planted", changes, options.processes, options.limit, whole=not options.named)
    except ValueError as error:
        print(f"planted: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if came == Came(len(changes), good=True) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
