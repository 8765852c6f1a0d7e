"""The environment that the tools run in: ``.venv`` in the root of the repository.

Made once with the standard library's `venv`, used again the next time. A stamp
inside says what it was made from; an environment that was interrupted half way,
moved, or made by another Python is recognised by it and made anew. (It is past
300 lines: how a tool runs another program and prints is here as well, since the
tools have nothing else to import before that environment is there.)
"""

import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "threadloader-stamp.json"
LOG = VENV / "threadloader-install.log"
# What decides which packages are installed, and how.
RECIPE = ("setup.cfg", "setup.py", "pyproject.toml")
# How long an interrupted child may take to say its last line by itself. A terminal
# sends Ctrl-C to child and parent alike; `kill -INT` reaches the parent alone.
GRACE_SECONDS = 0.5
# How long it may take to end (a loader waits for its reads) once it has been told so.
PATIENCE_SECONDS = 10.0
INTERRUPTED = 130


class ToolError(Exception):
    """The one message that says what is missing and what to do about it."""

    code = 1


class OutputError(ToolError):
    """What a tool prints cannot be written."""

    code = 2


class EndedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP came, which ends a tool as a Ctrl-C does: with what it has started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(tool: str, work: Callable[[list[str]], int], args: Sequence[str]) -> int:
    """Runs a tool and gives its exit code.

    That is what `work` gives, its `ToolError`'s code, 130 after a Ctrl-C, 128 + N after signal N.
    """
    # Windows has no SIGHUP.
    ending = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    # Not where one is ignored, as `nohup` has it.
    free = [it for it in ending if it and signal.getsignal(it) is signal.SIG_DFL]
    try:
        for number in free:
            signal.signal(number, _ended)
        return work(list(args))
    except ToolError as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return error.code
    except EndedError as ended:
        with contextlib.suppress(OSError):  # the terminal is gone
            print(f"{tool}: ended by {signal.Signals(ended.number).name}", file=sys.stderr)
        return 128 + ended.number
    except KeyboardInterrupt:
        print(f"\n{tool}: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)


def _ended(number: int, frame: object) -> None:
    raise EndedError(number)


def environment(extra: str = "") -> Path:
    """Gives the path of the Python in ``.venv``, which has threadloader, making what is not there.

    Args:
        extra: the extra of setup.cfg that is needed; ``""`` is the package alone.

    Raises:
        ToolError: it cannot be made here; the message says why and what to do.
    """
    with _alone():
        found, wanted = _read_stamp(), _recipe()
        python = _python()
        try:
            _check(str(VENV))
            broken = _difference(found, wanted["place"])
            if broken:
                _make(broken)
                found = {}
            extra = extra or found.get("extra", "")  # what was installed once stays
            stamp = {**wanted["place"], "hash": wanted["hash"], "extra": extra}
            if found != stamp:
                _bring_up(python, found or wanted["place"], stamp)
        except OSError as error:
            raise ToolError(
                f"expected to write in {VENV}, got: {error}; copy the checkout to a folder of your"
                " own (and leave .venv, if it is active, with: deactivate)"
            ) from error
        except ValueError as error:
            remedy, encoding = "move the checkout to another", sys.getfilesystemencoding()
            if isinstance(error, UnicodeError) and encoding != "utf-8":
                remedy = f"the locale has names read as {encoding}: set PYTHONUTF8=1"
            raise ToolError(
                f"expected a folder in which venv makes an environment, got {VENV}: {error};"
                f" {remedy}"
            ) from error
    return python


def _bring_up(python: Path, found: dict[str, Any], stamp: dict[str, Any]) -> None:
    """Installs what an environment does not have yet."""
    _write_stamp({})  # half made, should this be interrupted
    try:
        _install(python, stamp["extra"])
    except ToolError:
        _write_stamp(found)  # pip took back what it had begun
        raise
    _write_stamp(stamp)


def call(command: Sequence[object], cwd: Path | None = None, **streams: Any) -> int:
    """Runs a command, in the present folder by default, with other `streams` as `Popen` takes them.

    Gives its exit code; 130 after a Ctrl-C, which leaves it time for its last words.
    """
    child = subprocess.Popen([str(part) for part in command], cwd=cwd, **streams)
    try:
        code = child.wait()
        return 128 - code if code < 0 else code  # ended by signal N: 128 + N, as shells say it
    except EndedError:  # the child was not sent it
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            child.wait(PATIENCE_SECONDS)
        _end(child)
        raise
    except KeyboardInterrupt:
        _end(child)
        return INTERRUPTED


def _end(child: "subprocess.Popen[Any]") -> None:
    """Waits for an interrupted child, then asks it, then ends it."""
    steps: tuple[tuple[float, Callable[[], object]], ...] = (
        # Windows cannot send a Ctrl-C to one process; there the console has sent it.
        (GRACE_SECONDS, lambda: None if os.name == "nt" else child.send_signal(signal.SIGINT)),
        (PATIENCE_SECONDS, child.terminate),
        (PATIENCE_SECONDS, child.kill),
    )
    for seconds, step in steps:
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            child.wait(seconds)
            return
        step()
    child.wait()


def without_numpy(tool: str) -> int:
    """Runs a tool that found no numpy again, in ``.venv`` where that has it; it makes nothing.

    Gives the exit code: the tool's own, or 2 after a message that says how to get numpy.
    """
    # Not again where it runs in .venv already: it would run again for ever.
    if _python().exists() and _has_numpy() and Path(sys.prefix) != VENV:
        command = [str(_python()), *sys.argv]
        if os.name == "nt":  # where exec leaves the shell nothing to wait for
            return call(command)
        os.execv(command[0], command)
    print(
        f"{tool}: expected numpy, found none; write python3 tools/demo, which makes a .venv that"
        f" has it, or: {sys.executable} -m pip install numpy",
        file=sys.stderr,
    )
    return 2


def _python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _has_numpy() -> bool:
    """Looks for its file alone: to import it takes longer than all else that is done here."""
    packages = "Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages"
    return any(VENV.glob(f"{packages}/numpy/__init__.py"))


def _recipe() -> dict[str, Any]:
    """What an environment made now would be made from."""
    digest = hashlib.sha256()
    for name in RECIPE:
        digest.update((ROOT / name).read_bytes())
    no_gil = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    place = {
        # An editable install and the scripts of a venv name their folder.
        "root": str(ROOT),
        "python": f"{platform.python_implementation()} {platform.python_version()}{no_gil}",
        "base": sys.base_prefix,
    }
    # As a UTF-8 locale has them, whichever this one is.
    place = {it: os.fsencode(place[it]).decode("utf-8", "surrogateescape") for it in place}
    return {"place": place, "hash": digest.hexdigest()}


def _read_stamp() -> dict[str, Any]:
    """The stamp of ``.venv``; empty when there is none, or one that cannot be read."""
    try:
        found = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_stamp(stamp: dict[str, Any]) -> None:
    STAMP.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")


def _check(path: str) -> None:
    """Raises a ValueError where venv would: before an old environment is removed for nothing."""
    path.encode()  # the locale may not be able to read it
    if os.pathsep in path:
        raise ValueError(f"the {os.pathsep!r} in it would divide it in a PATH")


def _make(broken: str) -> None:
    """Makes an empty environment, in place of one that is ``broken`` in this way."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise ToolError(
                f"expected a Python with the standard module {module}, got {sys.executable} without"
                " it; on Debian and Ubuntu: apt install python3-venv"
            )
    import venv  # as late as this: not every Python has it

    if os.path.lexists(VENV):
        if not VENV.is_dir() or VENV.is_symlink() or (not STAMP.exists() and any(VENV.iterdir())):
            got = "another" if VENV.is_dir() else "what is no folder"
            raise ToolError(
                f"expected no {VENV}, or one that these tools made, got {got}; move or"
                " remove it, they make their own there"
            )
        say(f"removing .venv: {broken}")
        shutil.rmtree(VENV)
    VENV.mkdir()
    # First of all, so that an interrupted run leaves something to recognise.
    _write_stamp({})
    say("making the environment .venv (once) ...")
    try:
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(VENV)
    except subprocess.CalledProcessError as error:
        raise ToolError(f"cannot put pip into {VENV}: {_last_line(error.output)}") from error


def _difference(found: dict[str, Any], place: dict[str, Any]) -> str:
    """Why an environment is not used again, in words; ``""`` where it is."""
    if not found:
        return "it is half made"
    differing = [f"{key} {found.get(key)!r}" for key in place if found.get(key) != place[key]]
    if differing:
        return f"it was made with {', '.join(differing)}"
    if not _python().exists():
        return "its interpreter is gone"
    # pip alone would not mend it: for pip numpy is installed while its record is there.
    return "" if "hash" not in found or _has_numpy() else "numpy is gone from it"


def _install(python: Path, extra: str) -> None:
    """Installs the package as it stands in the checkout, with its extra."""
    what = f".[{extra}]" if extra else "."
    names = "threadloader, numpy and the tools of the tests" if extra else "threadloader and numpy"
    say(f"installing {names} into .venv ...")
    began = time.monotonic()
    command = [python, "-m", "pip", "install", "--no-input", "--no-user", "--editable", what]
    with LOG.open("wb") as log:
        code = call(command, ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        line = _last_line(LOG.read_bytes())
        raise ToolError(
            f"pip could not install {names}: {line}\n"
            "    If it had no network: it needs one once (or an index of your own, set up in pip's"
            " configuration). If there is no wheel of numpy for this Python and machine: pip needs"
            f" compilers for C and C++. All it said: {LOG}"
        )
    say(f"done in {time.monotonic() - began:.0f} s")


def _last_line(output: bytes | None) -> str:
    """The line of a program's output that says what went wrong: its last error, or its last.

    pip quotes what it has started, as what compiles numpy where there is no wheel of it, whose
    error says more than pip's own.
    """
    lines = [line.strip() for line in (output or b"").decode(errors="replace").splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if "ERROR:" in line]
    errors = [line for line in errors if not line.startswith("ERROR:")] or errors
    errors = errors or [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["it said nothing"])[-1]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keeps a second tool from making the same environment at the same time.

    The lock is on the folder itself, which leaves no file behind and ends with the
    process. Windows locks no folders; there the second tool finds its files in use.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        # A network file system may know no locks; then nobody is kept out.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another tool that makes .venv ...")
                fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def warn(text: str) -> None:
    """Prints a text to stderr; in a function here, since a tool is read by Pythons of any age."""
    print(text, file=sys.stderr, flush=True)


def say(text: str) -> None:
    """Prints a text before a child prints any; a reader that has gone is none of our business.

    Raises:
        OutputError: it cannot be written.
    """
    if sys.stdout is None:  # closed at the start: nobody wants it
        return
    try:
        # A path that the encoding of the output does not have is printed all the same.
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # What is left in the buffer would fail once more when Python ends, so it goes nowhere.
        # A child still prints to where it would: it ends for want of a reader, as it should.
        out = sys.stdout.fileno()
        kept = os.dup(out)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), out)
            sys.stdout.flush()
        os.dup2(kept, out)
        os.close(kept)
        if error.errno not in (errno.EPIPE, errno.EINVAL):  # Windows says EINVAL
            raise OutputError("the output cannot be written") from error


def printed(tool: str, text: str) -> int:
    """Says a text; gives the exit code: 0, or 2 after a line that it cannot be written."""
    try:
        say(text)
    except OutputError as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return error.code
    return 0
