"""The campaign `bytes`: workloads of very different sizes, under a bound of what is ready.

    python3 tools/campaign bytes --count 100000 --seed 1

Nine of ten are jobs of the engine, one is a loader over arrays. Sizes are drawn over eight orders
of magnitude (five for a loader): evenly, in two steps, all the same, or with a few that are large
among small ones. Workers, bound, depth, jobs that fail, where the run is left, and how fast either
side is are drawn, too.

Looked at: every result comes, in order; what is ready ahead of the consumer (`sized`) and what
the engine tells of it are at most the bound and one result for each worker.
"""

import faulthandler
import functools
import hashlib
import random
import sys
import time
import traceback
from dataclasses import dataclass

import numpy as np
from conftest import our_threads
from sized import Ledger, Sized

from threadloader import Loader
from threadloader.engine import ENDED, Engine

from .cases import Part, parser, run

LARGEST = {"jobs": 10**8, "loader": 10**5}
FILLED = "bytes ahead at most, of what was allowed"


@dataclass(frozen=True)
class Setting:
    """How a workload is run: workers, bound in bytes, and how many jobs to work ahead."""

    workers: int
    most: int
    depth: int


@dataclass(frozen=True)
class Pace:
    """Seconds that a worker rests in a job and the consumer behind a result; None: not at all.

    `left` is the number of the result before which the run is left; None: it is not.
    """

    worker: float | None = None
    consumer: float | None = None
    left: int | None = None


def rest(seconds):
    if seconds is not None:
        time.sleep(seconds)


class Paced(Sized):
    """A job that takes its time."""

    pace = Pace()

    def finish(self):
        rest(self.pace.worker)
        return super().finish()


class Arrays:
    """Sample i is an array of some bytes; it counts as made once it is read."""

    def __init__(self, ledger, sizes, pace):
        self._ledger, self._sizes, self._pace = ledger, sizes, pace

    def __len__(self):
        return len(self._sizes)

    def __getitem__(self, index):
        rest(self._pace.worker)
        self._ledger.made(index, self._sizes[index])
        return np.full(self._sizes[index], index % 251, np.uint8)


def worked(setting, sizes, pace, fails=frozenset(), parts=1):
    """Run jobs; give what part of what is allowed was ready at most."""
    ledger = Ledger()
    engine = Engine(setting.workers, 5.0, max_bytes=setting.most)
    engine.start()
    try:
        jobs = [Paced(ledger, n, size, n in fails, parts) for n, size in enumerate(sizes)]
        for job in jobs:
            job.pace = pace
        stream = engine.stream(iter(jobs), setting.depth)
        for number in range(len(sizes))[: pace.left]:
            ledger.ask(number)
            outcome = stream.result(number)
            if number in fails:
                assert (number,) == outcome.error.args
                outcome.error = None
            else:
                assert number == outcome.value
            rest(pace.consumer)
        if pace.left is None:
            assert ENDED is stream.result(len(sizes))
    finally:
        engine.stop()
    return look(setting, sizes, max(ledger.peak, engine.peak_bytes))


def loaded(setting, sizes, pace):
    """Run a loader; give what part of what is allowed was ready at most."""
    ledger = Ledger()
    config = {"batch_size": 1, "shuffle": False, "num_epochs": 1, "max_bytes": setting.most}
    config |= {"num_workers": setting.workers, "prefetch_batches": setting.depth}
    with Loader(config, Arrays(ledger, sizes, pace)) as batches:
        epoch = iter(batches)
        for number in range(len(sizes))[: pace.left]:
            ledger.ask(number)
            batch = next(epoch)
            assert (1, sizes[number]) == batch.shape
            assert not batch.size or batch[0, -1] == number % 251
            rest(pace.consumer)
        if pace.left is None:
            assert next(epoch, None) is None
        told = batches.stats().peak_bytes
    return look(setting, sizes, max(ledger.peak, told))


def look(setting, sizes, peak):
    allowed = setting.most + setting.workers * max(sizes, default=0)
    assert peak <= allowed, f"{peak:,} bytes were ahead, expected at most {allowed:,}"
    assert set() == our_threads()
    return peak / allowed


def drawn_sizes(draw, largest):
    """Draw how large the results are, one after the other."""
    most = len(str(largest)) - 1
    count = draw.randrange(40)
    scale = [int(10 ** draw.uniform(0, most)) for _ in range(count)]
    shape = draw.choice(["even", "steps", "few", "same"])
    if shape == "steps":
        change = draw.randrange(count + 1)
        scale = [scale[0]] * change + [scale[-1]] * (count - change) if count else []
    elif shape == "few":
        scale = [draw.choice([0, 1, 10]) if draw.random() < 0.9 else size for size in scale]
    elif shape == "same":
        scale = scale[:1] * count
    return scale


def one(seed, number):
    """Run the workload of a number; give its kind, what of the bound was used, what was drawn."""
    draw = random.Random(f"{seed}/{number}")
    kind = "loader" if number % 10 == 9 else "jobs"
    sizes = drawn_sizes(draw, LARGEST[kind])
    near = sum(sizes) * draw.choice([0.01, 0.1, 0.5, 2.0])
    most = max(1, int(draw.choice([draw.uniform(1, 5000), near, max(sizes, default=0)])))
    setting = Setting(draw.randint(1, 4), most, draw.choice([1, 2, 3, 8, 50]))
    # A rest of 0 s lets others run, no rest does not.
    rests = draw.choices([None, 0.0, 0.0001], k=2)
    left = draw.randrange(len(sizes) + 1) if draw.random() < 0.2 else None
    pace = Pace(*rests, left)
    if kind == "loader":
        return kind, loaded(setting, sizes, pace), (setting, sizes, pace)
    fails = {n for n in range(len(sizes)) if draw.random() < draw.choice([0.0, 0.0, 0.3])}
    parts = draw.choice([1, 1, 3])
    told = setting, sizes, pace, sorted(fails), parts
    return kind, worked(setting, sizes, pace, fails, parts), told


def work(seed, numbers, hang=0.0):
    """Run the workloads of some numbers; one that hangs so many seconds ends the process."""
    part = Part(sums={"jobs": 0, "loader": 0}, most={FILLED: 0.0})
    for number in numbers:
        if hang:
            faulthandler.dump_traceback_later(hang, exit=True)
        part.cases += 1
        try:
            kind, filled, told = one(seed, number)
        except Exception:
            text = traceback.format_exc(limit=-8)
            part.failures.append(f"workload {number} of seed {seed}\n{text}")
            continue
        part.sums[kind] += 1
        part.most[FILLED] = max(part.most[FILLED], filled)
        part.distinct.add(hashlib.blake2b(repr(told).encode(), digest_size=8).digest())
    if hang:
        faulthandler.cancel_dump_traceback_later()
    return part


def main(args):
    """Give the exit code."""
    made = parser("bytes", "Workloads of very different sizes, under max_bytes.", 100_000)
    made.add_argument("--replay", type=int, metavar="NUMBER", help="run one workload")
    told = "seconds until a workload counts as a hang, which shows all stacks; 0: never (120)"
    made.add_argument("--hang", type=float, default=120.0, metavar="SECONDS", help=told)
    options = made.parse_args(args)
    if options.replay is None:
        return run("bytes", functools.partial(work, hang=options.hang), options)
    part = work(options.seed, range(options.replay, options.replay + 1))
    print(*part.failures, sep="\n")
    return int(bool(part.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
