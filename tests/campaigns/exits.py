"""The campaign `exits`: programs end in every topology with a loader left open.

    python3 tools/campaign exits --count 5000 --seed 1

The topologies come in turn (`exits`), with workers, state and a pause that are drawn: after it the
threads are anywhere. Most ends are forks of one process; each sixteenth round has interpreters of
its own. The exit code must be exact, and nothing on stdout and stderr (`ends`).
"""

import os
import random
import sys
import tempfile
from pathlib import Path

from ends import Ends, Way, end_alone
from exits import CODES, STATES

from .cases import Part, parser, run

WORKERS = (0, 1, 3, 8)
ALONE = 16
"""Of so many rounds over the topologies one has interpreters of its own."""

LONGEST_PAUSE = 0.005
ALONE_TOLD, SLOW = "interpreters of their own", "forks that took more than a second"
MEASURED = "seconds from a fork to its end at most"


def drawn(seed, number):
    """Give the way of a number, and whether it is a fork."""
    draw = random.Random(f"{seed}/{number}")
    pause = draw.choice([0.0, draw.uniform(0.0, LONGEST_PAUSE)])
    turn, place = divmod(number, len(CODES))
    way = Way(list(CODES)[place], draw.choice(WORKERS), draw.choice(STATES), pause)
    return way, turn % ALONE != ALONE - 1


def work(seed, numbers):
    """Bring about the ends of some numbers."""
    part = Part(sums={"forks": 0, ALONE_TOLD: 0, SLOW: 0}, most={MEASURED: 0.0})
    if hasattr(os, "sched_setaffinity"):
        # A program that ends has all processors, other than a campaign's process.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder, Ends(Path(folder)) as ends:
        for number in numbers:
            way, forked = drawn(seed, number)
            expected = CODES[way.topology], "", ""
            came = ends.end(way) if forked else end_alone(way)
            if expected != came:
                called = " ".join(way.arguments())
                kind = "a fork" if forked else "a process"
                text = f"end {number} of seed {seed}, {kind}: python3 tests/exits.py {called}"
                part.failures.append(f"{text}\nexpected {expected}, got {came}")
            part.cases += 1
            part.distinct.add(repr((way, forked)).encode())
            part.sums["forks" if forked else ALONE_TOLD] += 1
            if forked:
                part.sums[SLOW] += ends.seconds > 1.0
                part.most[MEASURED] = max(part.most[MEASURED], ends.seconds)
    return part


def main(args):
    """Give the exit code."""
    made = parser("exits", "Programs that end with a loader left open.", 5000)
    return run("exits", work, made.parse_args(args), chunk=100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
