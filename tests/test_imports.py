"""Imports form a star; few are needed, none of a framework, and none for a loop to go on."""

import ast
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import threadloader

PACKAGE = Path(threadloader.__file__).parent
ARROWS = {("config", "_schema"), ("engine", "_runtime"), ("samplers", "order")}
"""The only ways between rooms, beside those of `loader`, which knows them all."""
OUTSIDE = {"__init__", "__main__", "_children", "_command_line", "_dry_run", "_first_batch"}
OUTSIDE |= {"_messages", "bench", "cli", "lookup", "verify"}
"""What sits on top: the public names and the commands. Nothing below imports it."""
FRAMEWORKS = {"torch", "jax", "tensorflow", "keras", "PIL", "tqdm", "sklearn", "pandas", "mpi4py"}

NEEDED = {
    "bisect": "the line of a problem in a config",
    "contextlib": "files of a config",
    "contextvars": "a transform without workers finds a context as empty as in a thread",
    "copy": "the config that a loader shows is the reader's own",
    "dataclasses": "the config",
    "inspect": "what a transform or source can be asked for",
    "json": "the schema",
    "opcode": "whether a signal handler raised an error",
    "queue": "between threads",
    "threading": "workers",
    "typing": "named tuples",
    "weakref": "a loader that is dropped",
}
"""Modules of the standard library that importing threadloader may import, and what for. Which
of them numpy brings depends on its version."""
if not (find_spec("_blake2") and (find_spec("_sha2") or find_spec("_sha256"))):
    NEEDED["hashlib"] = "a Python that was built without hashes of its own"


def imports():
    """Lists (room, imported room or package, file) for every import in the package."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        room = parts[0]
        package = ("threadloader", *parts[:-1])
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name.split(".") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = list(package[: len(package) - node.level + 1]) if node.level else []
                base += node.module.split(".") if node.module else []
                targets = [[*base, alias.name] for alias in node.names]
            else:
                continue
            for target in targets:
                ours = target[0] == "threadloader" and len(target) > 1
                found.append((room, target[1] if ours else target[0], ours, file.name))
    return found


def test_rooms_know_errors_and_not_each_other():
    stems = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    ways = {
        (room, target)
        for room, target, ours, _ in imports()
        if ours and room not in OUTSIDE | {"loader"} and target in stems - {room, "errors"}
    }
    assert set() == ways - ARROWS


def test_only_the_commands_know_the_loader():
    users = {room for room, target, ours, _ in imports() if ours and target == "loader"}
    assert users <= OUTSIDE | {"loader"}


def test_only_adapters_import_a_framework():
    assert set() == {
        (room, target)
        for room, target, ours, _ in imports()
        if not ours and target in FRAMEWORKS and room != "adapters"
    }


def test_importing_threadloader_imports_no_framework(run_child):
    child = run_child(
        f"import sys, threadloader\nprint(sorted(set({sorted(FRAMEWORKS)!r}) & set(sys.modules)))\n"
    )
    assert ("[]", "") == (child.stdout.strip(), child.stderr)


def test_importing_threadloader_leaves_out_what_few_need(run_child):
    """Rooms that an option, a name or a command asks for come with that."""
    rooms = ("bench", "cache", "cli", "fingerprint", "masking", "quarantine", "verify")
    child = run_child(
        "import sys, threadloader\n"
        f"print([room for room in {rooms} if 'threadloader.' + room in sys.modules])\n"
        "print(threadloader.MaskTokens.__name__)\n"
    )
    assert (["[]", "MaskTokens"], "") == (child.stdout.split("\n")[:2], child.stderr)


def test_importing_threadloader_imports_only_what_a_loader_needs(run_child):
    """Over numpy, those of `NEEDED` and what they bring; what the interpreter has built in is free.

    `logging`, `signal` and `traceback` once took a fifth of the time that the package takes.
    """
    child = run_child(
        "import sys, numpy\n"
        "before = set(sys.modules)\n"
        "import threadloader\n"
        "added = set(sys.modules) - before\n"
        "print(*added - set(sys.builtin_module_names))\n"
    )
    needed = run_child(f"import sys, numpy, {', '.join(NEEDED)}\nprint(*sys.modules)\n")
    assert ("", "") == (child.stderr, needed.stderr)
    more = set(child.stdout.split()) - set(needed.stdout.split())
    # Modules with an underscore are those of others: each version has its own.
    private = {name for name in more if any(part[0] == "_" for part in name.split("."))}
    ours = {name for name in more if name.partition(".")[0] == "threadloader"}
    assert "threadloader" in ours
    assert set() == more - private - ours


def test_a_loader_of_arrays_imports_nothing_more_of_numpy(run_child):
    """Newer numpy has parts that come when they are touched: `numpy.ma` is 1.2 MiB.

    Nor OpenSSL, which `hashlib` loads, not even for a state.
    """
    child = run_child(
        "import sys, numpy, threadloader\n"
        "before = set(sys.modules)\n"
        "with threadloader.Loader({'batch_size': 2}, source=numpy.arange(4)) as batches:\n"
        "    list(batches)\n"
        "    batches.state_dict()\n"
        "more = set(sys.modules) - before\n"
        "print([name for name in more if 'numpy' in name or name == '_hashlib'])\n"
    )
    assert ("[]", "") == (child.stdout.strip(), child.stderr)


@pytest.mark.parametrize("kind", ["text", "jsonl", "csv", "npy"])
def test_a_loader_of_files_does_not_import_openssl(run_child, tmp_path, kind):
    """The index of lines that is kept in a file needs it: not one that is kept in memory."""
    file = tmp_path / f"x.{kind}"
    file.write_text("[0]\n[1]\n", encoding="utf-8")
    if kind == "npy":
        np.save(file, np.arange(2))
    config = {"source": {"type": kind, "path": str(file)}, "batch_size": 1}
    child = run_child(
        "import sys, numpy, threadloader\n"
        f"with threadloader.Loader({config!r}) as batches:\n"
        "    print(len(list(batches)))\n"
        "print(*{'_hashlib', 'secrets', 'difflib'} & set(sys.modules))\n"
    )
    assert ("1" if kind == "csv" else "2", "", "") == (*child.stdout.split("\n")[:2], child.stderr)


def test_up_to_the_first_batch_no_module_of_others_is_imported(run_child):
    """`pathlib`, which is for files alone, once took a fifth of the time up to there."""
    child = run_child(
        "import sys, numpy, threadloader\n"
        "before = set(sys.modules)\n"
        "source = [{'x': numpy.zeros(2), 'index': index} for index in range(64)]\n"
        "for workers in (0, 2):\n"
        "    config = {'batch_size': 2, 'num_workers': workers}\n"
        "    with threadloader.Loader(config, source=source) as batches:\n"
        "        next(iter(batches))\n"
        "    more = set(sys.modules) - before\n"
        "    print([name for name in more if name.partition('.')[0] != 'threadloader'])\n"
    )
    assert (["[]", "[]"], "") == (child.stdout.splitlines(), child.stderr)


def test_between_two_epochs_nothing_is_imported(run_child):
    """Where each batch lay ready, what `stats` gives once took 2 ms of the gap."""
    child = run_child(
        "import sys, threading, numpy, threadloader\n"
        "made = threading.Semaphore(0)\n"
        "def collate(samples):\n"
        "    made.release()\n"
        "    return numpy.array(samples)\n"
        "config = {'batch_size': 2, 'num_workers': 1, 'prefetch_batches': 3}\n"
        "with threadloader.Loader(config, list(range(8)), collate=collate) as batches:\n"
        "    epoch = iter(batches)\n"
        "    next(epoch)\n"
        "    for _ in range(4):\n"
        "        made.acquire()\n"
        "    next(epoch)\n"
        "    known = set(sys.modules)\n"
        "    print(len(list(epoch)), len(next(iter(batches))))\n"
        "print(sorted(set(sys.modules) - known))\n"
    )
    assert ("2 2\n[]\n", "") == (child.stdout, child.stderr)


def test_what_stats_gives_is_imported_before_the_second_batch_of_a_run(run_child):
    """Of an epoch of its own, too: later it may be that nothing can be imported any more."""
    child = run_child(
        "import sys, threadloader\n"
        "with threadloader.Loader({'batch_size': 1}, [0, 1, 2]) as batches:\n"
        "    for _ in range(2):\n"
        "        next(iter(batches))\n"
        "        print('threadloader.stats._stats' in sys.modules)\n"
    )
    assert ("False\nTrue\n", "") == (child.stdout, child.stderr)


ANSWERS = """
import sys
import numpy as np
from threadloader import Loader

with Loader({"batch_size": 4, "num_workers": int(sys.argv[1])}, np.arange(12)) as batches:
    epoch = iter(batches)
    next(epoch), next(epoch)
    sys.meta_path.clear()
    print(batches.info.step, batches.stats().batches)
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_answers_is_there_with_the_second_batch(run_child, workers):
    """Later maybe no file can be opened, or a signal's handler asks in the middle of an import."""
    done = run_child(ANSWERS, workers)
    assert ("", "1 2\n") == (done.stderr, done.stdout)


NO_ANSWERS = """
import sys
import numpy as np
from threadloader import Loader

with Loader({"batch_size": 4}, np.arange(12)) as batches:
    finders, sys.meta_path[:] = sys.meta_path[:], []
    print(len(list(batches)))
    sys.meta_path[:] = finders
    print(batches.info.step)
"""


def test_a_loop_goes_on_where_nothing_can_be_imported(run_child):
    """No answer is worth a loop; it is imported when it is asked for."""
    done = run_child(NO_ANSWERS)
    assert ("", "3\n2\n") == (done.stderr, done.stdout)


def test_the_public_names_are_there_and_explained():
    """Everything exported exists, is found by `dir`, and has a docstring of its own."""
    assert set(threadloader.__all__) <= set(dir(threadloader))
    for name in threadloader.__all__:
        assert getattr(threadloader, name).__doc__
