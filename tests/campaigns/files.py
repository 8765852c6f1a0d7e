"""The campaign `files`: small files of every format, damaged at random.

    python3 tools/campaign files --count 1000000 --seed 1
    python3 tools/campaign files --seed 1 --replay 4711

The formats come in turn (`damage_kinds`); what may come of a damage says `damages`.
"""

import hashlib
import sys
import tempfile
import traceback
from pathlib import Path

from damages import KINDS, Home, at_random, bounded_memory, quiet, timed

from .cases import Part, parser, run

MEASURED = "seconds for one at most"


def work(seed, numbers, kinds=KINDS):
    """Damage files, by numbers: number n is damage n // k of kind n % k, of k kinds."""
    part = Part(most={MEASURED: 0.0})
    with tempfile.TemporaryDirectory() as folder, bounded_memory(), quiet():
        homes = {}
        for number in numbers:
            damage, at = divmod(number, len(kinds))
            if at not in homes:
                (place := Path(folder, str(at))).mkdir()
                homes[at] = Home(kinds[at], place)
            home = homes[at]
            (data,) = at_random(home, seed, range(damage, damage + 1))
            told = home.kind.name.encode() + data
            part.distinct.add(hashlib.blake2b(told, digest_size=8).digest())
            part.cases += 1
            try:
                came, seconds = timed(home, data)
            except Exception:  # whatever a file does to its reader
                error = traceback.format_exc(limit=-8)
                name = home.kind.name
                part.failures.append(
                    f"file {number} of seed {seed}, {name}: {data!r:.900}\n{error}"
                )
                continue
            part.sums[came] = part.sums.get(came, 0) + 1
            part.most[MEASURED] = max(part.most[MEASURED], seconds)
    return part


def main(args):
    """Give the exit code."""
    made = parser("files", "Small files of every format, damaged at random.", 1_000_000)
    made.add_argument("--replay", type=int, metavar="NUMBER", help="look at one damaged file")
    options = made.parse_args(args)
    if options.replay is None:
        return run("files", work, options)
    part = work(options.seed, range(options.replay, options.replay + 1))
    print(*part.sums, *part.failures, sep="\n")
    return int(bool(part.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
