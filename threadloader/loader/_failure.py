"""How a failed batch is raised: its source's own exception, with a note of where it happened."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ..engine import Outcome
from ..errors import CollateError, WorkerError, from_signal, name_of, raised_first, traceback_of
from ..jobs import BatchJob

__all__ = [
    "FAILED",
    "ITS_OWN",
    "close_source",
    "closing",
    "explained",
    "is_wrapped",
    "note_beside",
]

ITS_OWN = (
    "a source, sampler, transform, collate or signal handler uses its own loader while that is at "
    "work; give it a Loader of its own"
)
FAILED = "a thread of the loader's own has failed; leave the `with`, and enter it again"

NOTE = "threadloader: "
"""How our notes begin."""

RAISED, CLOSING = "raised for ", "and closing the source failed: "

WRAPPED = (StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt)
"""Raised by user code, these would be taken for an end of the loop or of the program."""

_ENGINE = Outcome.__module__.rpartition(".")[0]
"""The package in which jobs are called, and what they raise is caught."""

_MODULE, _MRO = vars(type)["__module__"].__get__, vars(type)["__mro__"].__get__
"""Give these of a class, as `name_of` does its name."""


def explained(outcome: Outcome, error: BaseException, epoch: int, more: str = "") -> BaseException:
    """Give what to raise for a failed batch.

    Args:
        outcome: the batch's.
        error: what was raised for it.
        epoch: the epoch whose order failed, where there is no batch.
        more: what else there is to say in the note.

    Returns:
        The error itself, with a note of sample, step and epoch. If it would be taken for an
        end, or does not take the note: a `WorkerError` with it as its cause.
    """
    _forget_older(error)
    job: BatchJob | None = outcome.job  # never a group: its batches are made anew, one by one
    what = f"the order of epoch {epoch}" if job is None else "a batch"
    try:
        # These lines may run code of the user's: a source says where a sample stands, an
        # exception takes a note.
        if job is not None:
            what = job.describe(outcome.part) + more
            # A CollateError of a source or a transform is about rows of some batch of theirs.
            if isinstance(error, CollateError) and job.row_of(outcome.part) is None:
                error.samples = _samples(job, error.rows)
        if not is_wrapped(error) and noted(error, f"{RAISED}{what}", RAISED, CLOSING):
            return error
    except BaseException as problem:
        if from_signal(problem):
            raise
        what += f", and then {name_of(type(problem))}, when it was to be told where"
    wrapper = wrapping(error, f"for {what}")
    wrapper.__cause__ = error
    return wrapper


def wrapping(error: BaseException, when: str) -> WorkerError:
    """Make what is raised in place of an error, which becomes its cause."""
    return WorkerError(f"{name_of(type(error))} was raised {when}; see its cause")


def is_wrapped(error: BaseException) -> bool:
    """Tell whether an error would be taken for an end, or, in a coroutine, for that of its task.

    Its class alone decides: isinstance would ask the error itself, which may be of any kind.
    """
    # By name, so that asyncio is not imported for this.
    names = [(_MODULE(kind), name_of(kind)) for kind in _MRO(type(error))]
    return issubclass(type(error), WRAPPED) or ("asyncio.exceptions", "CancelledError") in names


def close_source(close: Callable[[], object]) -> None:
    """Close a source.

    Raises:
        WorkerError: in place of what would be taken for an end.
        Exception: whatever else closing raises.
    """
    try:
        close()
    except BaseException as problem:
        if is_wrapped(problem) and not from_signal(problem):
            raise wrapping(problem, "while the source was closed") from problem
        raise


def _forget_older(error: BaseException) -> None:
    """Cut off the frames of earlier batches of the run for which the same error was raised.

    A class may keep one error object and raise it for all that fails. Python puts the frames of
    each raise in front of those of the last one, and a frame keeps its locals alive: memory would
    grow with the run.
    """
    steps = []
    step = traceback_of(error)
    while step is not None:
        steps.append(step)
        step = step.tb_next
    ours = [at for at, it in enumerate(steps) if _package_of(it.tb_frame) == _ENGINE]
    if len(ours) < 2:  # as nearly always; to look into a frame may leave a copy of its locals there
        return
    recipe = _recipe_of(steps[ours[0]].tb_frame)
    older = next((at for at in ours[1:] if _recipe_of(steps[at].tb_frame) is recipe), None)
    if recipe is None or older is None:
        return
    kept = steps[:older]
    # Cut off, too, how the raise before came to the loop from where this package raised it.
    if _package_of(kept[-1].tb_frame) == __package__:
        while len(kept) > 1 and kept.pop().tb_frame.f_back is kept[-1].tb_frame:
            pass
    traceback: TracebackType | None = None
    for it in reversed(kept):  # new objects: somebody may keep the traceback from before
        traceback = TracebackType(traceback, it.tb_frame, it.tb_lasti, it.tb_lineno)
    BaseException.with_traceback(error, traceback)


def _package_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")  # of code of the user's it may be anything
    return name.rpartition(".")[0] if type(name) is str else ""


def _recipe_of(frame: FrameType) -> Any:
    """Give the recipe of the job that a frame of the engine's has called; else None.

    The loader that a source of the user's may read from has a recipe of its own.
    """
    work = frame.f_locals.get("function", frame.f_locals.get("work"))
    return getattr(getattr(work, "__self__", None), "_recipe", None)


def _samples(job: BatchJob, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Give the samples of some rows; none where a collate names rows that are not there."""
    indices = job.info().indices.tolist()
    there = all(0 <= row < len(indices) for row in rows)
    return tuple(indices[row] for row in rows) if there else ()


def noted(error: BaseException, text: str, *over: str) -> bool:
    """Add a note of ours, in place of earlier ones that begin with one of `over`; say if it worked.

    One object may be raised again and again: its notes must not grow without end.
    """
    note, begin = NOTE + text, tuple(NOTE + it for it in over)
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        notes[:] = [old for old in notes if not (isinstance(old, str) and old.startswith(begin))]
    error.add_note(note)
    return note in error.__notes__


def note_beside(error: BaseException, problem: BaseException) -> None:
    """Note on a body's exception that closing failed as well; raise nothing that would hide it."""
    try:
        try:
            # Tell what `close_source` has wrapped, not the wrapper: a note shows no cause.
            told = repr(raised_first(problem) if type(problem) is WorkerError else problem)
        except BaseException as hostile:
            if from_signal(hostile):
                raise
            told = name_of(type(problem))
        noted(error, f"{CLOSING}{told}", CLOSING)
    except BaseException as hostile:
        if from_signal(hostile):
            raise


def closing(close: Callable[[], object], error: BaseException | None) -> None:
    """Close after a job. What ended the job, a Ctrl-C say, is not hidden by what this raises."""
    try:
        close()
    except BaseException as problem:
        if error is None or from_signal(problem):
            raise
        note_beside(error, problem)
