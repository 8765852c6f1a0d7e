"""What is run on a schedule: a program with a text, from which it is made again.

The text is a family and its options: ``engine end=break workers=2``. Options that have their
default are left out.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Program:
    """A program: called with a `SimRuntime`, as the main task of a schedule.

    Attributes:
        every: before what there is a scheduling point: each "call" of the runtime, and, in
            the files whose path begins with one of `traced`, each "line" or "opcode".
    """

    every: str = "call"

    family: ClassVar[str] = ""
    traced: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls):
        Program.families[cls.family] = cls

    def __str__(self):
        options = [(field, getattr(self, field.name)) for field in fields(self)]
        return " ".join(
            [self.family, *(f"{f.name}={value}" for f, value in options if value != f.default)]
        )

    def __call__(self, sim):
        raise NotImplementedError


def program(text):
    """Make a program from its text.

    Raises:
        ValueError: the text is of no program.
    """
    try:
        family, *options = text.split()
        kind = Program.families[family]
        types = {field.name: field.type for field in fields(kind)}
        given = dict(option.split("=", 1) for option in options)
        return kind(**{name: types[name](value) for name, value in given.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected the text of a program, got {text!r} ({error!r})") from error
