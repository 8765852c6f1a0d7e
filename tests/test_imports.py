"""Imports form a star, and importing threadloader imports no framework."""

import ast
from pathlib import Path

import threadloader

PACKAGE = Path(threadloader.__file__).parent
ARROWS = {("config", "_schema"), ("engine", "_runtime"), ("samplers", "order")}
"""The only ways between rooms, beside those of `loader`, which knows them all."""
OUTSIDE = {"__init__", "__main__", "_tried", "bench", "cli", "lookup", "verify"}
"""What sits on top: the public names and the commands."""
FRAMEWORKS = {"torch", "jax", "tensorflow", "keras", "PIL", "tqdm", "sklearn", "pandas", "mpi4py"}


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
    rooms = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__"} - OUTSIDE
    ways = {
        (room, target)
        for room, target, ours, _ in imports()
        if ours and room not in OUTSIDE | {"loader"} and target in rooms - {room, "errors"}
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


def test_importing_threadloader_imports_no_module_that_only_trouble_needs(run_child):
    """A fifth of the time that the package takes."""
    child = run_child(
        "import sys, numpy\n"
        "before = set(sys.modules)\n"
        "import threadloader\n"
        "trouble = {'logging', 'numpy.typing', 'signal', 'traceback'}\n"
        "print(sorted(trouble & (set(sys.modules) - before)))\n"
    )
    assert ("[]", "") == (child.stdout.strip(), child.stderr)


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


def test_the_public_names_are_there_and_explained():
    """Everything exported exists, is found by `dir`, and has a docstring of its own."""
    assert set(threadloader.__all__) <= set(dir(threadloader))
    for name in threadloader.__all__:
        assert getattr(threadloader, name).__doc__
