"""Random runs that are cut and go on, again and again, with what must come beside them.

A run is drawn from a seed. What must come is worked out from the global order of each epoch
by `oracle`, which shares no code with the library. The orders of the samplers that draw are
read off a loader that is not cut: how they are drawn is for other tests to say.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from oracle import expected_cursor, expected_epoch

from threadloader import Loader

KINDS = ("shuffle", "plain", "excluded", "sequence", "callable", "weighted", "subset")
RULES = [(remainder, drop) for remainder in ("pad", "drop", "keep") for drop in (False, True)]
START = (0, 0, 0)
"""A cursor: epoch, position, step."""


class Rows:
    """A source that reads all samples of a batch at once."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return 3 * index + 1

    def __getitems__(self, indices):
        return [self[index] for index in indices]


SOURCES = {
    "array": lambda n: np.arange(n) * 3 + 1,
    "list": lambda n: list(range(1, 3 * n + 1, 3)),
    "rows": Rows,
}
"""The same samples, read in the ways in which batches are made."""


def noisy(sample, rng):
    """A transform whose result tells its place in the order."""
    return int(sample) + (int(rng.bit_generator.random_raw()) >> 2)


@dataclass
class Run:
    """What is the same from cut to cut.

    `orders` holds the dataset indices by epoch and position, `contents` the samples.
    """

    kind: str
    source: object
    n: int
    config: dict
    sampler: object
    transform: object
    orders: list = field(default_factory=list)
    contents: list = field(default_factory=list)

    def loader(self, world=None, resume=None, **config):
        """A loader of one shard, or of the whole world without cuts."""
        given = {"sampler": self.sampler, "transform": self.transform, "resume": resume}
        return Loader({**self.config, **(world or {}), **config}, self.source, **given)

    def read_orders(self):
        """Read each epoch as one batch, and look at those that are known by themselves."""
        with self.loader(batch_size=1000, num_workers=0) as batches:
            for epoch in batches.epochs():
                batch = next(epoch, None)
                none = batch is None
                self.orders.append([] if none else batches.info.indices.tolist())
                self.contents.append([] if none else batch.tolist())
        if self.kind == "plain":
            assert [list(range(self.n))] * len(self.orders) == self.orders
        if self.kind == "shuffle":
            assert all(list(range(self.n)) == sorted(order) for order in self.orders)
        if self.kind == "sequence":
            assert [self.sampler] * len(self.orders) == self.orders
        if self.kind == "callable":
            assert [self.sampler(e, self.n) for e in range(len(self.orders))] == self.orders


def drawn(draw: random.Random) -> Run:
    """A run, drawn at random."""
    kind = draw.choice(KINDS)
    n = draw.choice([0, 1, 2, draw.randint(3, 30), draw.randint(3, 30), draw.randint(3, 30)])
    config = {"seed": draw.getrandbits(64), "num_epochs": draw.randint(1, 4), "shuffle": False}
    sampler = None
    if kind == "weighted" and n:
        weights = [1 + i % 3 for i in range(n)]
        config["sampler"] = {"type": kind, "weights": weights, "num_samples": draw.randint(1, 30)}
    elif kind == "subset":
        indices = [i for i in range(n) if draw.random() < 0.7]
        config["sampler"] = {"type": kind, "indices": indices, "shuffle": True}
    elif kind == "sequence":
        sampler = [draw.randrange(n) for _ in range(draw.randint(0, 30))] if n else []
    elif kind == "callable":
        lists = [[draw.randrange(n) for _ in range(draw.randint(0, 20))] if n else []] * 3
        sampler = lambda epoch, n: lists[epoch % 3][: 20 - 5 * epoch]  # noqa: E731
    else:
        config["shuffle"] = kind != "plain"
    if kind == "excluded":
        config["exclude"] = [i for i in range(n) if draw.random() < 0.3]
    source = SOURCES[draw.choice(list(SOURCES))](n)
    run = Run(kind, source, n, config, sampler, draw.choice([None, noisy]))
    run.read_orders()
    return run


def drawn_world(draw: random.Random) -> dict:
    """How the order is dealt, as the oracle takes it."""
    remainder, drop_last = draw.choice(RULES)
    count, size = draw.choice([1, 1, 2, 3]), draw.randint(1, 5)
    deal = {"batch_size": size, "shard_count": count}
    return deal | {"remainder": remainder, "drop_last": drop_last}


def configured(world: dict, shard: int) -> dict:
    """The same as options of a config."""
    part = {"index": shard, "count": world["shard_count"], "remainder": world["remainder"]}
    return {"batch_size": world["batch_size"], "drop_last": world["drop_last"], "shard": part}


class Chain:
    """One run, cut `cuts` times: each part is played by all shards and held to the oracle."""

    def __init__(self, seed: int, cuts: int, folder, workers: int = 0) -> None:
        self.draw = random.Random(seed)
        self.run = drawn(self.draw)
        self.workers = workers
        self.folder = folder / str(seed)
        self.folder.mkdir()
        self.files = 0
        self.seen = [Counter() for _ in self.run.orders]
        self.loosest = 0  # the largest global batch: so many may be left out of an epoch
        self.begin_world()
        shards = self.world["shard_count"]
        self.cursors, self.states = [START] * shards, [None] * shards
        self.counts = [(0, 0)] * shards
        self.cuts = 0
        for _ in range(cuts):
            self.play(self.drawn_cut())
            self.go_on()
            self.cuts += 1
        self.play((len(self.run.orders), 0))
        self.check_exactly_once()

    def begin_world(self):
        self.world = drawn_world(self.draw)
        self.loosest = max(self.loosest, self.world["batch_size"] * self.world["shard_count"])

    def to_come(self, shard, cursor):
        """Lists (epoch, its first step, its batches) from a cursor on."""
        parts = []
        for epoch in range(cursor[0], len(self.run.orders)):
            _, start, first = cursor if epoch == cursor[0] else START
            rows = expected_epoch(
                self.run.orders[epoch], shard_index=shard, start=start, **self.world
            )
            parts.append((epoch, first, rows))
        return parts

    def drawn_cut(self):
        """An epoch, and how many steps the world makes of what is left of it."""
        left = [(epoch, len(rows)) for epoch, _, rows in self.to_come(0, self.cursors[0])]
        if not left:
            return len(self.run.orders), 0
        reach = self.draw.choice([1, 1, len(left)])
        epoch, steps = self.draw.choice(left[:reach])
        return epoch, self.draw.choice([0, steps, self.draw.randint(0, steps)])

    def play(self, cut):
        """Every shard goes on from its state up to a cut."""
        for shard in range(self.world["shard_count"]):
            config = configured(self.world, shard) | {"num_workers": self.workers}
            config["prefetch_batches"] = self.draw.choice([1, 2, 5, 64])
            with self.run.loader(config, resume=self.states[shard]) as batches:
                self.check_state(batches.state_dict(), shard)
                self.play_shard(batches, shard, cut)
                self.check_state(batches.state_dict(), shard)
                self.states[shard] = self.written(batches)

    def written(self, batches):
        """The state as JSON text or as a file."""
        if self.draw.random() < 0.6:
            return json.loads(json.dumps(batches.state_dict(), allow_nan=False))
        self.files += 1
        path = self.folder / f"{self.files}.state"
        batches.save(path)
        return self.draw.choice([str(path), path])

    def play_shard(self, batches, shard, cut):
        to_come = self.to_come(shard, self.cursors[shard])
        stands = to_come[0][0] if to_come else len(self.run.orders)
        if stands > cut[0] or (cut == (stands, 0) and self.draw.random() < 0.3):
            return  # without an iterator; under "keep" a shard may be in the next epoch already
        for epoch in batches.epochs():
            number, first, rows = to_come.pop(0)
            assert number == epoch.number
            here = rows if number < cut[0] else rows[: cut[1]]
            for step, expected in enumerate(here, first):
                self.check_batch(next(epoch), batches.info, (number, step), expected, shard)
            over = self.move(shard, number, len(here))
            if number < cut[0] or (len(here) == len(rows) and self.draw.random() < 0.5):
                assert [] == list(epoch)
                if not over:
                    self.cursors[shard] = (number + 1, 0, 0)
            if number == cut[0]:
                break
        else:
            assert [] == to_come

    def move(self, shard, number, steps):
        """Move the shard's cursor over steps of an epoch; say whether that ended the epoch."""
        here = self.cursors[shard] if self.cursors[shard][0] == number else (number, 0, 0)
        n = len(self.run.orders[number])
        where = {"shard_index": shard, "start": here[1], **self.world}
        position, over = expected_cursor(n, steps, **where)
        self.cursors[shard] = (number + 1, 0, 0) if over else (number, position, here[2] + steps)
        return over

    def check_batch(self, batch, info, place, expected, shard):
        indices, positions, valid = expected
        assert place == (info.epoch, info.step)
        assert (indices, valid) == (info.indices.tolist(), info.valid.tolist())
        assert [self.run.contents[place[0]][p] for p in positions] == batch.tolist()
        real = [index for index, ok in zip(indices, valid, strict=True) if ok]
        self.seen[place[0]].update(real)
        made, counted = self.counts[shard]
        self.counts[shard] = (made + 1, counted + len(real))

    def check_state(self, state, shard):
        """The state says where the shard stands, and nothing of what is prefetched."""
        world = dict(zip(("epoch", "position", "step"), self.cursors[shard], strict=True))
        for name in ("batch_size", "shard_count"):
            world[name] = self.world[name]
        assert {**world, "skips": []} == state["world"]
        batches, samples = self.counts[shard]
        told = {"index": shard, "batches": batches, "samples": samples}
        assert {**told, "skipped": 0, "fingerprint": ""} == state["shard"]

    def go_on(self):
        """Hand the states over: to the same world, or to another one that shares one of them."""
        if self.draw.random() < 0.5:  # the same world, each shard with a state of its own
            return
        before, (epoch, position, step) = self.world, self.cursors[0]
        # Under "keep" a shard may have had one step less: the one that stands where shard 0 does.
        agreeing = [i for i, cursor in enumerate(self.cursors) if cursor == self.cursors[0]]
        chosen = self.draw.choice(agreeing)
        self.begin_world()
        shards = self.world["shard_count"]
        same = all(before[name] == self.world[name] for name in ("batch_size", "shard_count"))
        self.states = [self.states[chosen]] * shards
        self.cursors = [(epoch, position, step if same else 0)] * shards
        kept = {chosen: self.counts[chosen]} if same else {}
        self.counts = [kept.get(shard, (0, 0)) for shard in range(shards)]

    def check_exactly_once(self):
        """No position came twice, and none is lost but by a rule that leaves some out."""
        for order, seen in zip(self.run.orders, self.seen, strict=True):
            due = Counter(order)
            assert Counter() == seen - due
            assert (due - seen).total() < self.loosest
