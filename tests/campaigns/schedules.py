"""The campaign `schedules`: random schedules of engine and loader, as many as one likes.

    python3 tools/campaign schedules --count 1000000 --seed 7
    python3 tools/campaign schedules --replay 'engine end=break workers=2 parts=12 at=1@0012'
    python3 tools/campaign schedules --all 'engine end=full workers=2 parts=1111' --bound 2

A failure tells the text for `--replay`.
"""

import sys
import traceback

from sim import SimulationError, exhaust, explore, pairs, program, replay

from .cases import Part, parser, run


def work(seed, numbers):
    """Run the schedules of some numbers."""
    failures = []
    explored = explore(pairs(seed, numbers), failures)
    return Part(
        explored.schedules, explored.distinct, list(map(told, failures)), {"steps": explored.steps}
    )


def told(failure):
    """Give the text of a failure, with its notes and causes."""
    return "".join(traceback.format_exception(failure))


def main(args):
    """Give the exit code."""
    made = parser("schedules", "Runs engine and loader on random schedules.", 100_000)
    made.add_argument("--replay", metavar="TEXT", help="run the one schedule that a failure told")
    made.add_argument("--all", metavar="PROGRAM", help="run all schedules of one program")
    made.add_argument("--bound", type=int, default=2, help="with --all: preemptions at most (2)")
    options = made.parse_args(args)
    try:
        if options.replay is not None:
            one = replay(options.replay)
            print(f"schedules: no failure in {len(one.trace)} steps")
        elif options.all is not None:
            explored = exhaust(program(options.all), options.bound, options.count)
            print(f"schedules: {explored.schedules:,} with {options.bound} preemptions, 0 failed")
        else:
            return run("schedules", work, options)
    except SimulationError as failure:
        print(told(failure), file=sys.stderr)
        return 1
    except (ValueError, RuntimeError) as error:
        made.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
