"""Which shard this process is, by the launcher that started it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError, Problem

__all__ = ["shard_of_process"]

LAUNCHERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("torchrun", "RANK", ("WORLD_SIZE",)),
    ("Horovod", "HOROVOD_RANK", ("HOROVOD_SIZE",)),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("PMI", "PMI_RANK", ("PMI_SIZE",)),
    # The step's own count first: the other one may be the job's.
    ("SLURM", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
)
"""Name, variable of the rank, variables of the count; first those that are started inside of the
others, as torchrun and mpirun are in a SLURM job."""

_CORRECT = "correct the environment"

_MOST = 2**31 - 1
"""Shards, as in the config's schema."""


def shard_of_process(environ: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Give this process's shard index and the number of shards.

    A running `torch.distributed` or `jax.distributed` of several processes is asked first, then the
    process's environment variables of torchrun, Horovod, Open MPI, other PMI launchers and SLURM;
    with `environ`, that alone. Without any of them the process is alone: (0, 1).

    Raises:
        ConfigError: a launcher's variables are incomplete, are not a shard, or were left by
            another job or step; or there are none, and a jax before 0.5.1 does not tell on how
            many processes it runs.

    >>> shard_of_process({"RANK": "3", "WORLD_SIZE": "8"})
    (3, 8)
    """
    told = (_torch_processes() or _jax_processes()) if environ is None else None
    if isinstance(told, tuple):
        return told
    environ = os.environ if environ is None else environ
    for launcher, rank, counts in LAUNCHERS:
        if launcher == "SLURM" and _in_batch_script(environ):
            continue
        count = next((name for name in counts if name in environ), None)
        # A count without a rank is what a SLURM job's shell sees.
        if rank not in environ and (count is None or launcher == "SLURM"):
            continue
        if rank not in environ or count is None:
            got = f"only {rank if count is None else count}"
            raise _problem(f"{launcher} to set both {rank} and {counts[0]}", got, _CORRECT)
        index, total = _number(environ, rank), _number(environ, count)
        if index >= total:
            got = f"{rank}={index} and {count}={total}"
            raise _problem(f"{rank} below {count}", got, _CORRECT)
        _refuse_left_over(launcher, environ, count, total)
        return index, total
    # Else each of many processes might load everything.
    if told is not None:
        raise told
    if "PMIX_RANK" in environ:  # its launcher tells the count only to a program that asks by PMIx
        raise _problem("a launcher that tells the number of processes", "only PMIX_RANK")
    return 0, 1


def _refuse_left_over(launcher: str, environ: Mapping[str, str], count: str, total: int) -> None:
    """Refuse a count that other variables say is that of an outer launcher, or of another job.

    A job that is sent from a task of another one is handed the variables of that task. What they
    mean was looked at under the launchers themselves: docs/reliability.md, "Under launchers".
    The error names variables to unset only where they are known to be old: without those of a
    running launcher, each process would read everything.
    """
    # SLURM's PMI_JOBID is "job.step"; where no other variable has the step, only jobs are compared.
    job, told = environ.get("SLURM_JOB_ID"), environ.get("PMI_JOBID", "")
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or told.rpartition(".")[2]
    other = told != f"{job}.{step}" and re.fullmatch(r"[0-9]+\.[0-9]+", told)
    # MPICH's mpiexec sets MPI_LOCALRANKID, and leaves PMI_JOBID as it was.
    if launcher == "PMI" and job and other and "MPI_LOCALRANKID" not in environ:
        hint = "unset PMI_RANK, PMI_SIZE and PMI_JOBID, which another step has left"
        raise _problem(f"the PMI_JOBID of this step of SLURM, {job}.{step}", told, hint)
    if launcher == "SLURM" and total > 1 and environ.get("SLURM_NTASKS", "").strip():
        tasks = _number(environ, "SLURM_NTASKS")
        if tasks != total:
            raise _problem(f"{count} equal to SLURM_NTASKS", f"{total} and {tasks}")
    place = environ.get("PMIX_RANK", "").strip()
    if launcher != "torchrun" and total == 1 and place.strip("0"):
        raise _problem(f"{count} above PMIX_RANK", f"{count}=1 and PMIX_RANK={place}")


def _in_batch_script(environ: Mapping[str, str]) -> bool:
    """Whether this is a SLURM job's own shell, and not one of the tasks that srun starts.

    The script of a job has rank 0 and the job's number of tasks in its environment, but it
    is one process, and no step: taken for shard 0 it would silently load a part of the data.
    A rank above 0 is that of a task, also where something has removed the step's variables.
    """
    if environ.get("SLURM_PROCID", "0").strip() not in ("", "0") or "SLURM_JOB_ID" not in environ:
        return False
    step = ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS")
    if not any(name in environ for name in step):
        return True
    # In a job that was sent from a task of another one, the step is that task's; but the list of
    # the tasks on this node is the job's own. A job's shell is on its first node, and so is task 0,
    # unless `srun -m arbitrary` has put it elsewhere: of "3,1" or "2(x2)" the first number counts.
    listed = environ.get("SLURM_GTIDS", "").strip()
    first = re.match(r" *([0-9]{1,9})\b", environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if not listed or first is None or environ.get("SLURM_NODEID", "0").strip() not in ("", "0"):
        return False
    return len(listed.split(",")) != int(first[1])


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    # Only plain digits: int() would also take "1_0" and "+1".
    if not (text.isascii() and text.isdigit()):
        raise _problem(f"{name} to be an integer >= 0", repr(environ[name]), _CORRECT)
    if len(text) > 18 or int(text) > _MOST:
        got = f"one of {len(text)} digits" if len(text) > 18 else repr(text)
        raise _problem(f"{name} to be an integer up to {_MOST}", got, _CORRECT)
    return int(text)


def _problem(expected: str, got: str, *hints: str) -> ConfigError:
    hint = ", or ".join([*hints, 'give {"index": ..., "count": ...}'])
    return ConfigError(Problem("/shard", expected, got, hint))


def _torch_processes() -> tuple[int, int] | None:
    """Ask torch, if the program has imported it: some ways to start processes set no variables."""
    there: Any = sys.modules.get("torch.distributed")
    # A torch that was built without it has the module, and less in it.
    if not hasattr(there, "is_initialized") or not there.is_initialized():
        return None
    count = int(there.get_world_size())
    # A group of one may be there to write a checkpoint: then jax, or the environment, is asked.
    return (int(there.get_rank()), count) if count > 1 else None


def _jax_processes() -> tuple[int, int] | ConfigError | None:
    """Ask jax, if the program has imported it, for index and count of the processes.

    None where this process is alone. Where jax does not tell, the error to raise unless a launcher
    tells.
    """
    jax: Any = sys.modules.get("jax")
    if not hasattr(jax, "distributed"):
        return None
    if hasattr(jax.distributed, "is_initialized"):  # since 0.5.1
        # A jax of one process may run in each of many: then the environment is asked.
        running = jax.distributed.is_initialized() and int(jax.process_count()) > 1
        return (int(jax.process_index()), int(jax.process_count())) if running else None
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if hasattr(state, "client"):
        if state.client is None:
            return None
        if hasattr(state, "num_processes"):  # the first ones did not keep it
            count = int(state.num_processes)
            return (int(state.process_id), count) if count > 1 else None
    version = getattr(jax, "__version__", "of an unknown version")
    return _problem("jax 0.5.1 or newer, which tells how many processes it has", f"jax {version}")
