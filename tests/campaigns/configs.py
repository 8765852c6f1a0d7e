"""The campaign `configs`: fuzzed configs, held against `json`, `jsonschema` and each other.

    python3 tools/campaign configs --count 100000 --seed 1
    python3 tools/campaign configs --seed 1 --replay 4711

Each is a file, written right and then changed at random (`fuzzed_configs`). The check behind
`threadloader check`, `Loader` and its `__enter__`, `LoaderConfig` and the verdict that is worked
out by other means (`verdicts`) must agree, and nothing may be raised but what is promised.
"""

import hashlib
import sys
import tempfile
import traceback
from pathlib import Path

from fuzzed_configs import case
from verdicts import Home

from .cases import Part, parser, run

SLOW = 1.0
"""Seconds: a config that takes as long to be read twice and entered twice is counted."""


def work(seed, numbers):
    """Look at the configs of some numbers."""
    part = Part(sums={"right": 0, "entered": 0, "slow": 0}, most={"seconds for one at most": 0.0})
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        for number in numbers:
            one = case(seed, number)
            told = one.data + one.fragment.encode() + one.unknown.encode()
            part.distinct.add(hashlib.blake2b(told, digest_size=8).digest())
            part.cases += 1
            try:
                look = home.look(one)
            except Exception:  # whatever a config does to its reader
                data = f"{one.data[:500]!r} {one.fragment} {one.unknown}"
                error = traceback.format_exc(limit=-8)
                part.failures.append(f"config {number} of seed {seed}: {data}\n{error}")
                continue
            part.sums["right"] += look.read
            part.sums["entered"] += look.entered
            part.sums["slow"] += look.seconds > SLOW
            part.most["seconds for one at most"] = max(*part.most.values(), look.seconds)
    return part


def main(args):
    """Give the exit code."""
    made = parser("configs", "Fuzzed configs, held against json and jsonschema.", 100_000)
    made.add_argument("--replay", type=int, metavar="NUMBER", help="look at one config")
    options = made.parse_args(args)
    if options.replay is None:
        return run("configs", work, options)
    part = work(options.seed, range(options.replay, options.replay + 1))
    print(case(options.seed, options.replay), *part.failures, sep="\n")
    return int(bool(part.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
