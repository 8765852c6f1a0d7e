"""Eight threads at once: each has its own loader, all read one source; or they watch one loader.

With the GIL a race shows rarely; these are the tests to run, again and again, without it.
"""

import json
import threading

import numpy as np
import pytest

from threadloader import Loader
from threadloader.sources import open_source, per_thread

THREADS = 8
WAIT = 60.0
"""Seconds after which a thread that should have ended fails its test; never waited out."""


def at_once(function):
    """Calls a function in eight threads that begin together; gives what each has returned."""
    start, given = threading.Barrier(THREADS), [None] * THREADS

    def run(number):
        start.wait()
        try:
            given[number] = function(number)
        except BaseException as error:
            given[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    return given


def of_lines(folder, kind):
    (folder / "x").write_text("".join(f"{n}\n" for n in range(300)))
    return open_source({"type": kind, "path": "x"}, folder)


def of_npy(folder, **options):
    np.save(folder / "x.npy", np.arange(1200).reshape(300, 4))
    return open_source({"type": "npy", "path": "x.npy", **options}, folder)


SOURCES = {
    "list": lambda folder: [np.full(3, n) for n in range(300)],
    "arrays": lambda folder: {"x": np.arange(900).reshape(300, 3), "y": np.arange(300)},
    "npy": of_npy,
    "npy, mapped": lambda folder: of_npy(folder, mmap=True),
    "text": lambda folder: of_lines(folder, "text"),
    "jsonl": lambda folder: of_lines(folder, "jsonl"),
    "one for each thread": lambda folder: per_thread(lambda: list(range(300))),
}


def plain(batch):
    """What a batch holds, to be compared."""
    if isinstance(batch, dict):
        return {name: plain(field) for name, field in batch.items()}
    return batch.tolist() if isinstance(batch, np.ndarray) else batch


def epochs(config, source, transform=None):
    with Loader(config, source, transform=transform) as batches:
        return [[plain(batch) for batch in epoch] for epoch in batches.epochs(2)]


@pytest.mark.parametrize("kind", SOURCES)
def test_loaders_of_one_source_give_what_one_alone_gives(kind, tmp_path):
    """In each of eight threads, with two workers each."""
    source = SOURCES[kind](tmp_path)
    config = {"batch_size": 7, "seed": 3, "num_workers": 2}
    expected = epochs({**config, "num_workers": 0}, source)
    # Loaders close what a factory has made for them, so those have a source each.
    apart = kind == "one for each thread"
    given = at_once(lambda n: epochs(config, SOURCES[kind](tmp_path) if apart else source))
    if hasattr(source, "close"):
        source.close()
    assert [expected] * THREADS == given


def test_one_transform_draws_the_same_in_every_thread():
    """It is given a generator of the thread that calls it."""

    def jitter(sample, rng):
        return sample + int(rng.integers(1 << 40))

    config = {"batch_size": 7, "seed": 3, "num_workers": 2}
    expected = epochs({**config, "num_workers": 0}, list(range(300)), jitter)
    given = at_once(lambda n: epochs(config, list(range(300)), jitter))
    assert [expected] * THREADS == given


def test_loaders_that_share_a_folder_of_kept_samples_give_what_one_alone_gives(tmp_path):
    """Each writes what it has prepared, and reads what the others have."""
    source = SOURCES["npy"](tmp_path)
    config = {"batch_size": 7, "seed": 3, "num_workers": 2}
    expected = epochs({**config, "num_workers": 0}, source)
    config["cache"] = {"folder": str(tmp_path / "kept")}
    given = at_once(lambda n: epochs(config, source))
    source.close()
    assert [expected] * THREADS == given


def test_whoever_looks_sees_one_moment():
    """Seven threads ask for state, stats and info while the eighth takes batches."""
    done = threading.Event()

    def take():
        try:
            for epoch in batches.epochs(3):
                for _ in epoch:
                    pass
        finally:
            done.set()

    def look():
        before = 0
        while not done.is_set():
            state = batches.state_dict()
            world, counted = state["world"], state["shard"]["batches"]
            assert counted == world["epoch"] * 500 + world["step"]
            assert world["position"] == 4 * world["step"]
            assert before <= counted <= batches.stats().batches
            info = batches.info
            assert info is None or 4 == len(info.indices)
            before = counted
        return json.loads(json.dumps(before)) <= 1500

    config = {"batch_size": 4, "num_workers": 2}
    with Loader(config, np.arange(2000)) as batches:
        given = at_once(lambda number: look() if number else take())
    assert [None] + [True] * 7 == given


def test_any_of_eight_may_close():
    """All at once, while one of them waits in `next`: no thread is left, and nobody hangs."""
    for _ in range(5):
        with Loader({"batch_size": 2, "num_workers": 2}, list(range(100))) as batches:
            epoch = iter(batches)
            next(epoch)
            assert [None] * THREADS == at_once(lambda number: batches.close())
