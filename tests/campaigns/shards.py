"""The campaign `shards`: how an order is dealt to a whole world, in cases that are drawn.

    python3 tools/campaign shards --count 1000000 --seed 1

test_order_exhaustive.py has every small case. These are beyond it: up to 64 shards, batches of up
to 316 samples, lengths near their multiples and far from them, an order that is cut anywhere.

Looked at: each shard's steps are those of `oracle`; what all get is each remaining position once,
but for what the rule leaves out, and repeats are marked; "pad" and "drop" give each shard as many
rows; the length is the number of steps. One case in 500 is run by a `Loader` for each shard.
"""

import hashlib
import random
import sys
import traceback

import numpy as np
from dealt import shares
from oracle import expected_epoch, expected_len

from threadloader import Loader
from threadloader.order import Deal, Order

from .cases import Part, parser, run

LOADED = 500
"""One of so many cases is run by loaders."""

LARGEST = 1000


def drawn(seed, number):
    """Draw (n, start, seed, epoch, shuffle, deal) of a number; `deal` is without the index."""
    draw = random.Random(f"{seed}/{number}")
    count = draw.randint(1, 9) if draw.random() < 0.95 else draw.randint(10, 64)
    size = draw.randint(1, 9) if draw.random() < 0.9 else int(10 ** draw.uniform(0, 2.5))
    # Most at a few steps: the rules are about the tail.
    n = int(count * size * draw.uniform(0, 3)) + draw.randint(-2, 2)
    n = min(max(n, 0), LARGEST)
    start = draw.randint(0, n) if draw.random() < 0.25 and number % LOADED else 0
    deal = {"batch_size": size, "shard_count": count}
    deal |= {"remainder": draw.choice(["pad", "drop", "keep"]), "drop_last": draw.random() < 0.3}
    seed = draw.choice([0, 2**64 - 1, draw.getrandbits(64)])
    epoch = 0 if number % LOADED == 0 else draw.choice([0, 1, draw.getrandbits(32)])
    return n, start, seed, epoch, draw.random() < 0.5, deal


def dealt(n, start, seed, epoch, shuffle, deal):
    """Give the steps of every shard: (indices, positions, valid) of each."""
    order = Order(n, seed=seed, epoch=epoch, shuffle=shuffle)
    world = []
    for index in range(deal["shard_count"]):
        shard = Deal(**deal, shard_index=index)
        steps = [tuple(part.tolist() for part in share) for share in shares(shard, order, start)]
        assert len(steps) == shard.steps(n, start)
        world.append(steps)
    return world


def loaded(n, start, seed, epoch, shuffle, deal):
    """Give the same as `dealt`, as loaders deliver it: such cases start at 0."""
    world, order = [], Order(n, seed=seed, epoch=epoch, shuffle=shuffle)
    places = {index: place for place, index in enumerate(order.at(np.arange(n)).tolist())}
    for index in range(deal["shard_count"]):
        shard = {"index": index, "count": deal["shard_count"], "remainder": deal["remainder"]}
        config = {"batch_size": deal["batch_size"], "drop_last": deal["drop_last"], "shard": shard}
        config |= {"shuffle": shuffle, "seed": seed, "num_workers": 0, "num_epochs": 1}
        with Loader(config, np.arange(n)) as batches:
            steps = []
            for batch in batches:
                told, indices = batches.info, batch.tolist()
                assert indices == told.indices.tolist()
                steps.append((indices, [places[i] for i in indices], told.valid.tolist()))
            assert len(steps) == len(batches)
        world.append(steps)
    return world


def look(n, start, world, deal, order):
    """Hold what a world was dealt against the oracle, and against what is promised of it."""
    for index, steps in enumerate(world):
        assert steps == expected_epoch(order, start=start, shard_index=index, **deal), index
        assert len(steps) == expected_len(n - start, shard_index=index, **deal), index
    rows = [[row for step in steps for row in zip(*step, strict=True)] for steps in world]
    every = [row for shard in rows for row in shard]
    assert all(order[position] == index for index, position, _ in every)
    real = sorted(position for _, position, valid in every if valid)
    tail = (n - start) % (deal["batch_size"] * deal["shard_count"])
    out = tail if deal["drop_last"] else 0
    if not deal["drop_last"] and deal["remainder"] == "drop":
        out = tail % deal["shard_count"]
    assert real == list(range(start, n - out))  # each once: shards are disjoint, and cover
    padded = len(every) - len(real)
    counts = {len(shard) for shard in rows}
    if deal["remainder"] == "keep" and not deal["drop_last"]:
        assert padded == 0
        assert max(counts) - min(counts) <= 1
        return
    assert len(counts) == 1  # as many rows on each shard, in as many steps
    assert len({tuple(len(step[0]) for step in steps) for steps in world}) == 1
    pads = deal["remainder"] == "pad" and not deal["drop_last"]
    assert padded == (-tail % deal["shard_count"] if pads else 0)


def work(seed, numbers):
    """Deal the cases of some numbers."""
    part = Part(sums={"rows": 0, "by loaders": 0})
    for number in numbers:
        n, start, *how, shuffle, deal = case = drawn(seed, number)
        by_loaders = number % LOADED == 0 and n > 0
        part.cases += 1
        part.sums["by loaders"] += by_loaders
        part.sums["rows"] += n - start
        part.distinct.add(hashlib.blake2b(repr(case).encode(), digest_size=8).digest())
        try:
            order = list(range(n))
            if shuffle:
                order = Order(n, seed=how[0], epoch=how[1], shuffle=True).at(np.arange(n)).tolist()
                assert sorted(order) == list(range(n))
            look(n, start, (loaded if by_loaders else dealt)(*case), deal, order)
        except Exception:
            text = traceback.format_exc(limit=-8)
            part.failures.append(f"case {number} of seed {seed}: shards.dealt{case}\n{text}")
    return part


def main(args):
    """Give the exit code."""
    made = parser("shards", "Orders that are dealt to whole worlds.", 1_000_000)
    return run("shards", work, made.parse_args(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
