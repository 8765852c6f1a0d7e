"""The campaign `model`: what the engine does on random schedules, followed through the protocol.

    python3 tools/campaign model --count 100000 --seed 1
    python3 tools/campaign model --states 3 2 111111

The protocol is a model of its own (`model`). A failure is a trace that it refuses; it tells the
text with which the schedule is replayed by the campaign `schedules`. `--states` explores all
states of one size: workers, depth, and a digit for each job, the number of its parts.
"""

import sys
import time

from model import Protocol, Size, Wrong, explore, traces

from .cases import Part, parser, run


def work(seed, numbers):
    """Run the schedules of some numbers, and follow what was seen."""
    part = Part(sums={"events": 0})
    for found in traces(seed, numbers):
        part.cases += 1
        part.distinct.add(found.digest)
        part.sums["events"] += found.events
        part.most["states"] = max(part.most.get("states", 0), found.states)
        if found.failure:
            part.failures.append(found.failure)
    return part


def states(workers, depth, parts):
    """Explore all states of one size; give the exit code."""
    began, size = time.process_time(), Size(workers, depth, tuple(map(int, parts)))
    try:
        found = explore(Protocol(size))
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    print(
        f"model: {workers} workers, depth {depth}, parts {parts}: {found.states:,} states,"
        f" {found.steps:,} steps, {found.longest} at most to the end, 0 wrong,"
        f" {time.process_time() - began:.0f} s of a processor"
    )
    return 0


def main(args):
    """Give the exit code."""
    made = parser("model", "Follows random schedules of the engine through its protocol.", 100_000)
    made.add_argument(
        "--states", nargs=3, metavar=("WORKERS", "DEPTH", "PARTS"), help="explore all of one size"
    )
    options = made.parse_args(args)
    if options.states is None:
        return run("model", work, options)
    workers, depth, parts = options.states
    numbers = all(map(str.isdecimal, options.states)) and int(workers) and int(depth)
    if not numbers or "0" in parts:
        expected = "two integers from 1, and a digit from 1 for each job"
        made.error(f"--states: expected {expected}, got {' '.join(options.states)}")
    return states(int(workers), int(depth), parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
