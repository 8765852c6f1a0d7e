"""The campaign `faults`: one point of a run fails with an exception of the zoo, at random.

    python3 tools/campaign faults --count 200000 --seed 1
    python3 tools/campaign faults --replay 'point=read hit=3 always=0 error=plain workers=1'

Points, exceptions and what is looked at: `points`, `zoo` and `injected`. A failure tells the
text for `--replay`.
"""

import random
import sys
import traceback
from hashlib import blake2b

from injected import Case, drawn, run, undisturbed

from . import cases


def work(seed, numbers):
    """Run the cases of some numbers."""
    part = cases.Part(sums={"with a failure raised": 0, "failures raised": 0})
    with undisturbed():
        for number in numbers:
            case = drawn(random.Random(f"{seed}/{number}"))
            try:
                raised = run(case)
            except Exception as error:
                part.failures.append(told(case, error))
                raised = 0
            part.cases += 1
            part.distinct.add(blake2b(str(case).encode(), digest_size=8).digest())
            part.sums["with a failure raised"] += raised > 0
            part.sums["failures raised"] += raised
    return part


def told(case, error):
    """Give the text of a failed case, and what replays it."""
    text = "".join(traceback.format_exception(error))
    return f"{text}to replay it: python3 tools/campaign faults --replay '{case}'"


def main(args):
    """Give the exit code."""
    made = cases.parser("faults", "One point of a run fails, and what must hold then.", 200_000)
    made.add_argument("--replay", metavar="TEXT", help="run the one case that a failure told")
    options = made.parse_args(args)
    if options.replay is None:
        return cases.run("faults", work, options)
    try:
        case = Case.read(options.replay)
    except ValueError as error:
        made.error(str(error))
    try:
        with undisturbed():
            raised = run(case)
    except Exception as error:
        print(told(case, error), file=sys.stderr)
        return 1
    print(f"faults: nothing wrong, with {raised} failures raised")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
