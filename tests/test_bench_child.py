"""A run measures what was asked for, with either loader: it tells numbers, or what was raised."""

import sys

import numpy as np
import pytest
from bench_folder import NPZ, folder
from fake_dataloader import fake_torch

from threadloader import WorkerError
from threadloader.adapters import torch_loader
from threadloader.bench import _child, _measure

__all__ = ["fake_torch", "folder"]  # the fixtures


@pytest.fixture
def measured(folder, monkeypatch):
    """Gives a function that measures a run: of which loader, what is changed in its config."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def call(loader, config=None, **changed):
        spec = {
            "loader": loader,
            "base": str(folder),
            "folder": str(folder),
            "source": "",
            "transform": "",
            "collate": "",
            "step": "sleep",
            "size": 0,
            "seconds": None,
            "batches": 4,
            "config": {"source": NPZ, "batch_size": 5, "num_workers": 0, **(config or {})},
        }
        return _child.run(spec | changed)

    yield call
    sys.modules.pop("mine", None)  # what `delitem` did not find it does not put back


def test_a_transform_that_is_not_true_is_given_to_either_loader(measured, folder, fake_torch):
    """As a list of steps that is empty, with a method."""
    module = folder / "mine.py"
    own = "class Steps(list):\n    def __call__(self, sample):\n        raise LookupError\n"
    module.write_text(f"{module.read_text('utf-8')}\n\n{own}\n\nsteps = Steps()\n", "utf-8")
    for loader in ("threadloader", "torch"):
        with pytest.raises(LookupError):
            measured(loader, transform="mine:steps")


def test_a_collate_in_code_makes_the_batches_of_either_loader(measured, folder, fake_torch):
    """Also one that is not true; of a source that would build whole ones it gets the samples."""
    module = folder / "mine.py"
    own = (
        "class Seen(list):\n    def __call__(self, samples):\n        raise LookupError(samples)\n"
    )
    module.write_text(f"{module.read_text('utf-8')}\n\n{own}\n\nseen = Seen()\n", "utf-8")
    for loader in ("threadloader", "torch"):
        with pytest.raises(LookupError) as caught:
            measured(loader, collate="mine:seen")
        assert (list, 5) == (type(caught.value.args[0]), len(caught.value.args[0]))


def test_the_current_folder_is_looked_in_only_where_code_is_named(measured, folder):
    """What lies there beside a config, and has the name of a module, is not to run."""
    before = sys.path[:]
    measured("threadloader")
    assert before == sys.path
    measured("threadloader", transform="mine:same")
    assert [str(folder), *before] == sys.path


def test_a_run_of_either_loader_gives_the_same_numbers(measured, fake_torch):
    """By name; that of torch also tells its version."""
    ours, theirs = (measured(it, transform="mine:same") for it in ("threadloader", "torch"))
    assert set(ours) | {"version"} == set(theirs)
    assert (3, 3, 3) == (ours["batches"], theirs["batches"], theirs["steps_of_epoch"])


def test_both_loaders_take_a_source_in_code_for_that_of_the_config(measured, fake_torch):
    """Ten samples, and not the twelve of the config."""
    ours, theirs = (
        measured(it, {"batch_size": 1}, source="mine:Numbers") for it in ("threadloader", "torch")
    )
    assert (10, 10) == (ours["steps_of_epoch"], theirs["steps_of_epoch"])


@pytest.mark.parametrize("loader", ["threadloader", "torch"])
def test_a_run_without_a_batch_has_no_sample_and_no_other_number(measured, fake_torch, loader):
    assert {"samples": 0} == measured(loader, source="mine:nothing")


def test_both_loaders_are_dealt_the_shard_that_the_launcher_says(measured, fake_torch, monkeypatch):
    """Six of twelve samples."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    auto = {"shard": "auto", "batch_size": 1}
    ours, theirs = (measured(it, auto) for it in ("threadloader", "torch"))
    assert (6, 6) == (ours["steps_of_epoch"], theirs["steps_of_epoch"])


def test_what_other_processes_do_is_not_told_as_this_ones(measured, fake_torch):
    """Time of the processor and reads are this process's own: not those of PyTorch's workers."""
    alone, helped = (measured("torch", {"num_workers": number}) for number in (0, 2))
    assert alone["cpu_seconds"] is not None
    assert (None, None) == (helped["cpu_seconds"], helped["storage_bytes"])


@pytest.mark.parametrize("there", [True, False])
def test_the_memory_that_torch_takes_is_not_the_loaders(measured, monkeypatch, there):
    """It is imported before memory is first looked at; where it is not there, a run goes on."""
    done = []

    class Memory(_measure.Memory):
        def __init__(self):
            done.append("memory")
            super().__init__()

    def find():
        done.append("torch")
        if not there:
            raise ImportError("no torch")

    monkeypatch.setattr(torch_loader, "import_torch", find)
    monkeypatch.setattr(_child, "Memory", Memory)
    assert 3 == measured("threadloader", {"pin_memory": "auto"})["batches"]
    assert ["torch", "memory"] == done


@pytest.mark.parametrize(
    ("cache", "expected"),
    [(None, (0, 0)), ({"max_samples": 100}, (5, 5)), ({"folder": "kept"}, (10, 0))],
    ids=str,
)
def test_a_run_tells_how_many_samples_its_cache_gave(measured, cache, expected):
    """Ten behind the first batch of five: in memory five were kept by then, in a folder all."""
    config = {"batch_size": 5, "cache": cache, "source": {**NPZ, "path": "ten.npz"}}
    np.savez("ten.npz", x=np.arange(10))
    measured("threadloader", config, batches=3)
    ran = measured("threadloader", config, batches=3)
    assert expected == (ran["cache_hits"], ran["cache_misses"])


def test_a_source_in_code_is_closed_behind_its_run(measured):
    """What its close raises comes too late to matter."""
    assert 3 == measured("threadloader", source="mine:Closing")["batches"]
    assert 1 == sys.modules["mine"].Closing.closed


def test_a_run_finds_the_lists_of_a_sampler_in_the_folder_of_the_config(measured, folder):
    """Also where the source is in code, and modules come from another folder."""
    (folder / "configs").mkdir()
    np.save(folder / "configs" / "some.npy", [1, 2, 3])
    listed = {"batch_size": 1, "sampler": {"type": "subset", "indices": "some.npy"}}
    base = str(folder / "configs")
    ran = measured("threadloader", listed, base=base, source="mine:Numbers")
    assert 3 == ran["steps_of_epoch"]


def test_what_is_raised_for_a_batch_is_told_with_its_cause():
    """A thread's SystemExit comes as a WorkerError that only refers to it."""
    error = WorkerError("SystemExit was raised for sample 3; see its cause")
    error.add_note("a note")
    error.__cause__ = SystemExit("boom")
    told = "WorkerError: SystemExit was raised for sample 3; a note; its cause: SystemExit: boom"
    assert {"error": told} == _child._told(error)
    assert {"error": "ValueError: bad"} == _child._told(ValueError("bad"))
