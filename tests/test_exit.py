"""A program that forgot to close still ends, at once and without a word.

Seen in child interpreters, but for the steps of a hook and of a close.
"""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from threadloader import Batches, Loader, _runtime
from threadloader._runtime import RUNTIME, Runtime
from threadloader.engine import Engine, Inline
from threadloader.loader import _open_runs

BEGIN = """
import atexit, gc, os, signal, sys, threading, time, warnings
import numpy as np
from threadloader import Loader, ClosedError

class Numbers:
    def __init__(self, n, wait=0.0):
        self.n, self.wait = n, wait
    def __len__(self):
        return self.n
    def __getitem__(self, index):
        if self.wait:
            time.sleep(self.wait)
        return index

def opened(n=1000, wait=0.0, **config):
    config = {"batch_size": 2, "num_workers": 3, "shuffle": False, **config}
    loader = Loader(config, Numbers(n, wait))
    return loader, loader.__enter__()

def ours():
    return [thread for thread in threading.enumerate() if "threadloader" in thread.name]
"""

STUCK = """
class Stuck(Numbers):
    def __getitem__(self, index):
        inside.set(); time.sleep(600)
inside = threading.Event()
with Loader({'num_workers': 1, 'close_timeout': 0.1}, Stuck(4)) as batches:
    iter(batches); inside.wait(30)
print('left')
"""
"""A worker that never comes back, and a ``with`` that is left all the same."""

TOPOLOGIES = {
    "never iterated, in a global": "loader, batches = opened()",
    "in the middle of an epoch": "loader, batches = opened(); epoch = iter(batches); next(epoch)",
    "workers in slow reads": "loader, batches = opened(wait=0.05); epoch = iter(batches)",
    "in a cycle": "loader, batches = opened(); cycle = [batches]; cycle.append(cycle); del batches",
    "in an attribute of a module": "sys.loader, sys.batches = opened(); next(iter(sys.batches))",
    "in a frame of a daemon thread": (
        "def run():\n"
        "    loader, batches = opened()\n"
        "    for batch in batches:\n"
        "        ready.set(); time.sleep(60)\n"
        "ready = threading.Event()\n"
        "threading.Thread(target=run, daemon=True).start()\n"
        "ready.wait(30)"
    ),
    "left by sys.exit inside the with": (
        "with Loader({'num_workers': 2}, Numbers(50)) as batches:\n"
        "    for batch in batches:\n"
        "        sys.exit(0)"
    ),
    "closed in an exit hook of the program": (
        "loader, batches = opened(); next(iter(batches)); atexit.register(batches.close)"
    ),
    "used in an exit hook of the program": (
        "loader, batches = opened()\natexit.register(lambda: print(next(iter(batches)).tolist()))"
    ),
    "without workers": "loader, batches = opened(num_workers=0); next(iter(batches))",
}


@pytest.mark.parametrize("body", TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_an_open_loader_does_not_keep_the_interpreter(run_child, body):
    """Exit code 0, nothing on stderr, and well within the bound."""
    child = run_child(BEGIN + body, timeout=30)
    assert (0, "") == (child.returncode, child.stderr)


LOOP = """
ready = threading.Event()
def run():
    loader, batches = opened(num_workers=int(sys.argv[1]))
    for epoch in batches.epochs():
        over(epoch)
def over(epoch):
    for batch in epoch:
        ready.set()
"""


@pytest.mark.parametrize("target", ["run", "over, args=(given,)"], ids=["own", "given"])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_daemon_thread_in_a_loop_has_ended_when_the_interpreter_goes_down(
    run_child, workers, target
):
    """One that prints its `ClosedError` then may hold the lock of stderr, and Python aborts."""
    child = run_child(
        "import atexit\n"
        "atexit.register(lambda: print(thread.is_alive()))\n"  # before ours: it comes after it
        f"{BEGIN}{LOOP}"
        "def printing(told):\n"
        "    assert told.exc_type is ClosedError\n"
        "    time.sleep(0.1)\n"  # as long as a slow terminal takes
        "threading.excepthook = printing\n"
        "from threadloader.loader import _open_runs\n"
        "_open_runs.PATIENCE_SECONDS = 30\n"
        "loader, batches = opened(n=10**9, num_workers=int(sys.argv[1]))\n"
        "given = iter(batches)\n"
        f"thread = threading.Thread(target={target}, daemon=True)\n"
        "thread.start()\n"
        "ready.wait(30)\n",
        workers,
    )
    assert (0, "False\n", "") == (child.returncode, child.stdout, child.stderr)


@pytest.mark.parametrize("workers", [0, 2])
def test_who_asks_for_a_batch_is_waited_for_also_where_it_lay_ready(workers):
    """As behind another thread, which has asked for the first of many that were made at once."""
    with Loader({"batch_size": 2, "num_workers": workers}, np.arange(4000.0)) as batches:
        epoch = iter(batches)
        for _ in range(40):  # groups begin small
            next(epoch)
        thread = threading.Thread(target=next, args=(epoch,))
        thread.start()
        thread.join()
        assert thread.ident == batches._run.looping


def test_a_daemon_thread_that_python_did_not_start_is_not_waited_for(run_child):
    """It cannot be."""
    child = run_child(
        f"{BEGIN}{LOOP}"
        "import _thread\n"
        "def named():\n"
        "    threading.current_thread()\n"
        "    try: run()\n"
        "    except ClosedError: threading.Event().wait()\n"
        "_thread.start_new_thread(named, ())\n"
        "ready.wait(30)\n",
        "2",
    )
    assert (0, "", "") == (child.returncode, child.stdout, child.stderr)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_is_made_by_the_last_finalizers_is_refused(run_child, workers):
    """No module can be imported by then, no file of a package read, and no thread started."""
    child = run_child(
        "from threadloader import ClosedError, Loader\n"
        "class Last:\n"
        "    def __del__(self):\n"
        f"        try: Loader({{'num_workers': {workers}}}, [1])\n"
        "        except ClosedError as error: print(error)\n"
        "last = Last()\n",
        timeout=60,
    )
    said = "a Loader cannot be made while the interpreter shuts down\n"
    assert (0, said, "") == (child.returncode, child.stdout, child.stderr)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_python_closes_when_it_has_emptied_the_modules_says_nothing(monkeypatch, workers):
    """As the last generator of a program on CPython 3.13t, over a loader that is open."""
    loader = Loader({"batch_size": 2, "num_workers": workers}, range(8))
    batches = loader.__enter__()
    epoch = iter(batches)
    next(epoch)
    batches._supply.engine.stop()  # as the hook at the interpreter's end has done
    ours = [vars(module) for name, module in sys.modules.items() if "threadloader" in name]
    with monkeypatch.context() as patch:
        for names in ours:
            for name in [name for name in names if not name.startswith("__")]:
                patch.setitem(names, name, None)
        epoch.close()
        batches.close()
        loader.__exit__(None, None, None)
    loader.__exit__(None, None, None)


def test_a_worker_that_never_returns_does_not_keep_the_interpreter(run_child):
    """The log says which sample it is at, within close_timeout."""
    child = run_child(BEGIN + STUCK, timeout=30)
    assert (0, "left\n") == (child.returncode, child.stdout)
    assert "threadloader-worker-0 has not ended within 0.1 s" in child.stderr
    assert "it is at sample" in child.stderr


def test_a_log_that_cannot_be_written_does_not_come_out_of_the_with(run_child):
    """As where stderr is closed, to which a program without handlers logs."""
    child = run_child(BEGIN + "sys.stderr.close()\n" + STUCK, timeout=30)
    assert (0, "left\n") == (child.returncode, child.stdout)


def test_a_dropped_loader_warns_and_its_threads_end(run_child):
    """Nobody waits in a finalizer: the feeder says it, and is gone soon after."""
    child = run_child(
        BEGIN + "loader, batches = opened()\n"
        "next(iter(batches))\n"
        "threads = ours()\n"
        "del loader, batches; gc.collect()\n"
        "for thread in threads: thread.join(30)\n"
        "print(len(threads), sum(thread.is_alive() for thread in threads))\n",
        flags=("-W", "always::ResourceWarning"),
        timeout=60,
    )
    assert "4 0\n" == child.stdout
    told = "ResourceWarning: a loader was dropped without being closed; use `with Loader(...)"
    assert told in child.stderr


def test_a_dropped_loader_s_warning_that_is_an_error_is_told_as_that_of_a_file(run_child):
    """`sys.unraisablehook` has it, and no thread is said to have failed."""
    child = run_child(
        BEGIN + "told = []\n"
        "sys.unraisablehook = lambda args: told.append(args.exc_type.__name__)\n"
        "threading.excepthook = lambda args: told.append('a thread has failed')\n"
        "loader, batches = opened()\n"
        "next(iter(batches))\n"
        "threads = ours()\n"
        "del loader, batches; gc.collect()\n"
        "for thread in threads: thread.join(30)\n"
        "print(len(threads), sum(thread.is_alive() for thread in threads), told)\n",
        flags=("-W", "error"),
        timeout=60,
    )
    assert ("4 0 ['ResourceWarning']\n", "") == (child.stdout, child.stderr)


def test_what_is_open_at_the_exit_is_closed_and_not_told_as_dropped(run_child):
    """Its feeder's last word is waited for in the hook that is called behind all others."""
    first = "import atexit; atexit.register(lambda: [thread.join(30) for thread in threads])\n"
    child = run_child(
        first + BEGIN + "loader, batches = opened()\n"
        "next(iter(batches))\n"
        "threads = ours()\n"
        "print(len(threads))\n",
        flags=("-W", "always::ResourceWarning"),
        timeout=60,
    )
    assert ("4\n", "") == (child.stdout, child.stderr)


CLOSING = """
from threadloader import per_thread

class Closing(Numbers):
    def close(self):
        print("closed", os.getpid() == parent, flush=True)
        if self.n == 6:
            raise ValueError("my own")

def open_loader(n, **config):
    loader = Loader({"batch_size": 2, **config}, per_thread(lambda: Closing(n)))
    batches = loader.__enter__()
    next(iter(batches))
    return loader, batches

parent = os.getpid()
"""
"""Sources that say when they are closed, and by which process."""


@pytest.mark.parametrize("workers", [0, 1])
def test_the_source_of_what_is_open_at_the_exit_is_closed(run_child, workers):
    """Each object of it: that of the thread which entered, and those of the workers."""
    child = run_child(
        BEGIN + CLOSING + f"kept = open_loader(8, num_workers={workers})\n", timeout=60
    )
    assert (0, ["closed True"] * (1 + workers)) == (child.returncode, child.stdout.splitlines())
    assert not child.stderr


def test_a_close_that_fails_at_the_exit_is_told_and_leaves_no_other_one_open(run_child):
    child = run_child(
        BEGIN + CLOSING + "kept = [open_loader(n, num_workers=0) for n in (6, 8)]\n", timeout=60
    )
    assert ["closed True"] * 2 == child.stdout.splitlines()
    assert "ValueError: my own" in child.stderr


def test_what_is_open_is_closed_before_the_packages_end_that_were_there_before_it(run_child):
    """A package that is imported after threadloader ends what its reads need, as zarr does."""
    child = run_child(
        BEGIN + CLOSING + "atexit.register(lambda: print('the package has ended'))\n"
        "kept = open_loader(8, num_workers=0)\n",
        timeout=60,
    )
    assert ["closed True", "the package has ended"] == child.stdout.splitlines()


def test_where_nothing_was_imported_no_exit_function_is_added():
    """Python counts those as well that were taken back."""
    counts = []
    for _ in range(3):  # the first imports what it needs
        with Loader({"num_workers": 0}, range(3)):
            counts.append(atexit._ncallbacks())
    assert counts[1] == counts[2]


def test_an_exit_function_that_an_interrupt_kept_out_is_registered_the_next_time(monkeypatch):
    registered = []

    def register(function):
        if not registered:
            registered.append("interrupted")
            raise KeyboardInterrupt
        registered.append(function)

    monkeypatch.setattr(_runtime, "_imported", 0)
    monkeypatch.setattr(_runtime, "_first", object)
    monkeypatch.setattr(atexit, "register", register)
    with pytest.raises(KeyboardInterrupt):
        RUNTIME.first_at_exit(print)
    RUNTIME.first_at_exit(print)
    assert ["interrupted", _runtime._first] == registered


def test_an_import_is_seen_behind_modules_that_were_taken_out(monkeypatch):
    """As by a helper that imports a package anew: there are fewer modules then than before."""
    registered = []
    monkeypatch.setattr(_runtime, "_imported", len(sys.modules) + 5)
    monkeypatch.setattr(_runtime, "_first", object)
    monkeypatch.setattr(atexit, "register", registered.append)
    RUNTIME.first_at_exit(print)
    assert [_runtime._first] == registered


def test_of_the_exit_functions_the_last_one_stays(run_child):
    child = run_child(
        "from threadloader import _runtime\n"
        "for _ in range(3):\n"
        "    _runtime._imported = 0\n"
        "    _runtime.RUNTIME.first_at_exit(lambda: print('called'))\n"
    )
    assert ("called\n", "") == (child.stdout, child.stderr)


def test_all_that_is_open_is_told_to_end_before_one_is_waited_for(monkeypatch):
    """So one bound is enough for them together."""
    monkeypatch.setattr(_open_runs, "_runs", {})
    steps = []
    for owner, name in ((Engine, "tell"), (Inline, "tell"), (Batches, "close")):
        done = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda self, name=name, done=done: (steps.append(name), done(self))
        )
    opened = [Loader({"num_workers": 1}, range(5)) for _ in range(2)]
    kept = [loader.__enter__() for loader in opened]
    _open_runs._close_all()
    assert [*["tell"] * 4, "close"] == steps[:5]  # each may have its threads make batches, or not
    for loader in opened:
        loader.__exit__(None, None, None)
    steps.clear()
    _open_runs._close_all()  # it is registered more than once
    assert (2, []) == (len(kept), steps)


def test_what_is_stuck_without_workers_is_waited_for_once_at_the_end(monkeypatch):
    monkeypatch.setattr(_open_runs, "_runs", {})
    monkeypatch.setattr(_open_runs, "PATIENCE_SECONDS", 0.01)
    reads, go_on = threading.Event(), threading.Event()

    class Stuck(list):
        def __getitem__(self, index):
            reads.set()
            assert go_on.wait(60)
            return index

    loader = Loader({"num_workers": 0, "close_timeout": 0.01}, Stuck(range(4)))
    batches = loader.__enter__()
    thread = threading.Thread(target=lambda: next(iter(batches), None), daemon=True)
    thread.start()
    assert reads.wait(60)
    bounds, wait = [], Runtime.wait
    monkeypatch.setattr(
        Runtime, "wait", lambda self, lock, bound: bounds.append(bound) or wait(self, lock, bound)
    )
    _open_runs._close_all()
    known = bounds.copy()
    _open_runs._close_all()  # it is registered more than once
    assert (False, True, known) == (batches._ended, bounds[0] > 0, bounds)
    assert [batches] == _open_runs._held()  # for a fork
    go_on.set()
    thread.join()


@pytest.mark.parametrize(("raises", "closes"), [(OSError, 1), (KeyboardInterrupt, 2)])
def test_the_programs_end_closes_again_only_what_an_interrupt_cut_short(
    raises, closes, monkeypatch
):
    monkeypatch.setattr(_open_runs, "_runs", {})
    monkeypatch.setattr(_open_runs, "from_signal", lambda error: raises is KeyboardInterrupt)
    calls = []

    def close(batches):
        calls.append(batches)
        raise raises

    loader = Loader({"num_workers": 0}, range(4))
    with loader as batches:
        monkeypatch.setattr(Batches, "close", close)
        for _ in range(2):
            with suppress(raises):
                _open_runs._close_all()
        monkeypatch.undo()
    assert [batches] * closes == calls


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_that_ends_leaves_what_is_open_to_its_parent(run_child):
    child = run_child(
        BEGIN + CLOSING + "kept = open_loader(8, num_workers=0)\n"
        "if not (pid := os.fork()):\n"
        "    sys.exit()\n"
        "os.waitpid(pid, 0)\n"
        "print('ended')\n",
        timeout=60,
    )
    assert ["ended", "closed True"] == child.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("workers", [0, 3])
def test_a_forked_child_is_refused_and_can_exit(run_child, workers):
    """It has none of the threads: next raises, close does not wait, and the parent goes on."""
    child = run_child(
        BEGIN + f"loader, batches = opened(num_workers={workers})\n"
        "epoch = iter(batches)\n"
        "first = next(epoch).tolist()\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        next(epoch)\n"
        "    except ClosedError:\n"
        f"        code = 7 if {workers} else 8\n"
        "    else:\n"
        f"        code = 8 if {workers} else 7\n"
        "    loader.__exit__(None, None, None)\n"
        "    sys.exit(code)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(os.waitstatus_to_exitcode(status), first, next(epoch).tolist())\n"
        "loader.__exit__(None, None, None)\n",
        timeout=60,
    )
    assert ("7 [0, 1] [2, 3]\n", "") == (child.stdout, child.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_ends_at_once_though_the_system_gives_it_the_number_of_its_ancestor(run_child):
    """As it may when that has ended. Here it is the parent's, by which it would know its engine."""
    child = run_child(
        BEGIN + "loader, batches = opened(close_timeout=0.1)\n"
        "next(iter(batches))\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "number, pid = os.getpid(), os.fork()\n"
        "if pid == 0:\n"
        "    os.getpid = lambda: number\n"
        "    sys.exit(7)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(os.waitstatus_to_exitcode(status))\n",
        timeout=60,
    )
    assert ("7\n", "") == (child.stdout, child.stderr)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Ctrl-C is sent in another way there")
def test_ctrl_c_ends_a_program_with_one_traceback_and_no_noise(run_child):
    """The loop's KeyboardInterrupt is all that is seen."""
    child = run_child(
        BEGIN + "with Loader({'num_workers': 2}, Numbers(100, 0.001)) as batches:\n"
        "    for batch in batches:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(30)\n",
        timeout=30,
    )
    assert -signal.SIGINT == child.returncode
    assert 1 == child.stderr.count("Traceback")
    assert child.stderr.rstrip().endswith("KeyboardInterrupt")
