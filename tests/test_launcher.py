"""Which shard a process is, by the variables that launchers set."""

import sys
from types import SimpleNamespace

import pytest

from threadloader.adapters.launcher import LAUNCHERS, shard_of_process
from threadloader.errors import ConfigError


@pytest.mark.parametrize(
    ("environ", "shard"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, (0, 4)),
        ({"RANK": "2147483646", "WORLD_SIZE": " 02147483647"}, (2**31 - 2, 2**31 - 1)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "PMIX_RANK": "1"}, (1, 2)),
        ({"SLURM_NTASKS": "6"}, (0, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "6"}, (0, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "", "SLURM_NTASKS": "6"}, (0, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_NTASKS": "6"}, (3, 6)),
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


TASK = {
    "SLURM_JOB_ID": "17",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_GTIDS": "0,1,2,3",
    "SLURM_STEP_ID": "0",
    "SLURM_STEPID": "0",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "4",
}
"""A task of SLURM's, as 22.05 and 24.11 start it: the first of four on one node."""

SHELL = {**TASK, "SLURM_JOB_ID": "18", "SLURM_GTIDS": "0"}
"""The shell of a job that was sent by sbatch from such a task: the step is that of the sender."""


@pytest.mark.parametrize(
    ("changed", "shard"),
    [
        ({}, (0, 1)),
        ({"SLURM_NTASKS": "2"}, (0, 1)),
        ({"SLURM_STEP_NUM_TASKS": None}, (0, 1)),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1"}, (0, 1)),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, (0, 1)),
        # What srun starts in that job has a step of its own.
        ({"SLURM_GTIDS": "0,1,2,3"}, (0, 4)),
        ({"SLURM_GTIDS": "0,2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, (0, 4)),
        ({"SLURM_GTIDS": "1,2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "1"}, (1, 4)),
        ({"SLURM_GTIDS": "0", "SLURM_STEP_TASKS_PER_NODE": " 1(x4)"}, (0, 4)),
        ({"SLURM_GTIDS": "", "SLURM_NTASKS": " 04"}, (0, 4)),
        ({"SLURM_GTIDS": None, "SLURM_NTASKS": None}, (0, 4)),
        ({"SLURM_GTIDS": " ", "SLURM_NTASKS": " "}, (0, 4)),
        ({"SLURM_STEP_TASKS_PER_NODE": "9" * 5000}, (0, 4)),
        ({"SLURM_JOB_ID": None}, (0, 4)),
        # `srun -m arbitrary`: its file of hosts begins with the second node.
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_NODEID": "1"}, (0, 4)),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_NODEID": "0"}, (0, 1)),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_NODEID": ""}, (0, 1)),
        ({"SLURM_STEP_TASKS_PER_NODE": None, "SLURM_NTASKS": ""}, (0, 4)),
        # The step of one task in which salloc's shell may run, in a job of four.
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}, (0, 1)),
    ],
)
def test_a_job_that_was_sent_from_a_task_is_none_of_its_tasks(changed, shard):
    """It would read one part of four, and the others nobody."""
    environ = {name: value for name, value in {**SHELL, **changed}.items() if value is not None}
    assert shard == shard_of_process(environ)


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        # `salloc -n2` in a task of four; its shell has the list of the task's step, too.
        ({**TASK, "SLURM_NTASKS": "2"}, "SLURM_STEP_NUM_TASKS equal to SLURM_NTASKS, got 4 and 2"),
        # `prterun -n 3` in a task of one: PMIx tells its count to those alone who ask it.
        (
            {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "2"},
            "SLURM_STEP_NUM_TASKS above PMIX_RANK, got SLURM_STEP_NUM_TASKS=1 and PMIX_RANK=2",
        ),
        ({"PMI_RANK": "0", "PMI_SIZE": "1", "PMIX_RANK": "2"}, "PMI_SIZE above PMIX_RANK"),
    ],
)
def test_of_what_another_job_or_launcher_has_left_nobody_is_told_to_unset_it(environ, text):
    """Which of the two is old is not known; without the other each process would read all."""
    with pytest.raises(ConfigError, match=text) as caught:
        shard_of_process(environ)
    assert str(caught.value).endswith('; give {"index": ..., "count": ...}')


@pytest.mark.parametrize(
    ("environ", "own", "left"),
    [
        # Tasks without PMI that were started from one with it.
        ({**TASK, "SLURM_PROCID": "1", "PMI_JOBID": "16.0"}, "17.0", (1, 4)),
        ({"SLURM_JOB_ID": "17", "PMI_JOBID": "16.2"}, "17.2", (0, 1)),
    ],
)
def test_what_pmi_has_left_of_another_step_is_named_to_be_unset(environ, own, left):
    """All of it: without the one that tells, the others would be believed."""
    pmi = {"PMI_RANK": "0", "PMI_SIZE": "1"}
    with pytest.raises(ConfigError) as caught:
        shard_of_process({**environ, **pmi})
    text = str(caught.value)
    assert f"the PMI_JOBID of this step of SLURM, {own}, got {environ['PMI_JOBID']}; unset " in text
    named = text.partition("unset ")[2].partition(", which")[0].replace(" and ", ", ").split(", ")
    assert left == shard_of_process(
        {k: it for k, it in {**environ, **pmi}.items() if k not in named}
    )


@pytest.mark.parametrize(
    "left",
    [
        {"PMI_JOBID": "17.0"},
        {"PMI_JOBID": "17.3", "SLURM_STEP_ID": "", "SLURM_STEPID": "3"},
        {"PMI_JOBID": "17.3", "SLURM_STEP_ID": "3", "SLURM_STEPID": ""},
        {"PMI_JOBID": "17.3", "SLURM_STEP_ID": "", "SLURM_STEPID": ""},
        {"PMI_JOBID": "16.0", "SLURM_JOB_ID": ""},
        {"PMI_JOBID": "16.0", "MPI_LOCALRANKID": "1"},  # by MPICH's mpiexec
        {"PMI_JOBID": "a name of another launcher's"},
        {"PMI_JOBID": "its-16.0"},
        {"PMIX_RANK": "1"},
    ],
)
def test_what_says_nothing_else_is_not_refused(left):
    assert (1, 3) == shard_of_process({**TASK, "PMI_RANK": "1", "PMI_SIZE": "3", **left})


@pytest.mark.parametrize(
    "environ",
    [
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "00"},
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": " "},
        # One process of torchrun in each task: each trains by itself.
        {"RANK": "0", "WORLD_SIZE": "1", "PMIX_RANK": "3", "PMI_JOBID": "16.0", **TASK},
    ],
)
def test_one_process_among_others_that_train_by_themselves_is_alone(environ):
    assert (0, 1) == shard_of_process(environ)


def test_those_that_are_started_inside_of_others_stand_first():
    """As it is documented."""
    both = {}
    for rank, (launcher, index, (count, *_)) in reversed(list(enumerate(LAUNCHERS))):
        both |= {index: str(rank), count: "9"}
        assert (rank, 9) == shard_of_process(both), launcher
    known = ["torchrun", "Horovod", "Open MPI", "PMI", "SLURM"]
    assert known == [launcher for launcher, *_ in LAUNCHERS]


@pytest.mark.parametrize(
    ("environ", "hint"),
    [
        ({"RANK": "3"}, "; correct the environment, or give {"),
        # What the launcher itself has set is not to be unset: each process would read everything.
        ({"PMIX_RANK": "3"}, '; give {"index": ..., "count": ...}'),
    ],
)
def test_nobody_is_told_to_unset_what_a_running_launcher_has_set(environ, hint):
    with pytest.raises(ConfigError) as caught:
        shard_of_process(environ)
    assert hint in str(caught.value)
    assert "unset" not in str(caught.value)


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
        ({"RANK": "0", "WORLD_SIZE": "2147483648"}, "WORLD_SIZE to be an integer up to 2147483647"),
        ({"RANK": "1", "WORLD_SIZE": "9" * 11}, "an integer up to 2147483647, got '99999999999'"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 18}, "up to 2147483647, got '" + "9" * 18 + "'"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 19}, "up to 2147483647, got one of 19 digits"),
        ({"RANK": "0", "WORLD_SIZE": "9" * 5000}, "up to 2147483647, got one of 5000 digits"),
        ({"RANK": "0", "WORLD_SIZE": ""}, "WORLD_SIZE to be an integer >= 0"),
        ({"PMIX_RANK": "1"}, "tells the number of processes, got only PMIX_RANK"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environ, text):
    with pytest.raises(ConfigError, match=text) as caught:
        shard_of_process(environ)
    assert "/shard" == caught.value.problems[0].pointer


@pytest.mark.parametrize(
    ("running", "count", "shard"), [(True, 4, (2, 4)), (True, 1, (1, 8)), (False, 4, (1, 8))]
)
def test_a_running_torch_is_asked_first(monkeypatch, running, count, shard):
    """Where it has several processes; `torch.multiprocessing.spawn` sets no variables."""
    there = SimpleNamespace(
        is_initialized=lambda: running, get_rank=lambda: 2, get_world_size=lambda: count
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", there)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert shard == shard_of_process()


def test_a_torch_without_processes_is_not_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace())
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (1, 8) == shard_of_process()


@pytest.mark.parametrize(
    ("running", "count", "shard"), [(True, 4, (2, 4)), (True, 1, (1, 8)), (False, 4, (1, 8))]
)
def test_a_running_jax_is_asked_first(monkeypatch, running, count, shard):
    """Only one that the program has imported, and only when it runs on several processes."""
    jax = SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: running),
        process_index=lambda: 2,
        process_count=lambda: count,
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert shard == shard_of_process()


def test_the_process_environment_is_read(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (1, 8) == shard_of_process()


def older_jax(monkeypatch, state):
    """Puts a jax in place which is not asked whether it is distributed; no launcher is there."""
    for _, rank, counts in LAUNCHERS:
        for name in (rank, *counts):
            monkeypatch.delenv(name, raising=False)
    distributed = SimpleNamespace(initialize=None)
    jax = SimpleNamespace(__version__="0.4.35", distributed=distributed)
    inner = SimpleNamespace() if state is None else SimpleNamespace(global_state=state)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", inner)
    return jax


@pytest.mark.parametrize(
    ("client", "count", "shard"), [(object(), 4, (2, 4)), (object(), 1, (0, 1)), (None, 4, (0, 1))]
)
def test_an_older_jax_tells_by_its_state(monkeypatch, client, count, shard):
    """Before 0.5.1 there is no `is_initialized`; one that was only imported is alone."""
    older_jax(monkeypatch, SimpleNamespace(client=client, process_id=2, num_processes=count))
    assert shard == shard_of_process()


@pytest.mark.parametrize("state", [None, SimpleNamespace(client=object(), process_id=2)])
def test_a_jax_that_does_not_tell_is_never_taken_for_one_process(monkeypatch, state):
    """It is refused, unless a launcher's variables tell."""
    older_jax(monkeypatch, state)
    with pytest.raises(ConfigError, match=r"jax 0\.5\.1 or newer, .*, got jax 0\.4\.35"):
        shard_of_process()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (1, 8) == shard_of_process()


def test_a_jax_without_the_distributed_part_is_alone(monkeypatch):
    """Nobody can have initialised what was not imported."""
    del older_jax(monkeypatch, None).distributed
    assert (0, 1) == shard_of_process()
