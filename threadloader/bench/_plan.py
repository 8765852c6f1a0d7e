"""`Plan`: what is measured and for how long, and its options on the command line."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from .._named import add_code, add_config, integer, number
from ..errors import ConfigError, Problem, shown

__all__ = ["STEPS", "Plan", "add_arguments"]

STEPS = ("sleep", "gil", "numpy")

EXPECTED = {
    "workers": "integers from 0 to 1024",
    "seconds": "a number above 0, up to 86400",
    "batches": "an integer from 2 to 10**9",
    "repeat": "an integer from 1 to 1000",
    "step": f"one of {', '.join(STEPS)}",
    "step_ms": "a number from 0 to 60000",
    "compare": '"torch" or ""',
}
"""What each attribute of a plan may be, in words."""

DESCRIPTION = """\
Runs epochs of a config with several numbers of workers, reports the result of each,
and says which one it would choose and why.

Each run is a process of its own, one after the other; the config's num_workers and
num_epochs are replaced, the budget of its on_error is lifted, everything else stays.
Without --step-ms nothing is done with a batch: then samples/s is what loading alone can
reach, and the data wait means nothing.

Exit code: 0 measured; 1 a problem with the config, with what it names, or in a run;
2 bad usage, a file that the system cannot read or write, or a package that is missing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, and for how long.

    Attributes:
        workers: the numbers of workers, each 0 to 1024; sorted, each once.
        seconds: seconds that one run is measured after its first batch; None: no bound. By
            default 2, or no bound where `batches` is given.
        batches: batches that one run is measured for, at least 2, the first one included;
            None: no bound. Whichever is reached first ends the run; epochs are repeated as
            often as needed.
        repeat: runs of each setting, 1 to 1000. They are taken in turns, so that whatever else
            the machine does affects all of them alike.
        step: what stands in for the training step: "sleep" waits without the GIL, like a loop
            that waits for an accelerator; "gil" is a loop of Python code; "numpy" multiplies
            matrices.
        step_ms: how long a step takes where nothing else runs, in milliseconds, 0 to
            60,000; 0: no step.
        compare: "torch" to run PyTorch's DataLoader beside it, or "".

    Raises:
        ConfigError: one of them is out of bounds; it names the option of the command line.

    >>> Plan(workers=(4, 0, 4)).workers
    (0, 4)
    """

    workers: tuple[int, ...] = (0, 1, 2, 4, 8)
    seconds: float | None = None
    batches: int | None = None
    repeat: int = 3
    step: str = "sleep"
    step_ms: float = 0.0
    compare: str = ""

    def __post_init__(self) -> None:
        seconds = 2.0 if self.seconds is None and self.batches is None else self.seconds
        object.__setattr__(self, "seconds", seconds)
        right = {
            "workers": bool(self.workers) and all(_whole(n, 0, 1024) for n in self.workers),
            "seconds": seconds is None or (_number(seconds, 86400) and seconds > 0),
            "batches": self.batches is None or _whole(self.batches, 2, 10**9),
            "repeat": _whole(self.repeat, 1, 1000),
            "step": self.step in STEPS,
            "step_ms": _number(self.step_ms, 60000),
            "compare": self.compare in ("", "torch"),
        }
        problems = [
            Problem(f"--{name.replace('_', '-')}", expected, shown(getattr(self, name)))
            for name, expected in EXPECTED.items()
            if not right[name]
        ]
        if problems:
            raise ConfigError(problems)
        object.__setattr__(self, "workers", tuple(sorted(set(self.workers))))

    @property
    def loaders(self) -> tuple[str, ...]:
        """The loaders that are measured, ours first."""
        return ("threadloader", self.compare) if self.compare else ("threadloader",)

    @property
    def runs(self) -> int:
        """How many runs that makes."""
        return len(self.workers) * len(self.loaders) * self.repeat

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return asdict(self) | {"workers": list(self.workers)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``threadloader bench`` to a parser."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, usual = parser.add_argument, Plan()
    add_config(parser)
    add(
        "--workers",
        type=_integers,
        default=usual.workers,
        metavar="N,N,...",
        help=f"the numbers of workers to try (default: {','.join(map(str, usual.workers))})",
    )
    add(
        "--step-ms",
        type=number,
        default=usual.step_ms,
        metavar="MS",
        help="how long your training step takes, in milliseconds (default: 0, no step)",
    )
    add(
        "--step",
        choices=STEPS,
        default=usual.step,
        help="what stands in for it: sleep, like waiting for an accelerator (default); gil, Python "
        "code; numpy, matrix products",
    )
    add(
        "--seconds",
        type=number,
        metavar="S",
        help=f"how long to measure each run (default: {usual.seconds:g}, or no bound with"
        " --batches)",
    )
    add(
        "--batches",
        type=integer,
        metavar="N",
        help="how many batches a run lasts, the first one included, whatever time they take; with "
        "--seconds whichever is reached first",
    )
    add(
        "--repeat",
        type=integer,
        default=usual.repeat,
        metavar="N",
        help=f"runs of each setting, taken in turns; medians are shown (default: {usual.repeat})",
    )
    add_code(parser)
    add(
        "--compare",
        choices=["torch"],
        default=usual.compare,
        help="also run the same source under PyTorch's DataLoader, with as many processes",
    )
    add("--json", action="store_true", help="print JSON instead of the table")
    add("--svg", metavar="FILE", help="also draw a picture into this file")


def _integers(text: str) -> tuple[int, ...]:
    """Read ``0,2,16``."""
    try:
        return tuple(integer(part.strip()) for part in text.split(","))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected integers with commas between them, such as 0,2,16, got {text!r}"
        ) from None


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _number(value: object, high: float) -> bool:
    # Written so that NaN is out of bounds.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= high
