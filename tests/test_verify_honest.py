"""What is honest passes, with files and a cache as a loader has them, which hide no fault."""

import itertools
import os
import signal
import threading
import time

import faults
import numpy as np
import pytest
from conftest import our_threads
from faults import SAMPLES
from ids import shown
from verified import CONFIG, NPZ, found, report_of, unhurried, with_data

from threadloader import per_thread, verify
from threadloader.verify import _case

as_it_was = pytest.fixture(unhurried, autouse=True)
folder = pytest.fixture(with_data)


def test_a_batch_for_which_the_loop_is_told_to_wait_on_is_no_difference():
    """A `StalledError` took the place of a batch, and all that followed had moved."""
    config = {**CONFIG, "stall_seconds": 0.01, "stall_action": "raise"}

    def slow(sample):
        time.sleep(0.02)
        return sample

    report = verify.run(config, source=lambda: list(range(12)), transform=slow)
    assert ("same", ()) == (report.result, report.causes)


class Once(list):
    """A source that a process may have open once only."""

    opened = 0

    def __init__(self):
        if Once.opened:
            raise OSError("already open in this process")
        Once.opened += 1
        super().__init__(range(40))

    def close(self):
        Once.opened -= 1


def test_a_source_that_may_be_open_once_only_is_closed_before_it_is_opened_again():
    """As an environment of LMDB; it was called different."""
    assert "same" == verify.run(CONFIG, source=Once).result
    assert 0 == Once.opened


def tokens(sample):
    return {"tokens": np.frombuffer(sample.encode(), np.uint8).astype(np.int64)}


TEXT = {"type": "text", "path": "x.txt"}
TOKENS = {"type": "tokens", "path": "x.bin", "dtype": "uint16", "window": 16}
MLM = {"type": "mlm", "vocabulary": 400, "mask_token": 1}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of a status")
def test_a_file_whose_status_changes_alone_is_no_cause(folder):
    """As by a chmod, or where it is read through a database that looks after its log."""

    def transform(sample):
        (folder / "x.txt").chmod(0o600 if (folder / "x.txt").stat().st_mode & 0o7 else 0o644)
        return faults.counter(np.array([len(sample)]))

    report = verify.run({"source": TEXT}, transform=transform)
    assert "files-changed" not in {cause.kind for cause in report.causes}
    assert report.causes


def test_what_a_signal_handler_raises_while_files_are_looked_at_passes(folder, monkeypatch, rung):
    def looks(*args, **options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_case, "stamp", looks)
    with pytest.raises(TimeoutError, match="rung"):
        verify.run({"source": TEXT}, transform=len)


@pytest.mark.parametrize("gone", [False, True])
def test_files_that_are_written_to_meanwhile_are_the_cause(folder, gone):
    """Whatever the experiments would find in them now."""
    main = threading.current_thread()

    def transform(sample):
        if threading.current_thread() is not main:
            (folder / "x.txt").write_text("other\n" * 10, encoding="utf-8")
            if gone:
                (folder / "x.txt").unlink()
        return len(sample)

    report = verify.run({"source": TEXT}, transform=transform)
    assert ("differs", [("source", "files-changed")]) == (report.result, found(report))
    assert "when nobody writes to them" in report.causes[0].advice


def test_a_table_of_labels_that_is_written_to_meanwhile_is_the_cause(folder):
    """Also where the pattern, which finds what is read, does not find the table."""
    table, main, rows = folder / "labels.csv", threading.current_thread(), "file,y\n"
    for name in "abcdefgh":
        (folder / f"{name}.bin").write_bytes(name.encode())
        rows += f"{name}.bin,1\n"
    table.write_text(rows, encoding="utf-8")

    def transform(sample):
        if threading.current_thread() is not main:
            table.write_text(rows.replace(",1", ",2"), encoding="utf-8")
        return faults.counter(np.array([1.0]))

    label = {"csv": "labels.csv", "file": "file", "label": "y", "as": "int"}
    source = {"type": "files", "folder": ".", "pattern": "*.bin", "label": label}
    report = verify.run({"source": source}, transform=transform)
    assert ("differs", [("source", "files-changed")]) == (report.result, found(report))


@pytest.mark.parametrize(
    ("config", "given"),
    [
        ({"source": NPZ}, {}),
        ({"source": NPZ, "shuffle": False, "drop_last": True}, {}),
        ({"source": NPZ, "shard": {"index": 1, "count": 4, "remainder": "pad"}}, {}),
        ({"source": NPZ, "shard": {"index": 2, "count": 4, "remainder": "keep"}}, {}),
        ({"source": TEXT, "collate": {"type": "pad"}}, {"transform": tokens}),
        ({"source": TOKENS}, {}),
        ({"source": TOKENS, "transform": MLM}, {}),
        ({"num_workers": 5, "prefetch_batches": 2}, {"source": faults.Source}),
        ({}, {"source": faults.Source, "transform": faults.noisy}),
        ({}, {"source": faults.Source, "collate": faults.stacked}),
        ({}, {"source": faults.rows}),
        ({}, {"source": lambda: {"x": faults.rows(), "y": np.arange(SAMPLES)}}),
        ({}, {"source": lambda: per_thread(faults.SharedHandle)}),
        ({}, {"source": faults.Kept, "transform": lambda sample: sample + 1}),
        ({}, {"source": lambda: [f"{n}" for n in range(9)]}),
    ],
    ids=shown,
)
def test_what_is_honest_is_the_same(folder, config, given):
    """In every run, with nothing to warn of; and the epochs are whole."""
    report = verify.run({"batch_size": 4, **config}, **given)
    assert ("same", (), ()) == (report.result, report.dangers, report.failures)
    assert all(same for _, same in report.runs)
    assert report.steps == report.of_epoch


def test_a_cache_of_the_config_hides_nothing_and_stays_as_it_is(folder):
    """Else the first run would fill it, and all others be given what that one has kept."""
    config = {"source": NPZ, "batch_size": 4, "cache": {"folder": "kept"}}
    numbers = itertools.count()
    report = verify.run(config, transform=lambda sample: sample["x"] + next(numbers))
    assert ("differs", [("transform", "own-state")]) == (report.result, found(report))
    assert not (folder / "kept").exists()


def test_a_collate_in_code_is_given_what_the_transform_of_the_config_makes(folder):
    """Samples as the source gives them would be none for it."""
    config = {"source": TOKENS, "transform": MLM, "batch_size": 4}

    def of_labels(samples):
        return faults.shuffled([sample["labels"] for sample in samples])

    assert [("collate", "global-random")] == found(verify.run(config, collate=of_labels))


# Sources are opened for each run, and closed.
class Closing(faults.Source):
    """Counts its closes, none of which may come while a thread can still read from it."""

    def __init__(self):
        super().__init__()
        self.closes = 0

    def __getitem__(self, index):
        if self.closes:
            raise ValueError("read after its close")
        return super().__getitem__(index)

    def close(self):
        assert not our_threads()
        self.closes += 1


@pytest.mark.parametrize("transform", [None, faults.global_random])
@pytest.mark.parametrize("same", [True, False])
def test_sources_of_the_user_are_closed_once_each(same, transform):
    """Also where the function gives the same object for every run, and not before the last."""
    opened, one = [], Closing()

    def source():
        opened.append(one if same else Closing())
        return opened[-1]

    assert (transform is None) == (report_of(source, transform=transform).result == "same")
    assert {1} == {it.closes for it in opened}
    assert len(opened) > 9
