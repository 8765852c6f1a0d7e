"""`Plan`: what is measured and for how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ConfigError, Problem, shown

__all__ = ["CODE", "STEPS", "Plan"]

CODE = ("source", "transform", "collate")
"""What may be given in code."""

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
            # Not what gives its items once, nor an array, whose truth is that of its items.
            "workers": isinstance(self.workers, (tuple, list, range))
            and len(self.workers) > 0
            and all(_whole(n, 0, 1024) for n in self.workers),
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


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _number(value: object, high: float) -> bool:
    # Written so that NaN is out of bounds.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= high
