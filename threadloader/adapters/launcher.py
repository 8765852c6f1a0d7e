"""Which shard this process is, by the launcher that started it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError, Problem

__all__ = ["shard_of_process"]

LAUNCHERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("torchrun", "RANK", ("WORLD_SIZE",)),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("PMI", "PMI_RANK", ("PMI_SIZE",)),
    # The step's own count first: the job's says how many tasks were asked for, which
    # srun -n can make fewer.
    ("SLURM", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
)
"""Name, variable of the rank, variables of the count; the innermost launcher first, since
torchrun and mpirun are started inside a SLURM job."""

_MOST = 2**31 - 1
"""Shards, as in the config's schema."""


def shard_of_process(environ: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Give this process's shard index and the number of shards.

    A running `torch.distributed` of several processes or `jax.distributed` is asked first, then the
    environment variables (of the process, if none are given) of torchrun, Open MPI, other PMI
    launchers and SLURM. Without any of them the process is alone: (0, 1).

    Raises:
        ConfigError: a launcher's variables are incomplete or are not a shard; or there are
            none, and a jax before 0.5.1 does not tell on how many processes it runs.

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
            raise _problem(f"{launcher} to set both {rank} and {counts[0]}", got)
        index, total = _number(environ, rank), _number(environ, count)
        if index >= total:
            raise _problem(f"{rank} below {count}", f"{rank}={index} and {count}={total}")
        return index, total
    # Else each of many processes might load everything.
    if told is not None:
        raise told
    if "PMIX_RANK" in environ:  # of a launcher that gives the count to those alone who ask it
        raise _problem("a launcher that tells the number of processes", "only PMIX_RANK")
    return 0, 1


def _in_batch_script(environ: Mapping[str, str]) -> bool:
    """Whether this is a SLURM job's own shell, and not one of the tasks that srun starts.

    The script of a job has rank 0 and the job's number of tasks in its environment, but it
    is one process, and no step: taken for shard 0 it would silently load a part of the data.
    Another rank is that of a task, also where something has taken the step out.
    """
    if environ.get("SLURM_PROCID", "0").strip() not in ("", "0"):
        return False
    step = ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS")
    return "SLURM_JOB_ID" in environ and not any(name in environ for name in step)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    # Only plain digits: int() would also take "1_0" and "+1".
    if not (text.isascii() and text.isdigit()):
        raise _problem(f"{name} to be an integer >= 0", repr(environ[name]))
    if len(text) > 18 or int(text) > _MOST:
        got = f"one of {len(text)} digits" if len(text) > 18 else repr(text)
        raise _problem(f"{name} to be an integer up to {_MOST}", got)
    return int(text)


def _problem(expected: str, got: str) -> ConfigError:
    hint = 'correct the environment, or give {"index": ..., "count": ...}'
    return ConfigError(Problem("/shard", expected, got, hint))


def _torch_processes() -> tuple[int, int] | None:
    """Ask torch, if the program has imported it: some ways to start processes set no variables."""
    there: Any = sys.modules.get("torch.distributed")
    # A torch that was built without it has the module, and less in it.
    if not hasattr(there, "is_initialized") or not there.is_initialized():
        return None
    count = int(there.get_world_size())
    # A group of one may be there to write a checkpoint: then others are asked.
    return (int(there.get_rank()), count) if count > 1 else None


def _jax_processes() -> tuple[int, int] | ConfigError | None:
    """Ask jax, if the program has imported it, for index and count of the processes.

    None where there is this one alone; what is to be raised where it cannot be told, unless a
    launcher tells it.
    """
    jax: Any = sys.modules.get("jax")
    if not hasattr(jax, "distributed"):
        return None
    if hasattr(jax.distributed, "is_initialized"):  # since 0.5.1
        running = jax.distributed.is_initialized()
        return (int(jax.process_index()), int(jax.process_count())) if running else None
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if hasattr(state, "client"):
        if state.client is None:
            return None
        if hasattr(state, "num_processes"):  # the first ones did not keep it
            return int(state.process_id), int(state.num_processes)
    version = getattr(jax, "__version__", "of an unknown version")
    return _problem("jax 0.5.1 or newer, which tells how many processes it has", f"jax {version}")
