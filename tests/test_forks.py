"""A process that forks while a run is open in it: what the child has of that run.

The child has one thread, the one that forked. What the others held is held there for ever, unless
the run leaves it behind; an alarm ends a child that waits for it.
"""

import gc
import os

import numpy as np
import pytest

from threadloader import Loader
from threadloader.loader import _open_runs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

FORKING = """
import multiprocessing, os, signal, sys, threading, warnings
import numpy as np
from threadloader import BusyError, Loader

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads

def forked(work):
    \"\"\"Does something in a fork, and prints what it gives, or how it ended.\"\"\"
    sys.stdout.flush()
    if not (child := os.fork()):
        signal.alarm(20)
        try:
            print(work(), flush=True)
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        print("ended with", os.waitstatus_to_exitcode(status))

class Gate:
    \"\"\"Stops one thread.\"\"\"

    def __init__(self):
        self.begun, self.go_on, self.whom = threading.Event(), threading.Event(), None

    def __call__(self):
        if threading.current_thread() is self.whom:
            self.begun.set()
            self.go_on.wait()

    def start(self, work):
        self.whom = threading.Thread(target=work)
        self.whom.start()
        self.begun.wait()

    def end(self):
        self.go_on.set()
        self.whom.join()

class Source:
    \"\"\"Eight numbers; a read of one may stop at the gate.\"\"\"

    def __len__(self):
        return 8

    def __getitem__(self, index):
        gate()
        return index

def rest():
    return [batch.tolist() for batch in epoch]

gate = Gate()
PLAIN = {"batch_size": 2, "num_workers": 0, "shuffle": False}
"""


@pytest.fixture
def in_forks(run_child):
    """Gives a function that runs a script in which `forked` works, and gives what it prints."""

    def run(script, *args):
        child = run_child(FORKING + script, *args)
        assert ("", 0) == (child.stderr, child.returncode)
        return child.stdout.splitlines()

    return run


ALL = "[[0, 1], [2, 3], [4, 5], [6, 7]]"


def test_two_threads_of_a_fork_are_not_inside_next_at_once(in_forks):
    """Neither of a fork of that; the second one is refused, and no batch comes twice."""
    assert ["BusyError [[0, 1], [2, 3], [4, 5], [6, 7]]"] * 2 == in_forks("""
def child():
    got = []
    gate.start(lambda: got.append(next(epoch).tolist()))
    try:
        print(next(epoch))
    except BusyError:
        said = "BusyError"
    gate.end()
    return f"{said} {got + rest()}"

def grandchild():
    forked(child)
    return child()

with Loader(PLAIN, Source()) as batches:
    epoch = iter(batches)
    forked(grandchild)
""")


def test_in_a_fork_nobody_waits_for_a_batch_any_more(in_forks):
    """What was waited for in another thread does not go on to count."""
    assert ["True"] == in_forks("""
def child():
    before = batches.stats()
    while batches.stats().elapsed_seconds < before.elapsed_seconds + 0.01:
        pass
    return before.data_wait_seconds == batches.stats().data_wait_seconds

with Loader(PLAIN, Source()) as batches:
    epoch = iter(batches)
    next(epoch), batches.stats()
    gate.start(lambda: next(epoch))
    forked(child)
    gate.end()
""")


def test_what_the_first_batch_needs_is_imported_before_it_is_made(in_forks):
    """A fork meanwhile would leave the lock of an import behind, which Python does not renew."""
    assert ["set()"] == in_forks("""
class Kept(Source):
    def __getitem__(self, index):
        there.update(sys.modules)
        return index

there = set()
with Loader({**PLAIN, "on_error": {"skip": 3, "retry": 1}}, Kept()) as batches:
    before = set(sys.modules)
    next(iter(batches))
print({name for name in there - before if name.startswith("threadloader")})
""")


def test_what_a_sample_that_is_left_out_needs_is_imported_before_it_is_read(in_forks, tmp_path):
    """Its exception is put into words, with its line, and it is listed in a file."""
    script = """
class Bad(Source):
    def __getitem__(self, index):
        return 1 // (index - 3)

options = {"skip": 1, "quarantine": sys.argv[1]}
with Loader({**PLAIN, "on_error": options}, Bad()) as batches:
    before = set(sys.modules)
    print([len(batch) for batch in batches], set(sys.modules) - before)
"""
    assert ["[2, 1, 2, 2] set()"] == in_forks(script, str(tmp_path / "bad.jsonl"))


def test_a_fork_of_a_fork_goes_on_though_another_thread_was_in_next(in_forks):
    """That thread is one of the fork; in it the first batch has been delivered."""
    assert ["[[2, 3], [4, 5], [6, 7]]", ALL] == in_forks("""
def child():
    first = next(epoch).tolist()
    got = []
    gate.start(lambda: got.append(next(epoch).tolist()))
    forked(rest)
    gate.end()
    return [first, *got, *rest()]

with Loader(PLAIN, Source()) as batches:
    epoch = iter(batches)
    forked(child)
""")


def test_a_process_of_multiprocessing_goes_on_though_another_thread_was_in_next(in_forks):
    assert [ALL, "0"] == in_forks("""
def child():
    signal.alarm(20)
    print(rest(), flush=True)

with Loader(PLAIN, Source()) as batches:
    epoch = iter(batches)
    gate.start(lambda: next(epoch))
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    gate.end()
    print(process.exitcode)
""")


def test_who_forks_within_next_goes_on_in_both_processes(in_forks):
    """And in the child, too, no other thread gets into it meanwhile."""
    assert ["BusyError", f"child {ALL}", f"parent {ALL}"] == in_forks("""
class Forks(Source):
    child = None

    def __getitem__(self, index):
        if index == 2 and self.child is None:
            self.child = os.fork()
            if self.child:
                os.waitpid(self.child, 0)
            else:
                signal.alarm(20)
                other = threading.Thread(target=ask)
                other.start()
                other.join()
        return index

def ask():
    try:
        next(epoch)
    except BusyError:
        print("BusyError", flush=True)

source = Forks()
with Loader(PLAIN, source) as batches:
    epoch = iter(batches)
    got = rest()
    print("parent" if source.child else "child", got, flush=True)
""")


def test_a_fork_makes_anew_what_another_thread_was_making(in_forks):
    """That thread was about to add the memory of a batch, for which it has a lock."""
    assert ["[[0, 1], [2, 3]]"] == in_forks("""
def slow(*args, real=np.zeros):
    gate()
    return real(*args)

with Loader(PLAIN, [np.full(50000, number) for number in range(4)]) as batches:
    epoch = iter(batches)
    np.zeros = slow
    gate.start(lambda: next(epoch))
    forked(lambda: [batch[:, 0].tolist() for batch in epoch])
    gate.end()
""")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fork_closes_what_another_thread_was_reading(in_forks, workers):
    """Nobody comes there behind the read. With workers: where the loop makes its batches itself."""
    assert ["closed"] == in_forks(
        """
workers = int(sys.argv[1])
with Loader({**PLAIN, "num_workers": workers}, Source()) as batches:
    if workers:
        batches._supply.choice.here = True
    epoch, closed = iter(batches), []
    batches._close_source = lambda: closed.append("closed")
    gate.start(lambda: next(epoch))
    forked(lambda: batches.close() or "".join(closed))
    gate.end()
""",
        str(workers),
    )


def test_a_fork_closes_what_another_thread_was_closing(in_forks):
    assert ["closed"] == in_forks("""
def closing():
    gate()
    closed.append("closed")

with Loader(PLAIN, Source()) as batches:
    closed = []
    batches._close_source = closing
    gate.start(batches.close)
    forked(lambda: batches.close() or "".join(closed))
    gate.end()
""")


def test_a_forked_child_saves_though_another_thread_was_saving(in_forks):
    assert ["saved"] == in_forks("""
def child():
    batches._write = lambda *args, **options: saved.append("saved")
    batches.save("run.state")
    return "".join(saved)

with Loader(PLAIN, Source()) as batches:
    saved = []
    batches._write = lambda *args, **options: gate()
    gate.start(lambda: batches.save("run.state"))
    forked(child)
    gate.end()
""")


def test_a_fork_by_a_worker_closes_what_was_opened(in_forks):
    """It waits for none of the workers, of which it is the only one that is left."""
    assert ["closed"] == in_forks("""
class Forks(Source):
    def __getitem__(self, index):
        if index == 0:
            forked(lambda: batches.close() or "".join(closed))
        return index

with Loader({**PLAIN, "num_workers": 2, "num_epochs": 1}, Forks()) as batches:
    closed = []
    batches._close_source = lambda: closed.append("closed")
    list(batches)
""")


FORKED_INSIDE = """
import os, signal, sys, warnings
from threadloader import Loader

warnings.simplefilter("ignore")

def leave(sample):
    if not (child := os.fork()):
        signal.alarm(20)
        {how}
        return sample
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return sample

def once(epoch, n):
    return [leave(0)] if epoch == 0 else []

def same(samples):
    return leave(samples)

config = {{"batch_size": 1, "num_workers": 2, "num_epochs": 1, "shuffle": False}}
with Loader(config, [False], {where}) as batches:
    for epoch in batches.epochs():
        print(list(epoch))
"""


@pytest.mark.parametrize("how", ["sys.exit(3)", "raise GeneratorExit", "pass"])
@pytest.mark.parametrize("where", ["transform=leave", "collate=same", "sampler=once"])
def test_a_fork_by_a_thread_of_the_loader_ends_as_its_code_does(where, how, run_child):
    """It has no other thread, and once waited for the next job for ever."""
    child = run_child(FORKED_INSIDE.format(where=where, how=how))
    lines = child.stdout.splitlines()
    assert "ended with 0" == lines[0], child.stderr
    # As of any thread that ends so.
    assert ("GeneratorExit" in child.stderr) == (how == "raise GeneratorExit")
    assert ("[[False]]" if where == "collate=same" else "[array([False])]") == lines[-1]


FORKED_WHILE_STOPPING = """
import os, signal, threading, time, warnings
from threadloader import Loader
from threadloader.engine import _engine

warnings.simplefilter("ignore")
inside, asked, release = threading.Event(), threading.Event(), threading.Event()

def sampler(epoch, n):
    if epoch:
        asked.set()
        release.wait()
    return [0]

def leave(sample):
    inside.set()
    while _engine._running:  # until it waits for the feeder
        time.sleep(0)
    if not (child := os.fork()):
        signal.alarm(20)
        return sample
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    release.set()
    return sample

config = {"batch_size": 1, "num_workers": 2, "shuffle": False, "close_timeout": 60}
with Loader(config, [False], transform=leave, sampler=sampler) as batches:
    iter(batches)
    inside.wait()
    asked.wait()
"""


def test_a_fork_by_a_worker_that_is_being_stopped_ends(run_child):
    """A stop had forgotten the engine by then, so that the child never learned what it was."""
    child = run_child(FORKED_WHILE_STOPPING)
    assert (child.stdout, child.stderr) == ("ended with 0\n", "")


FORKED_BY_A_HANDLER = """
import os, signal, sys, threading, time, warnings
from threadloader import ClosedError, Loader
from threadloader._runtime import Runtime
from threadloader.engine import _feeder, _watch

warnings.simplefilter("ignore")
main, parent, release = threading.main_thread().ident, os.getpid(), threading.Event()

def fork(number, frame):
    if not os.fork():
        signal.alarm(20)  # ends a child that waits

def poke():
    waits = Runtime.wait.__code__
    while sys._current_frames()[main].f_code is not waits:
        time.sleep(0)
    signal.pthread_kill(main, signal.SIGUSR1)
    child = 0
    while not child:
        try:
            child, status = os.wait()
        except ChildProcessError:  # the handler has not run yet
            time.sleep(0)
    print("ended with", os.waitstatus_to_exitcode(status), flush=True)
    release.set()

def held(sample):
    inside.set()
    release.wait()
    return sample

def start_late(shared, start=_feeder._start_workers):
    if where == "entered":
        release.wait()
    start(shared)

where, inside = sys.argv[1], threading.Event()
signal.signal(signal.SIGUSR1, fork)
_feeder._start_workers, _watch.LONGEST_TICK = start_late, 600
poking = threading.Thread(target=poke)
config = {"batch_size": 1, "num_workers": 1, "close_timeout": 60, "stall_seconds": 86400}
loader = Loader(config, [False], transform=held)
try:
    if where == "entered":
        poking.start()
    with loader as batches:
        epoch = iter(batches)
        if where == "asked":
            poking.start()
            next(epoch)
        elif where == "left":
            inside.wait()
            poking.start()
    told = "no error"
except ClosedError as error:
    told = type(error).__name__
if os.getpid() != parent:
    print(told, flush=True)
    os._exit(0)
poking.join()
"""


@pytest.mark.parametrize(
    ("where", "told"), [("entered", "ClosedError"), ("asked", "ClosedError"), ("left", "no error")]
)
def test_a_child_that_a_handler_forks_from_a_wait_waits_no_more(where, told, run_child):
    """The threads that would end the wait are its parent's: it once waited for its whole bound."""
    child = run_child(FORKED_BY_A_HANDLER, where)
    assert (f"{told}\nended with 0\n", "") == (child.stdout, child.stderr)


def test_a_run_that_is_dropped_is_forgotten():
    """What is done in forks keeps none alive."""
    with Loader({"num_workers": 0}, np.arange(4)) as batches:
        (there,) = [there for there in _open_runs._runs if there() is batches]
    del batches
    gc.collect()
    assert (None, False) == (there(), there in _open_runs._runs)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_was_open_at_the_fork_says_so_when_it_is_entered(in_forks, workers):
    """And a copy of it, as the message has it, may be entered."""
    refused, copied = in_forks(
        """
import copy

def child():
    try:
        loader.__enter__()
    except BusyError as error:
        print(error)
    with copy.copy(loader) as batches:
        return [batch.tolist() for batch in batches]

loader = Loader({**PLAIN, "num_workers": int(sys.argv[1])}, list(range(8)))
with loader:
    forked(child)
""",
        str(workers),
    )
    assert "was open when this process was forked" in refused
    assert "copy.copy(loader)" in refused
    assert ALL == copied
