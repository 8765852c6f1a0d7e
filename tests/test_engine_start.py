"""An engine begins with all of its threads, or says why not and leaves none behind (G6)."""

import signal
import sys
import threading
from types import SimpleNamespace

import pytest
from numbered_jobs import WAIT, Job

from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, _feeder, _shared
from threadloader.errors import ClosedError, ConfigError


def test_an_engine_that_cannot_start_its_workers_leaves_none():
    """G6: the third thread of four fails to start; start raises and no thread is left."""
    before = set(threading.enumerate())

    class Full(Runtime):
        made = 0

        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            self.made += 1
            if self.made == 3:

                def start():
                    raise RuntimeError("can't start new thread")

                thread.start = start
            return thread

    engine = Engine(4, 5.0, Full())
    with pytest.raises(RuntimeError, match="can't start new thread") as caught:
        engine.start()
    note = caught.value.__notes__[0]
    assert '"num_workers" asks for 4 threads, besides one that feeds them and one that' in note
    bounds = ", or raise what bounds them: ulimit -u, a container's limit of pids, or ulimit -v"
    hint = f"give fewer (0 needs none){'' if sys.platform == 'win32' else bounds}"
    assert hint in note
    engine.stop()
    assert before == set(threading.enumerate())


def test_an_engine_whose_feeder_cannot_start_says_so():
    """G6: the same for the very first thread, and for the bare one that starts it."""

    class NoFeeder(Runtime):
        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            thread.start = lambda: (_ for _ in ()).throw(RuntimeError("no feeder"))
            return thread

    class NoLaunch(Runtime):
        def launch(self, function, args):
            raise RuntimeError("can't start new thread")

    for runtime, text in ((NoFeeder(), "no feeder"), (NoLaunch(), "can't start new thread")):
        engine = Engine(2, 5.0, runtime)
        with pytest.raises(RuntimeError, match=text) as caught:
            engine.start()
        # What the system refuses is told with the option that asks for it.
        told = ['threadloader: "num_workers" asks for 2 threads, besides one that feeds them ']
        notes = [note[: len(told[0])] for note in getattr(caught.value, "__notes__", [])]
        assert notes == (told if runtime.__class__ is NoLaunch else [])
        engine.stop()


def test_a_feeder_that_starts_says_so_itself():
    """G6: who starts it is not heard of."""
    shared = _shared.Shared(Runtime(), 1, 5.0)
    _feeder.start_feeder(SimpleNamespace(start=lambda: None), shared)
    assert (None, None) == (shared.started.outcome, shared.end.outcome)


def test_who_waits_for_a_feeder_that_cannot_start_gets_its_error():
    """G6: and what waits for the end of the threads waits for nothing."""
    error = RuntimeError("no feeder")

    def start():
        raise error

    shared = _shared.Shared(Runtime(), 1, 5.0)
    _feeder.start_feeder(SimpleNamespace(start=start), shared)
    assert (ENDED, error) == (shared.end.wait(0), shared.started.wait(0).error)


def test_a_signal_behind_the_launch_does_not_lose_the_threads():
    """G6: the handler raises; `stop` ends them all the same."""

    def ring(number, frame):
        raise TimeoutError("rung")

    class Rung(Runtime):
        def launch(self, function, args):
            super().launch(function, args)
            signal.raise_signal(signal.SIGINT)

    before, threads = signal.signal(signal.SIGINT, ring), set(threading.enumerate())
    engine = Engine(2, 5.0, Rung())
    try:
        with pytest.raises(TimeoutError, match="rung"):
            engine.start()
    finally:
        signal.signal(signal.SIGINT, before)
        engine.stop()
    assert threads == set(threading.enumerate())


class Ending(Runtime):
    """A runtime of an interpreter that shuts down: no thread begins any more."""

    ends = False

    def launch(self, function, args):
        if self.ends:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        Runtime.launch(function, args)


def test_an_engine_is_not_started_while_the_interpreter_shuts_down():
    """CPython 3.12 refuses threads before it says that it ends."""
    runtime = Ending()
    runtime.ends = True
    with pytest.raises(ClosedError, match="while the interpreter shuts down"):
        Engine(1, 1.0, runtime).start()


def test_who_stops_takes_the_place_of_the_feeder_where_no_thread_begins():
    """G6: the feeder is in a sampler for good; the consumer is woken, and the workers end."""
    asked, never, given, runtime = threading.Event(), threading.Event(), [], Ending()

    def jobs():
        asked.set()
        assert never.wait(WAIT)
        yield Job(0)

    engine = Engine(1, 0.05, runtime)
    engine.start()
    stream = engine.stream(jobs(), depth=1)
    consumer = threading.Thread(target=lambda: given.append(stream.result(0)), daemon=True)
    consumer.start()
    try:
        assert asked.wait(WAIT)
        while engine._shared.awaited is None:
            pass
        ((_, worker),) = engine._shared.crew
        runtime.ends = True
        assert engine.stop()
        consumer.join(WAIT)
        worker.join(WAIT)
        assert ([ENDED], False) == (given, worker.is_alive())
    finally:
        never.set()
        engine._feeder.join(WAIT)


@pytest.mark.parametrize(
    ("patched", "refused"),
    [({"threading"}, True), ({"queue"}, True), ({"socket", "time"}, False)],
)
def test_threads_that_gevent_has_replaced_are_refused_with_what_to_do(
    monkeypatch, patched, refused
):
    """Some of them would wait for others for ever, where no line of ours is at fault."""
    gevent = SimpleNamespace(is_module_patched=patched.__contains__)
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    engine = Engine(2, WAIT)
    if refused:
        with pytest.raises(ConfigError, match=r"/num_workers: .* 0 .*got 2; .*queue=False"):
            engine.start()
    else:
        engine.start()
    assert engine.stop()
