"""However a loader is left, nothing of it stays behind.

The ways stand in `ways`, one function each; `leaks` says what is looked at. Each way is taken
hundreds of times, with 0 to 8 workers, and after each 25 lives no thread, open file, object of
the library or garbage in a cycle may be there that was not before.
"""

import _thread
import gc
import threading

import leaks
import pytest
from campaigns import cycles
from leaks import Watch
from lifecycle import BLOCK, block
from ways import WAYS

from threadloader import Loader

BLOCKS = 8
"""Of each way, of 25 lives each."""


def test_there_are_at_least_10000_lives_and_25_ways():
    assert len(WAYS) * BLOCKS * BLOCK >= 10_000
    assert len(WAYS) >= 25


@pytest.mark.parametrize("name", WAYS)
def test_nothing_is_left(name):
    for number in range(BLOCKS):
        block(name, 1, number)


def thread_left(kept):
    kept.append(threading.Event())
    kept.append(threading.Thread(target=kept[0].wait, name="left"))
    kept[1].start()


def task_left(kept):
    kept.append(_thread.allocate_lock())
    kept[0].acquire()
    _thread.start_new_thread(kept[0].acquire, ())


def file_left(kept):
    kept.append(open(__file__))  # noqa: SIM115 (it is the one that is left)


def object_left(kept):
    with Loader({"num_workers": 1}, range(4)) as batches:
        kept.append(batches)


def garbage_left(kept):
    with Loader({"num_workers": 1}, range(4)) as batches:
        batches.itself = batches


LEFT = {
    "threads: ": thread_left,
    "threads of the kernel's list: ": task_left,
    "files: ": file_left,
    "objects of the library: .*loader._batches.Batches": object_left,
    "garbage in cycles: .*of the library: .*loader._batches.Batches": garbage_left,
}


@pytest.mark.parametrize(("said", "leave"), LEFT.items())
def test_a_look_names_what_is_left(said, leave, monkeypatch):
    monkeypatch.setattr(leaks, "PATIENCE", 0.1)  # until a thread counts as one that stays
    if leave is task_left and not leaks.tasks():
        pytest.skip("the system does not tell its threads")
    kept = []
    with Watch() as watch:
        leave(kept)
        with pytest.raises(AssertionError, match=said):
            watch.look()
    if leave is thread_left:
        kept[0].set()
        kept[1].join()
    if leave is task_left:
        kept[0].release()
    if leave is file_left:
        kept[0].close()
    gc.collect()


def test_a_look_sees_a_reference_that_is_kept():
    source, kept = object(), []
    with Watch(source) as watch:
        watch.look()
        kept.append(source)
        with pytest.raises(AssertionError, match="references: were "):
            watch.look()


def test_the_campaign_tells_how_to_repeat_a_failure(monkeypatch, capsys):
    """It goes on behind one; its exit code is 1."""
    monkeypatch.setattr(cycles, "WAYS", {"end": None})
    assert 0 == cycles.main(["--count", "30", "--processes", "1"])
    assert "cycles: 30 run, 30 distinct, 0 failed, 2 looks; " in capsys.readouterr().out
    monkeypatch.setitem(WAYS, "end", (lambda life: life.logged.append("said"), 1))
    assert 1 == cycles.main(["--count", "30", "--processes", "1"])
    captured = capsys.readouterr()
    assert "cycles: 30 run, 0 distinct, 2 failed, 2 looks; " in captured.out
    assert "life 0 of block('end', 1000000000, 1)" in captured.err
