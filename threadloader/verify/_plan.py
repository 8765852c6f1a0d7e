"""`Plan`: how much is compared; which runs that makes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from ..config import LoaderConfig
from ..errors import ConfigError, Problem, shown

__all__ = ["DEEP", "EPOCHS", "Leg", "Plan", "Run", "runs"]

DEEP = 16
"""The deepest prefetch that is tried: far more than a training run needs."""

EPOCHS = 2
"""How many epochs a run has: the second shows what the first has changed and should not have.
One where the config's own run has no more: its budget of `on_error` need not last for two."""

MANY = 8
"""The most workers that are tried, unless the config has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is compared.

    Attributes:
        epochs: how many epochs each run has, 1 to 1000; None: two, or one where `num_epochs` of
            the config is 1.
        batches: the most batches of an epoch, 2 to 10**9; None: as many as the run without
            workers makes in a few seconds, which is all of a small dataset.

    Raises:
        ConfigError: one of them is out of bounds; it names the option of the command line.
    """

    epochs: int | None = None
    batches: int | None = None

    def __post_init__(self) -> None:
        bounds = (
            ("--epochs", "an integer from 1 to 1000", self.epochs, 1, 1000),
            ("--batches", "an integer from 2 to 10**9", self.batches, 2, 10**9),
        )
        problems = [
            Problem(option, expected, shown(got))
            for option, expected, got, low, high in bounds
            if got is not None
            and not (isinstance(got, int) and not isinstance(got, bool) and low <= got <= high)
        ]
        if problems:
            raise ConfigError(problems)

    def epochs_of(self, config: LoaderConfig) -> int:
        """Give how many epochs each run of a config has."""
        return self.epochs or min(EPOCHS, config.num_epochs or EPOCHS)


class Leg(NamedTuple):
    """A part of a run that one `Loader` makes.

    Attributes:
        workers: its num_workers.
        depth: its prefetch_batches.
        until: the epoch and the number of its batches after which the leg ends and the state is
            taken; None: this is the last leg.
        hurried: whether threads take turns as often as they can.
    """

    workers: int
    depth: int
    until: tuple[int, int] | None = None
    hurried: bool = False

    def __str__(self) -> str:
        if not self.workers:
            return "num_workers 0"
        text = f"num_workers {self.workers}, prefetch_batches {self.depth}"
        return f"{text}, switching often" if self.hurried else text


class Run(NamedTuple):
    """One way to make the batches: one leg, or several with a resume between them.

    Attributes:
        legs: its parts.
        again: whether it is the first run once more.
        begins: for a run in another process, where it begins there: the epoch and the number of its
            batches before; and the state, as JSON, or "" at the very beginning. None: the run is
            made in this process.
    """

    legs: tuple[Leg, ...]
    again: bool = False
    begins: tuple[tuple[int, int], str] | None = None

    def __str__(self) -> str:
        text = str(self.legs[0]) + (" a second time" if self.again else "")
        for before, leg in zip(self.legs, self.legs[1:], strict=False):
            epoch, number = before.until or (0, 0)
            batches = "1 batch" if number == 1 else f"{number} batches"
            text += f"; after {batches} of epoch {epoch} resumed with {leg}"
        return text if self.begins is None else f"{text}, in another process"


def runs(
    own: tuple[int, int], deep: int, *, epochs: int, steps: int, whole: bool, seed: int
) -> tuple[Run, ...]:
    """Give the runs that are compared with the first, plainest first.

    Args:
        own: num_workers and prefetch_batches of the config.
        deep: the deepest prefetch that memory allows.
        epochs: how many epochs a run has.
        steps: how many batches of an epoch are compared, at least 1.
        whole: whether that is all of them, so that a run can stop at an epoch's end.
        seed: decides after how many batches a run is stopped.

    >>> for run in runs((2, 3), 16, epochs=2, steps=9, whole=True, seed=0)[-2:]:
    ...     print(run)
    num_workers 2, prefetch_batches 3; after 7 batches of epoch 0 resumed with num_workers 8, \
prefetch_batches 16
    num_workers 8, prefetch_batches 1; after 9 batches of epoch 0 resumed with num_workers 1, \
prefetch_batches 3; after 7 batches of epoch 1 resumed with num_workers 0
    """
    usual = min(3, deep)
    plain = [(1, usual), (2, 1), (MANY, usual)]
    plain += [own] if own[0] and own not in plain else []
    found = [Run((Leg(0, own[1]),), again=True)]
    found += [Run((Leg(workers, depth),)) for workers, depth in plain]
    found.append(Run((Leg(max(MANY, own[0]), deep, hurried=True),)))
    draw = random.Random(seed)
    if steps > 1:
        cut = (0, draw.randint(1, steps - 1))
        found.append(Run((Leg(2, usual, cut), Leg(MANY, deep))))
    last = [Leg(1, usual, (epochs - 1, draw.randint(1, steps - 1)))] if steps > 1 else []
    if whole and epochs > 1:
        found.append(Run((Leg(MANY, 1, (epochs - 2, steps)), *last, Leg(0, own[1]))))
    elif epochs > 1 and last:
        found.append(Run((*last, Leg(0, own[1]))))
    return tuple(found)
