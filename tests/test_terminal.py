"""A Ctrl-C in a terminal ends the demo at once, with one message."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="the system has no terminals of this kind")
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")

ROOT = Path(__file__).resolve().parent.parent

HANGS_SECONDS = 60
"""After so long without a word something hangs. (It takes a tenth of a second, or some.)"""

DEMO = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import _env
_env.environment = lambda extra="": sys.executable  # this one; it makes none
sys.argv = ["tools/demo", *sys.argv[1:]]
runpy.run_path({str(ROOT / "tools" / "demo")!r}, run_name="__main__")
"""


class Terminal:
    """A process in the foreground of a terminal of its own; `said` is what the screen has."""

    def __init__(self, command):
        try:
            self._end, inner = pty.openpty()
        except OSError as error:  # as in a container without a file system of terminals
            pytest.skip(f"the system gives no terminal: {error}")
        self.said = ""
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            # What makes the terminal that of the new session, so that its keys are signals.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        )
        os.close(inner)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    def read(self):
        """Wait for more; give whether there was any, and not the end."""
        ready, _, _ = select.select([self._end], [], [], HANGS_SECONDS)
        assert ready, f"nothing comes any more behind {self.said[-500:]!r}"
        try:
            more = os.read(self._end, 4096)
        except OSError:  # EIO: the last process has closed it
            return False
        self.said += more.decode()
        return bool(more)

    def until(self, text):
        while text not in self.said:
            assert self.read(), f"it ended before {text!r}: {self.said}"

    def press(self, key):
        os.write(self._end, key)

    def rest(self):
        """Wait for the end; give its exit code and what came since."""
        before = len(self.said)
        while self.read():
            pass
        return self.process.wait(HANGS_SECONDS), self.said[before:]


@pytest.mark.parametrize(("epochs", "begun"), [("1000", "num_workers 0:"), ("2", "num_workers 2:")])
def test_a_ctrl_c_ends_the_demo_with_one_message(epochs, begun):
    """Without threads or with them; both the tool and what it runs hear the key: exit code 130."""
    command = [sys.executable, "-c", DEMO, "--workers", "2", "--epochs", epochs]
    with Terminal(command) as terminal:
        terminal.until(begun)
        terminal.press(b"\x03")
        code, rest = terminal.rest()
    assert 130 == code
    assert "Traceback" not in terminal.said
    assert rest.endswith("\r\ninterrupted: the loader is closed\r\n")
    assert 1 == terminal.said.count("interrupted")
