"""A loader is a recipe, entered by one at a time, again and again, or it says why it cannot be."""

import signal
import sys
import threading
from asyncio import CancelledError

import pytest
from numbered import WAIT, WORKERS, Numbers, lists, load

from threadloader import BusyError, ClosedError, Loader, StateError, WorkerError, per_thread
from threadloader._runtime import Runtime


def test_a_recipe_is_not_iterated_and_says_what_to_write():
    with pytest.raises(ClosedError, match=r"with Loader\(\.\.\.\) as batches"):
        iter(load(Numbers(3)))


def test_a_loader_is_open_once_at_a_time_and_can_be_entered_again():
    loader = load(Numbers(3))
    with loader as batches:
        with pytest.raises(BusyError, match="open already"):
            loader.__enter__()
        assert [[0, 1, 2]] == lists(batches)
        batches.close()
        with pytest.raises(BusyError, match=r"not left yet; .* call loader\.__exit__\(None, None"):
            loader.__enter__()
    with loader as batches:
        assert (0, [[0, 1, 2]]) == (batches.state_dict()["world"]["epoch"], lists(batches))


@pytest.mark.parametrize("workers", WORKERS)
def test_a_with_that_user_code_has_left_is_left_all_the_same(workers, tmp_path):
    """Threads and files are counted around every test."""
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    source = {"type": "text", "path": str(tmp_path / "a.txt")}

    def leave(line):
        loader.__exit__(None, None, None)
        return line

    loader = Loader({"source": source, "num_workers": workers}, transform=leave)
    with loader as batches:
        with pytest.raises(ClosedError):
            list(batches)


def test_a_with_that_is_left_while_another_thread_is_at_work_can_be_entered_again():
    begun, go_on, got = threading.Event(), threading.Event(), []

    def wait(index):
        begun.set()
        assert go_on.wait(WAIT)
        return index

    loader = load(Numbers(3), transform=wait, num_workers=0, close_timeout=0.01)
    with loader as batches:
        asking = threading.Thread(target=lambda: got.append(next(iter(batches))))
        asking.start()
        assert begun.wait(WAIT)
    go_on.set()
    asking.join(WAIT)
    with loader as batches:
        assert [[0, 1, 2]] == lists(batches)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_with_that_garbage_has_left_during_a_read_can_be_entered_again(workers):
    """As by the collector, of a generator with the `with` in it: the rest is done then."""
    closed = []

    class Handle(Numbers):
        def __getitem__(self, index):
            if left:
                left.pop().close()
            return index

        def close(self):
            closed.append(self)

    def entering():
        with loader as batches:
            yield batches

    loader = load(per_thread(lambda: Handle(9)), num_workers=workers)
    left = [entering()]
    epoch = iter(next(left[0]))
    with pytest.raises(ClosedError):
        list(epoch)
    with loader as batches:
        with pytest.raises(BusyError):  # whoever else enters does not leave it again
            loader.__enter__()
        assert [[*range(9)]] == lists(batches)
    before = len(closed)
    assert before >= 2
    loader.__exit__(None, None, None)
    assert before == len(closed)


@pytest.mark.parametrize("place", ["factory", "len", "fingerprint"])
@pytest.mark.parametrize(
    "kind", [StopIteration, SystemExit, GeneratorExit, KeyboardInterrupt, CancelledError]
)
def test_what_is_raised_while_it_is_entered_is_taken_for_no_end(place, kind):
    def stop(*_):
        raise kind

    class Stopping(Numbers):
        if place == "len":
            __len__ = stop
        if place == "fingerprint":
            fingerprint = stop

    loader = Loader({}, per_thread(stop) if place == "factory" else Stopping(3))
    with pytest.raises(WorkerError, match=f"{kind.__name__} was raised while") as caught:
        loader.__enter__()
    assert type(caught.value.__cause__) is kind


def test_a_ctrl_c_while_it_is_entered_passes_as_it_is():
    loader = Loader({}, per_thread(lambda: signal.raise_signal(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        loader.__enter__()


def test_a_close_that_fails_hides_no_error_of_entering_and_leaves_nothing_open():
    class Handle(Numbers):
        def close(self):
            raise OSError("disk gone")

    loader = Loader({}, per_thread(lambda: Handle(3)), resume={"not": "a state"})
    for _ in range(2):
        with pytest.raises(StateError) as caught:
            loader.__enter__()
        assert "closing the source failed: OSError" in caught.value.__notes__[0]


def test_two_threads_that_enter_one_loader_do_not_both_get_in():
    for _ in range(50):
        loader, both, got = load(Numbers(4)), threading.Barrier(2), []

        def enter(loader=loader, both=both, got=got):
            both.wait(WAIT)
            try:
                loader.__enter__()
                got.append("entered")
            except BusyError:
                got.append("busy")

        threads = [threading.Thread(target=enter) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        loader.__exit__(None, None, None)
        assert ["busy", "entered"] == sorted(got)


def test_a_failing_enter_leaves_nothing(tmp_path):
    """The source that was opened is closed again when the threads cannot be started."""

    class NoThreads(Runtime):
        def launch(self, function, args):
            raise RuntimeError("can't start new thread")

    closed = []

    class Closing(Numbers):
        def close(self):
            closed.append(self)

    loader = load(per_thread(lambda: Closing(4)))
    loader._runtime = NoThreads()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        loader.__enter__()
    assert 1 == len(closed)
    loader._runtime = Runtime()
    with loader as batches:
        assert [[0, 1, 2, 3]] == lists(batches)


def test_a_loader_that_is_entered_while_the_interpreter_shuts_down_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    with pytest.raises(ClosedError, match="while the interpreter shuts down"):
        Loader({}, range(3)).__enter__()


def test_leaving_what_was_never_entered_does_nothing():
    loader = Loader({}, range(3))
    loader.__exit__(None, None, None)
    with loader as batches:
        assert 1 == len(list(batches))


@pytest.mark.parametrize("name", ["epochs", "stats", "info", "save"])
def test_a_recipe_that_is_taken_for_its_batches_says_where_they_are(name):
    loader = load(Numbers(4))
    with pytest.raises(AttributeError, match=rf"with Loader\(...\) as batches: batches.{name} ..."):
        getattr(loader, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'epoch'$"):
        loader.epoch  # noqa: B018 (asked for, and of a name that batches have not)
    with pytest.raises(AttributeError, match=r"has no attribute '_supply'$"):  # not for users
        loader._supply  # noqa: B018
