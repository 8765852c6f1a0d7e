"""A program that ends with a loader left open, in many ways: what `ends` runs.

    python3 exits.py                                for each line of stdin, a fork that ends so
    python3 exits.py TOPOLOGY WORKERS STATE PAUSE   this process ends in that way

Each topology is a function: when it returns, the program comes to its end, in the main thread
and at the bottom of its stack. Its value in `CODES` is the exit code.
"""

import atexit
import contextlib
import contextvars
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
import weakref

from threadloader import ClosedError, Loader

HANG_SECONDS = 60.0
"""Until an end counts as a hang: first it shows its stacks, a little later it is killed."""
STATES = ("entered", "begun", "full", "reading", "ended")
CODES = {}
# CPython >= 3.12 says so on stderr where a process with threads forks, once in each place.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
held = []
pauses = []
module = globals()
local = threading.local()
variable = contextvars.ContextVar("variable")


class Numbers:
    """Sample i is i; a read takes so many seconds."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return index


STARTS_AT_EXIT = sys.version_info[:3] not in ((3, 12, 0), (3, 12, 1))
"""Whether an exit hook may start threads: these two versions refuse it (CPython's issue 113964)."""


KEEPS_NAMES = sys.version_info[:2] != (3, 13) or sys._is_gil_enabled()
"""Whether a finalizer at the very end finds the names of its own module: without the GIL that
version has emptied it by then."""


def topology(code=0, *, there=True):
    def add(function):
        if there:
            CODES[function.__name__] = code
        return function

    return add


def opened(workers, state, **config):
    """A loader that is open, in some state: what must be kept to keep it open.

    Then it is left to itself for the seconds of `pauses`, so that its threads are anywhere.
    """
    source = Numbers(0.02 if state == "reading" else 0.0)
    config = {"batch_size": 4, "num_workers": workers, "prefetch_batches": 3, **config}
    loader = Loader(config, source)
    batches = loader.__enter__()
    epoch = None
    if state != "entered":
        epoch = iter(batches)
    if state in ("begun", "full"):
        next(epoch)
    if state == "full" and workers:
        while batches._run.results.place.stream.ready(1) < 3:
            time.sleep(0)
    if state == "ended":
        list(epoch)
    for pause in pauses:
        time.sleep(pause)
    return loader, batches, epoch


class Dropped:
    """Uses a loader when it is dropped: when the module is taken apart, late."""

    def __init__(self, function):
        self.function = function

    def __del__(self):
        self.function()


def take(kept):
    """Take batches and close; the exit hook may have closed it before."""
    loader, batches, epoch = kept
    with contextlib.suppress(ClosedError):
        list(epoch or batches)
    loader.__exit__(None, None, None)


def refused(*state):
    """Open a loader where Python itself is half gone: no thread starts, no import succeeds."""
    with contextlib.suppress(RuntimeError, ImportError):
        take(opened(*state))


@topology()
def a_global(*state):
    module["kept"] = opened(*state)


@topology()
def an_attribute_of_a_module(*state):
    sys.kept = threading.kept = opened(*state)


@topology()
def a_cycle(*state):
    cycle = [opened(*state)]
    cycle.append(cycle)


@topology()
def a_cycle_in_a_global(*state):
    held.append([opened(*state), held])


@topology()
def an_attribute_of_itself(*state):
    loader, batches, _ = opened(*state)
    loader.itself, batches.itself = batches, loader


@topology()
def a_thread_local(*state):
    local.kept = opened(*state)


@topology()
def a_context_variable(*state):
    variable.set(opened(*state))


@topology()
def a_frame_of_a_daemon_thread(*state):
    ready = threading.Event()

    def run():
        kept = opened(*state)
        ready.set()
        time.sleep(1e6)
        del kept

    threading.Thread(target=run, daemon=True).start()
    assert ready.wait(30)


@topology()
def a_daemon_thread_that_iterates(*state):
    ready = threading.Event()

    def run():
        _, batches, epoch = opened(*state)
        ready.set()
        while True:
            for _ in epoch or batches:
                pass
            epoch = iter(batches)

    threading.excepthook = lambda args: None  # that it is told of the end is as it should be
    threading.Thread(target=run, daemon=True).start()
    assert ready.wait(30)


@topology()
def a_thread_that_outlives_the_main_one(*state):
    kept = opened(*state)
    main = threading.main_thread()

    def run():
        main.join()
        take(kept)

    threading.Thread(target=run).start()


@topology()
def an_exit_hook_that_holds(*state):
    atexit.register(len, opened(*state))


@topology()
def an_exit_hook_that_closes(*state):
    kept = opened(*state)
    atexit.register(kept[0].__exit__, None, None, None)


@topology()
def an_exit_hook_that_takes(*state):
    atexit.register(take, opened(*state))


@topology(there=STARTS_AT_EXIT)
def an_exit_hook_that_opens(*state):
    atexit.register(lambda: held.append(opened(*state)))


@topology(there=STARTS_AT_EXIT)
def an_exit_hook_that_opens_and_takes(*state):
    atexit.register(lambda: take(opened(*state)))


@topology()
def a_finalizer_at_exit(*state):
    module["kept"] = opened(*state)
    weakref.finalize(module["kept"][1], print, end="")


@topology(there=KEEPS_NAMES)
def dropped_with_the_module(*state):
    kept = opened(*state)
    module["dropped"] = Dropped(lambda: take(kept))


@topology()
def opened_with_the_module_gone(*state):
    module["dropped"] = Dropped(lambda: refused(*state))


@topology()
def a_generator(*state):
    def batches():
        with Loader({"num_workers": state[0]}, Numbers()) as batches:
            yield from batches

    module["generator"] = batches()
    next(module["generator"])


@topology()
def an_exception_that_is_kept(*state):
    def fail():
        kept = opened(*state)
        raise LookupError(kept)

    try:
        fail()
    except LookupError as error:
        held.append(error)


@topology(3)
def sys_exit_in_the_loop(*state):
    with Loader({"num_workers": state[0]}, Numbers()) as batches:
        for _ in batches:
            sys.exit(3)


@topology(4)
def sys_exit_with_another_open(*state):
    held.append(opened(*state))
    sys.exit(4)


@topology(1)
def an_exception_in_the_loop(*state):
    sys.excepthook = lambda *error: None
    held.append(opened(*state))
    with Loader({"num_workers": state[0]}, Numbers()) as batches:
        for _ in batches:
            raise LookupError


@topology(-signal.SIGINT)
def an_interrupt(*state):
    sys.excepthook = lambda *error: None
    # A shell has the programs in its background ignore it, and theirs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    held.append(opened(*state))
    signal.raise_signal(signal.SIGINT)


@topology(5)
def at_once(*state):
    held.append(opened(*state))
    os._exit(5)


@topology(-signal.SIGTERM)
def terminated(*state):
    held.append(opened(*state))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1e6)


@topology(143)
def terminated_with_a_handler(*state):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    held.append(opened(*state))
    signal.raise_signal(signal.SIGTERM)


@topology()
def another_program_in_its_place(*state):
    held.append(opened(*state))
    os.execv(sys.executable, [sys.executable, "-S", "-c", ""])


@topology()
def forked_and_both_end(*state):
    held.append(opened(*state))
    child = os.fork()
    if child:
        assert (child, 0) == os.waitpid(child, 0)


@topology()
def forked_and_opened_again(*state):
    held.append(opened(*state))
    child = os.fork()
    held.append(opened(*state))
    if child:
        assert (child, 0) == os.waitpid(child, 0)


@topology()
def a_process_that_is_forked(*state):
    held.append(opened(*state))
    child = multiprocessing.get_context("fork").Process(target=take, args=(opened(*state),))
    child.start()
    child.join()
    assert child.exitcode == 0


@topology()
def a_process_that_is_spawned(*state):
    held.append(opened(*state))
    child = multiprocessing.get_context("spawn").Process(target=a_global, args=state)
    child.start()
    child.join()
    assert child.exitcode == 0


def lives():
    """Fork for each line of stdin; give the line in the fork, and None in the end."""
    for line in sys.stdin:
        job = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if not child:
            for number, name in ((1, "stdout"), (2, "stderr")):
                handle = os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(handle, number)
                os.close(handle)
            return job["way"]
        signal.signal(signal.SIGALRM, lambda number, frame, it=child: os.kill(it, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS + 5)
        _, status = os.waitpid(child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        told = {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - began}
        print(json.dumps(told), flush=True)
    return None


def watch():
    """Show the stacks of this process and end it when it hangs."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)


if __name__ == "__main__":
    asked = sys.argv[1:] or lives()
    if asked:
        topology, workers, state, pause = asked
        pauses.append(float(pause))
        watch()
        # A fork has not the thread that watches, and would wait for it when it ends.
        cancel = faulthandler.cancel_dump_traceback_later
        os.register_at_fork(before=cancel, after_in_parent=watch, after_in_child=watch)
        module[topology](int(workers), state)
