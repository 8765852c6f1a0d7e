"""Rounds of a soak: random runs with errors, breaks and resumes, each batch held to the oracle."""

import json
import random
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cuts import Chain
from oracle import expected_epoch

from threadloader import Batches, Loader
from threadloader.sources import per_thread

MOST = 1500
"""Samples of the largest source."""

WIDE = 128
"""Samples of the source whose batches have a memory that is used again."""

HELD = 64
"""Batches that are kept and looked at again: by then a changed one would show."""


class Bad(Exception):
    """What a sample fails with. Holds the sample's number."""


class Left(Exception):
    """What a body is left with."""


class Rows:
    """A source of our own, read in lists."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return 3 * index + 1

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices]


class Failing:
    """One that is read sample by sample, and fails at some."""

    def __init__(self, n: int, bad: set[int]) -> None:
        self.n = n
        self.bad = bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        number = 3 * index + 1
        if number in self.bad:
            raise Bad(number)
        return number


class Refusing:
    """A transform that fails at some samples."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad

    def __call__(self, sample: Any) -> Any:
        number = numbers([sample])[0]
        if number in self.bad:
            raise Bad(number)
        return sample


def numbers(batch: Any) -> list[int]:
    """Give the numbers of the samples of a batch, whatever it is made of."""
    if isinstance(batch, dict):
        batch = batch["x"]
    elif isinstance(batch, list) and isinstance(batch[0], dict):
        batch = [sample["x"] for sample in batch]
    if isinstance(batch, np.ndarray) and batch.ndim == 2:
        assert (batch == batch[:, :1]).all(), "a row of several samples"
        batch = batch[:, 0]
    elif isinstance(batch, list) and isinstance(batch[0], np.ndarray):  # rows of the wide one
        batch = [row.flat[0] for row in batch]
    return [int(sample) for sample in batch]


class Files:
    """The data files of a soak, and one wide array, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = np.arange(MOST) * 3 + 1
        np.save(folder / "x.npy", self.values)
        np.savez(folder / "x.npz", x=self.values)
        (folder / "x.txt").write_text("".join(f"{value}\n" for value in self.values))
        (folder / "x.jsonl").write_text("".join(f'{{"x": {v}}}\n' for v in self.values))
        self.wide = np.repeat(self.values[:WIDE].astype(np.float32)[:, None], 8192, axis=1)

    def source(self, kind: str, draw: random.Random, bad: set[int]) -> tuple[int, Any, Any]:
        """Give the number of samples, a source in code and one in the config."""
        n = draw.choice([draw.randint(0, 40), draw.randint(1, MOST)])
        if kind == "wide":
            return WIDE, self.wide, None
        if kind in ("npy", "npz", "text", "jsonl"):
            name = "x.txt" if kind == "text" else f"x.{kind}"
            return MOST, None, {"type": kind, "path": str(self.folder / name)}
        made: dict[str, Callable[[], Any]] = {
            "list": self.values[:n].tolist,
            "array": lambda: self.values[:n],
            "dict": lambda: {"x": self.values[:n], "y": self.values[:n] / 2},
            "rows": lambda: Rows(n),
            "failing": lambda: Failing(n, bad),
            "per_thread": lambda: per_thread(lambda: Rows(n)),
        }
        return n, made[kind](), None


KINDS = ["list", "array", "dict", "rows", "failing", "per_thread", "wide"]
KINDS += ["npy", "npz", "text", "jsonl"]


class Soak:
    """Plays rounds, one after the other, and counts.

    Args:
        seed: rounds are drawn from it.
        folder: for data files.

    Attributes:
        count: what came so far: rounds, batches, samples, errors, breaks, resumes.
        held: the last batches, with the numbers that they had when they came.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.files = Files(folder)
        self.count: Counter[str] = Counter()
        self.held: deque[tuple[Any, list[int]]] = deque()

    def round(self) -> None:
        """Play the next round.

        Raises:
            AssertionError: a batch, an error or an epoch is not what must come.
        """
        number = self.count["rounds"]
        draw = random.Random(f"{self.seed}, {number}")
        try:
            if draw.random() < 0.2:  # worlds that change, and every sampler
                with tempfile.TemporaryDirectory() as folder:
                    workers = draw.choice([0, 1, 2, 4])
                    chain = Chain(draw.getrandbits(40), draw.randint(1, 3), Path(folder), workers)
                    self.count["resumes"] += chain.cuts
            else:
                Round(self, draw).play()
        except BaseException as error:
            error.add_note(f"round {number} of seed {self.seed}")
            raise
        self.count["rounds"] += 1

    def rounds(self, how_many: int) -> None:
        """Play some rounds."""
        for _ in range(how_many):
            self.round()

    def hold(self, batch: Any, came: list[int]) -> None:
        """Keep a batch, and look again at the one that was kept the longest."""
        self.held.append((batch, came))
        if len(self.held) > HELD:
            self.let_go(1)

    def let_go(self, how_many: int) -> None:
        """Look again at batches that were kept, and keep them no longer."""
        for _ in range(how_many):
            batch, came = self.held.popleft()
            assert came == numbers(batch), "a batch was changed after it was delivered"


class Round:
    """One run: over several epochs and, by its resumes, several loaders."""

    def __init__(self, soak: Soak, draw: random.Random) -> None:
        self.soak = soak
        self.count = soak.count
        self.draw = draw
        self.epoch, self.step = 0, 0  # what must come next
        self.failed = False  # the exception in the place of that has come, and no `next` since
        self.broken = False  # so the next epoch follows, whatever is left
        self.bad: set[int] = set()
        kind = draw.choice(KINDS)
        n, self.source, spec = soak.files.source(kind, draw, self.bad)
        if kind == "failing" or draw.random() < 0.2:
            self.bad |= {3 * draw.randrange(n) + 1 for _ in range(draw.randint(1, 4)) if n}
        self.transform = Refusing(self.bad) if kind != "failing" and self.bad else None
        size = draw.randint(32, 48) if kind == "wide" else draw.choice([1, draw.randint(2, 64)])
        shards = draw.choice([1, 1, 1, 2, 3])
        self.deal: dict[str, Any] = {
            "batch_size": size,
            "shard_count": shards,
            "shard_index": draw.randrange(shards),
            "remainder": draw.choice(["pad", "drop", "keep"]),
            "drop_last": draw.random() < 0.3,
        }
        self.config = {
            "batch_size": size,
            "drop_last": self.deal["drop_last"],
            "shard": {
                "index": self.deal["shard_index"],
                "count": shards,
                "remainder": self.deal["remainder"],
            },
            "seed": draw.getrandbits(64),
            "shuffle": draw.random() < 0.7,
            "num_epochs": draw.randint(1, 3),
            "fingerprint": draw.random() < 0.2,
            **({"source": spec} if spec else {}),
        }
        self.chance = 1 / draw.choice([20, 200])  # that a step is followed by a break
        self.epochs = [expected_epoch(order, **self.deal) for order in self.orders(n)]

    def orders(self, n: int) -> Iterator[list[int]]:
        """Read the global order of each epoch off a loader that nothing happens to."""
        plain = {name: self.config[name] for name in ("seed", "shuffle", "num_epochs")}
        plain |= {"batch_size": max(n, 1), "num_workers": 0}
        with Loader(plain, np.arange(n)) as batches:
            for epoch in batches.epochs():
                order = np.concatenate([np.arange(0), *epoch]).tolist()
                assert list(range(n)) == sorted(order)
                yield order

    def play(self) -> None:
        state = None
        while True:
            config = {
                **self.config,
                "num_workers": self.draw.choice([0, 1, 2, 3, 8]),
                "prefetch_batches": self.draw.choice([1, 3, 16]),
            }
            loader = Loader(config, self.source, transform=self.transform, resume=state)
            try:
                with loader as batches:
                    again = self.live(batches)
                    state = batches.state_dict()
                    if again and self.draw.random() < 0.5:
                        raise Left
            except Left:
                pass
            if not again:
                break
            state = json.loads(json.dumps(state))
            self.failed = False  # what has failed comes again
            self.count["resumes"] += 1
        assert len(self.epochs) - 1 == self.epoch
        assert self.broken or len(self.epochs[-1]) == self.step

    def live(self, batches: Batches) -> bool:
        """Take batches; tell whether the run is to go on with another loader."""
        for epoch in batches.epochs():
            if epoch.number != self.epoch:
                whole = len(self.epochs[self.epoch]) == self.step
                assert (self.epoch + 1, True) == (epoch.number, whole or self.broken)
                self.epoch, self.step, self.broken = epoch.number, 0, False
            while self.take(batches, epoch):
                what = self.draw.random() / self.chance
                if what < 0.5:
                    return True
                if what < 1:
                    self.count["breaks"] += 1
                    self.broken = True
                    self.step += self.failed
                    self.failed = False
                    break
        return False

    def take(self, batches: Batches, epoch: Iterator[Any]) -> bool:
        """Take what comes next; tell whether it was not the end of the epoch."""
        if self.failed:
            self.failed = False
            self.step += 1
        expected = self.epochs[self.epoch]
        batch = error = None
        try:
            batch = next(epoch)
        except StopIteration:
            assert len(expected) == self.step, "the epoch ended early"
            return False
        except Bad as failure:
            error = failure.args[0]
        assert self.step < len(expected), "the epoch does not end"
        indices, _, valid = expected[self.step]
        wanted = [3 * index + 1 for index in indices]
        failing = next((number for number in wanted if number in self.bad), None)
        assert failing == error
        if error is not None:
            self.failed = True
            self.count["errors"] += 1
            return True
        came = numbers(batch)
        assert wanted == came
        assert batches.info is not None
        where = batches.info.epoch, batches.info.step, batches.info.valid.tolist()
        assert (self.epoch, self.step, valid) == where
        self.step += 1
        self.count["batches"] += 1
        self.count["samples"] += len(came)
        self.soak.hold(batch, came)
        return True
