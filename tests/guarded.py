"""A child interpreter that tries hostile inputs under an audit hook, and tells what it saw.

    python tests/guarded.py FOLDER [PLANTED]

Prints one line of JSON: how many inputs were refused, which were read, and the violations.
A hook cannot be taken away again, so this is a process of its own. PLANTED names a fault that
is put into the library first: a test of the hook.
"""

import contextlib
import json
import os
import resource
import stat
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = tuple(
    os.path.realpath(path)
    for path in {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(ROOT)}
)
SPARE = 512 << 20
"""Bytes of address space that hostile inputs may take beside what there is."""

NEVER = (
    *("socket.", "ctypes.", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn"),
    *("os.fork", "os.startfile", "pickle.", "code.__new__", "sqlite3.enable_load_extension"),
    *("sqlite3.load_extension", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser."),
    *("os.putenv", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "shutil."),
)
LISTED = {"os.scandir", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chdir"}
IMPORTS = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
PACKAGES = {*sys.stdlib_module_names, "numpy", "threadloader"} - {"antigravity", "this", "turtle"}


def within(path, folders):
    """Whether a path, links followed, lies in one of some folders."""
    real = os.path.realpath(os.fsdecode(path))
    return any(real == folder or real.startswith(folder + os.sep) for folder in folders)


def called_from(*names):
    """Whether one of the callers is a function of these files."""
    frame = sys._getframe(3)
    while frame is not None:
        if frame.f_code.co_filename.endswith(names):
            return True
        frame = frame.f_back
    return False


class Guard:
    """Watches; `saw` are the violations of the input that is tried."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.saw = None

    def __call__(self, event, args):
        saw = self.saw
        if saw is None:
            return
        self.saw = None  # what is asked here is not watched
        try:
            why = self.wrong(event, args)
        finally:
            self.saw = saw
        if why:
            saw.append(f"{event} {why}")

    def wrong(self, event, args):
        """Say what is wrong about an event; nothing where it may be."""
        if event.startswith(NEVER):
            return f"{args!r:.200}"
        if event == "import":
            return "" if args[0].partition(".")[0] in PACKAGES else args[0]
        if event == "exec":
            file = args[0].co_filename
            known = file.startswith("<frozen") or within(file, LIBRARIES)
            return "" if known or called_from("dataclasses.py") else file
        if event == "compile":
            # ast.parse only parses, for numpy's headers; were it run, that would be an exec.
            known = called_from(f"{os.sep}ast.py", "dataclasses.py", *IMPORTS)
            return "" if known else f"{args!r:.200}"
        if event == "marshal.loads":
            return "" if called_from(*IMPORTS) else "outside of an import"
        if event == "open":
            return self.wrong_open(args[0])
        if event == "sqlite3.connect":
            path = str(args[0]).removeprefix("file://").partition("?")[0]
            return "" if within(path, [self.folder]) else path
        if event in LISTED:
            bad = [path for path in args if isinstance(path, (str, bytes)) and path]
            known = [self.folder, *LIBRARIES] if called_from(*IMPORTS) else [self.folder]
            return "".join(str(path) for path in bad if not within(path, known))
        return ""

    def wrong_open(self, path):
        if isinstance(path, int):
            return ""
        with contextlib.suppress(OSError, ValueError):
            if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
                return f"{path}, no regular file"
        known = within(path, [self.folder, *LIBRARIES])
        return "" if known else os.fsdecode(path)


def bound_memory():
    """From here on a `MemoryError` is near."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    bound = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def attempt(config):
    """Do what a trainer does with a config: enter, take two batches; give what came of it."""
    from threadloader import Loader, LoaderError

    try:
        with Loader(config) as batches:
            for _, _ in zip(batches, range(2), strict=False):
                pass
    except (LoaderError, OSError):
        return "refused"
    except Exception as error:  # whatever an input does to its reader
        return f"raised {error!r:.300}"
    return "read"


def main(folder, planted=None):
    import hostile
    import unguarded

    guard = Guard(os.path.join(folder, "root"))
    attempts = hostile.inputs(Path(folder))
    # Everything is imported, and works, before anything is watched.
    for config in hostile.good(Path(folder)):
        assert attempt(config) == "read", config
    if planted:
        unguarded.PLANTED[planted]()
    sys.addaudithook(guard)
    bound_memory()
    count = {"refused": 0, "read": []}
    violations = []
    for name, config in attempts:
        guard.saw = saw = []
        came = attempt(config)
        guard.saw = None
        if came == "refused":
            count[came] += 1
        elif came == "read":
            count[came].append(name)
        else:
            saw.append(came)
        violations += [f"{name}: {each}" for each in dict.fromkeys(saw)]
        if planted and any(planted in each for each in saw):
            break  # it is heard of
    print(json.dumps({**count, "violations": violations}))


if __name__ == "__main__":
    main(*sys.argv[1:])
