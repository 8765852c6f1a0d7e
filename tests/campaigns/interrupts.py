"""The campaign `interrupts`: a Ctrl-C at every instruction that the consumer executes.

    python3 tools/campaign interrupts
    python3 tools/campaign interrupts --raises MemoryError      a handler that raises this
    python3 tools/campaign interrupts --count 20000 --seed 3    as many of them, drawn at random
    python3 tools/campaign interrupts --garbage                 closes the batches, in its place

Runs and what is looked at: `swept`; how an interrupt is placed: `sweep`. There are as many
numbers as each run had instructions when nothing happened to it. A run with threads is not of
one length: one that is longer is not interrupted beyond that, one that is shorter not at all.
"""

import functools
import gc
import random
import sys
import traceback

import swept
from conftest import our_threads
from swept import KINDS

from . import cases

NAMES = ("closed", "going_on", "twice")
GARBAGE = ("collected",)
RAISES = {kind.__name__: kind for kind in (KeyboardInterrupt, MemoryError, SystemExit)}
SWALLOWED = "reported by CPython and swallowed"


def lengths(names=NAMES):
    """List (name, kind, instructions of a run in which nothing happens)."""
    return [
        (name, kind, getattr(swept, name)(kind, sys.maxsize, opcodes=True).passed)
        for name in names
        for kind in KINDS
    ]


def placed(number, there):
    """Give (name, kind, at) of a number; None behind the last one."""
    for name, kind, length in there:
        if number < length:
            return name, kind, number + 1
        number -= length
    return None


def work(seed, numbers, raises="KeyboardInterrupt", garbage=False):
    """Interrupt at the instructions of some numbers; with a seed, at as many drawn at random."""
    there = lengths(GARBAGE if garbage else NAMES)
    part = cases.Part(sums={"collected": 0} if garbage else {"interrupted": 0, SWALLOWED: 0})
    raised = [] if garbage else [RAISES[raises]]
    most = sum(length for *_, length in there)
    gc.collect()
    gc.freeze()
    for number in numbers:
        if seed:
            number = random.Random(f"{seed}/{number}").randrange(most)
        case = placed(number, there)
        if case is None:
            break
        name, kind, at = case
        try:
            sweep = getattr(swept, name)(kind, at, *raised, opcodes=True)
            assert set() == our_threads(), f"threads are left: {our_threads()}"
            part.sums["collected" if garbage else "interrupted"] += bool(sweep.where)
            if not garbage:
                part.sums[SWALLOWED] += sweep.act.reported
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            called = f"swept.{name}({kind!r}, {at}, {'' if garbage else raises + ', '}opcodes=True)"
            part.failures.append(f"{text}the case: {called}")
        part.cases += 1
        part.distinct.add(f"{name}{kind}{at}".encode())
    gc.unfreeze()
    return part


def main(args):
    """Give the exit code."""
    garbage = "--garbage" in args  # not shortened: `parser` takes options in full alone
    most = sum(length for *_, length in lengths(GARBAGE if garbage else NAMES))
    made = cases.parser("interrupts", "A Ctrl-C at every instruction of the consumer.", most)
    kinds = ", ".join(RAISES)
    either = made.add_mutually_exclusive_group()
    either.add_argument("--raises", choices=RAISES, default="KeyboardInterrupt", help=kinds)
    either.add_argument("--garbage", action="store_true", help="collect garbage, raise nothing")
    options = made.parse_args(args)
    how = functools.partial(work, raises=options.raises, garbage=options.garbage)
    return cases.run("interrupts", how, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
