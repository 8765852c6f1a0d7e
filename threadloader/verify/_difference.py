"""Makes a run and compares it with the first one, up to the first batch that differs."""

from __future__ import annotations

import contextlib
import copy
import json
from functools import partial

from ..errors import ConfigError, from_signal
from ._case import Case, passing_over
from ._compare import Field, differing
from ._plan import Leg, Run
from ._record import Item, Mark, Tape, VerifyError, follow, made, told
from ._report import Difference

__all__ = ["ShortError", "compared"]


class ShortError(Exception):
    """A run could not be made, since the system does not give what it needs."""


INDICES = 8
"""How many dataset indices are shown."""


def compared(case: Case, run: Run, tape: Tape) -> tuple[Difference | None, list[int]]:
    """Make a run and compare each batch with that of the first one.

    Returns:
        The first difference, or None; and the dataset indices of its batch, those that differ
        first, as far as they are known.

    Raises:
        VerifyError: a batch holds something that cannot be compared.
        ShortError: the system does not give what the run needs.
    """
    expected = iter(tape.marks.items())
    try:
        with contextlib.closing(follow(case, run, tape)) as items:
            for item in items:
                due = next(expected, None)
                if due is None or due[0] != item.place:
                    there = f"epoch {due[0][0]}, step {due[1].step}" if due else "the end"
                    what = f"expected {there}, got a batch"
                    return _steps(run, item.place[0], item.mark, what), []
                mark = due[1]
                if item.mark != mark:
                    # A copy, where it can be made: workers that are ahead may be writing into the
                    # memory of this batch.
                    with passing_over():
                        item = item._replace(batch=copy.deepcopy(item.batch))
                    break
            else:
                missing = next(expected, None)
                if missing is None:
                    return None, []
                (epoch, _), mark = missing
                return _steps(run, epoch, mark, "expected a batch, got the end"), []
    except VerifyError:
        raise
    except Exception as error:
        if from_signal(error):
            raise
        if type(error) is RuntimeError and error.args == ("can't start new thread",):
            raise ShortError("the system starts no more threads") from error
        if isinstance(error, ConfigError) and error.problems[0].pointer == "/num_workers":
            raise ShortError(str(error)) from error  # where gevent has replaced threads
        # Opening and resuming run the user's code.
        return Difference(run=str(run), kind="run", what=told(error)), []
    # Only now that the run is closed: this opens the source once more.
    return _difference(case, run, item, mark, tape)


def _steps(run: Run, epoch: int, mark: Mark, what: str) -> Difference:
    return Difference(run=str(run), kind="steps", what=what, epoch=epoch, step=mark.step)


def _first(indices: list[int]) -> str:
    return ", ".join(map(str, indices[:INDICES]))


def _difference(
    case: Case, run: Run, item: Item, mark: Mark, tape: Tape
) -> tuple[Difference, list[int]]:
    """Say how a batch differs from that of the first run."""
    differs = partial(Difference, run=str(run), epoch=item.place[0], step=item.mark.step)
    expected = tape.kept.get(item.place)
    anew = _anew(case, item)
    info = item.info or (anew and anew.info)
    indices = [] if info is None else info.indices.tolist()
    if item.error or mark.error:
        error = tape.errors.get(item.place)
        what = f"expected {error or 'a batch'}, got {item.error or 'a batch'}"
        return differs(kind="error", what=what), indices
    if item.mark.dealt != mark.dealt:
        what = f"other dataset indices or other padding, got {_first(indices)}"
        skipped = [] if info is None else list(info.skipped)
        if skipped:
            what += f"; left out {_first(skipped)}"
        return differs(kind="order", what=what), [*skipped, *indices]
    if expected is None and anew and anew.mark.content == mark.content:
        expected = anew.batch
    if expected is None:
        what = "not known: the first run's batch is not kept, and made once more it is yet another"
        fields: list[Field] = []
    else:
        fields = differing(expected, item.batch, len(indices))
        what = fields[0].what if fields else "it was overwritten while it was looked at"
    rows = sorted({row for field in fields for row in field.rows})
    found = differs(
        kind="content",
        what=what,
        rows=tuple(rows),
        indices=tuple(indices[row] for row in rows),
        fields=tuple(field.name for field in fields),
    )
    return found, [*found.indices, *indices]


def _anew(case: Case, item: Item) -> Item | None:
    """Make the batch of an item once more, alone and without workers; None where that fails."""
    with passing_over(), case.batches(Leg(0, 1)) as batches:
        batches.load_state_dict(json.loads(item.before))
        return made(item.place, next(iter(batches)), batches.info, "")
    return None
