"""The campaign `cycles`: loaders are made, started and left, in every way, over and over.

    python3 tools/campaign cycles --count 200000 --seed 1

The ways stand in `ways`; after each 25 lives that were left in one way it is looked at what is
left behind (`leaks`). A failure tells the call of `lifecycle.block` that repeats it.
"""

import sys
import traceback

from lifecycle import BLOCK, block
from ways import WAYS

from .cases import Part, parser, run


def work(seed, numbers):
    """Live the lives of some numbers."""
    part, names = Part(sums={"looks": 0}), list(WAYS)
    for first in range(numbers.start, numbers.stop, BLOCK):
        number = first // BLOCK
        lives = min(BLOCK, numbers.stop - first)
        try:
            # Far from the seeds of the test of every day.
            part.distinct |= block(names[number % len(names)], 10**9 + seed, number, lives)
        except Exception as error:
            part.failures.append("".join(traceback.format_exception(error)))
        part.cases += lives
        part.sums["looks"] += 1
    return part


def main(args):
    """Give the exit code."""
    made = parser("cycles", "Makes, starts and leaves loaders, in every way.", 200_000)
    return run("cycles", work, made.parse_args(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
