"""Which shard a process is, by the variables that launchers set."""

import sys
from types import SimpleNamespace

import pytest

from threadloader.adapters.launcher import shard_of_process
from threadloader.errors import ConfigError


@pytest.mark.parametrize(
    ("environ", "shard"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, (0, 4)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "6", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"SLURM_NTASKS": "6"}, (0, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "6"}, (0, 1)),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "0",
                "SLURM_PROCID": "3",
                "SLURM_NTASKS": "6",
                "SLURM_STEP_NUM_TASKS": "6",
            },
            (3, 6),
        ),
    ],
)
def test_a_launcher_is_known_by_its_variables(environ, shard):
    assert shard == shard_of_process(environ)


def test_the_innermost_launcher_decides():
    """torchrun started by srun: its own numbers count."""
    environ = {"RANK": "9", "WORLD_SIZE": "16", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    assert (9, 16) == shard_of_process(environ)


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"RANK": "3"}, "both RANK and WORLD_SIZE, got only RANK"),
        ({"WORLD_SIZE": "3"}, "both RANK and WORLD_SIZE, got only WORLD_SIZE"),
        ({"RANK": "3", "WORLD_SIZE": "3"}, "RANK below WORLD_SIZE"),
        ({"RANK": "-1", "WORLD_SIZE": "3"}, "RANK to be an integer >= 0, got '-1'"),
        ({"RANK": "x", "WORLD_SIZE": "3"}, "RANK to be an integer >= 0, got 'x'"),
        ({"PMI_RANK": "1_0", "PMI_SIZE": "30"}, "PMI_RANK to be an integer >= 0"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 5000}, "WORLD_SIZE to be an integer below 10"),
        ({"RANK": "0", "WORLD_SIZE": ""}, "WORLD_SIZE to be an integer >= 0"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environ, text):
    with pytest.raises(ConfigError, match=text) as caught:
        shard_of_process(environ)
    assert "/shard" == caught.value.problems[0].pointer


@pytest.mark.parametrize(("running", "shard"), [(True, (2, 4)), (False, (1, 8))])
def test_a_running_jax_is_asked_first(monkeypatch, running, shard):
    """Only one that the program has imported, and only when it runs distributed."""
    jax = SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: running),
        process_index=lambda: 2,
        process_count=lambda: 4,
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert shard == shard_of_process()


def test_the_process_environment_is_read(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (1, 8) == shard_of_process()
