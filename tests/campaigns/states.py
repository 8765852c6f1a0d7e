"""The campaign `states`: saved states that are damaged in every small way, or of another run.

    python3 tools/campaign states --count 50 --seed 1

Each case is a run of a loader that is drawn, left somewhere, and the file that it saved there.
Looked at: the file is refused as damaged when it is cut at any byte, and with any bit flipped; it
is refused for a run that differs, in one field or in several, and just these are named; under
another world (batch size, number of shards) it goes on from the same position.
"""

import contextlib
import hashlib
import random
import sys
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import numpy as np
from damaged_states import accepted, cut, flipped

from threadloader import Loader, StateError

from .cases import Part, parser, run

TOGETHER = 20
"""Choices of several changes that are tried at once, of each state."""


@dataclass(frozen=True)
class Case:
    """A run: its data, its config, its sampler in code, the version of its order."""

    source: object
    config: dict = field(default_factory=dict)
    sampler: object = None
    order: int | None = None

    @contextlib.contextmanager
    def entered(self, **options):
        """Enter a loader of it."""
        loader = Loader(self.config, self.source, sampler=self.sampler, **options)
        name = "threadloader.loader._opening.VERSION"
        patch = mock.patch(name, self.order) if self.order else contextlib.nullcontext()
        with patch, loader as batches:
            yield batches


def drawn(draw):
    """Draw a run."""
    n = draw.randint(2, 60)
    config = {"batch_size": draw.randint(1, 5), "seed": draw.getrandbits(64), "num_workers": 0}
    config |= {"shuffle": draw.random() < 0.5, "num_epochs": draw.randint(1, 3)}
    config |= {"drop_last": draw.random() < 0.3}
    count = draw.randint(1, 3)
    config["shard"] = {"index": draw.randrange(count), "count": count, "remainder": "pad"}
    if draw.random() < 0.4:
        config["exclude"] = sorted(draw.sample(range(n), draw.randint(1, n // 2)))
    if draw.random() < 0.3:
        config["fingerprint"] = True
    dtype = draw.choice(["int32", "int64", "float32"])
    source = np.arange(n).astype(dtype) + draw.randint(0, 9)
    case = Case(source.tolist() if draw.random() < 0.3 else source, config)
    if draw.random() < 0.3:
        config["shuffle"] = False
        config.pop("exclude", None)
        case = replace(case, sampler=draw.sample(range(n), n))
    return case


def saved(case, draw, path):
    """Run a part of a run and save it; give the bytes of the file."""
    with case.entered() as batches:
        most = draw.randint(0, 30)
        for epoch in batches.epochs():
            for _ in epoch:
                most -= 1
                if most <= 0:
                    break
            if most <= 0:
                break
        batches.save(path)
    return path.read_bytes()


def another_value(case, draw):
    """One sample is another one."""
    source = case.source.copy()
    source[draw.randrange(len(source))] += 1
    return replace(case, source=source)


def another_type(case, draw):
    """The same numbers in another type."""
    return replace(case, source=np.array(case.source).astype("float64"))


def one_more(case, draw):
    """A sample is added behind the others."""
    source = np.append(case.source, case.source[-1]).astype(np.array(case.source).dtype)
    return replace(case, source=source.tolist() if isinstance(case.source, list) else source)


def another_seed(case, draw):
    """One bit of the seed is flipped."""
    seed = case.config["seed"] ^ 1 << draw.randrange(64)
    return replace(case, config={**case.config, "seed": seed})


def other_shuffle(case, draw):
    """It shuffles, or does not."""
    return replace(case, config={**case.config, "shuffle": not case.config["shuffle"]})


def another_sampler(case, draw):
    """Two entries of the sampler change places, or there is one where there was none."""
    sampler = list(case.sampler or range(len(case.source)))
    sampler[0], sampler[-1] = sampler[-1], sampler[0]
    return replace(case, sampler=sampler)


def another_order(case, draw):
    """The library shuffles in another way."""
    return replace(case, order=2)


CHANGES = {
    another_value: ("source",),
    another_type: ("source",),
    one_more: ("source", "samples"),
    another_seed: ("seed",),
    other_shuffle: ("shuffle",),
    another_sampler: ("sampler",),
    another_order: ("order",),
}
"""What is changed about a run, and the fields of its state that tell."""


def refused(case, state, expected):
    """Look that a state is refused for a run, with just these fields named."""
    told, text = (), ""
    try:
        with case.entered(resume=state):
            pass
    except StateError as error:
        told, text = error.fields, str(error)
    assert set(told) == set(expected), f"expected to be refused for {expected}, got {told}"
    assert all(f"{name}: the state has " in text for name in told), text


def another_world(case, state, draw):
    """Look that a state goes on from its position under another world."""
    count = draw.randint(1, 4)
    world = {"batch_size": draw.randint(1, 9), "shard": {"index": 0, "count": count}}
    with case.entered() as batches:
        batches.load_state_dict(state)
        before = batches.state_dict()["world"]
    with replace(case, config={**case.config, **world}).entered(resume=state) as batches:
        after = batches.state_dict()["world"]
    assert (before["epoch"], before["position"]) == (after["epoch"], after["position"])
    assert (world["batch_size"], count) == (after["batch_size"], after["shard_count"])


def work(seed, numbers):
    """Damage the states of some numbers, and change what they are states of."""
    part = Part(sums=dict.fromkeys(["bytes", "cuts", "flipped bits", "other runs"], 0))
    for number in numbers:
        draw = random.Random(f"{seed}/{number}")
        part.cases += 1
        try:
            with tempfile.TemporaryDirectory() as folder:
                one(draw, Path(folder), part)
        except Exception:
            text = traceback.format_exc(limit=-8)
            part.failures.append(f"state {number} of seed {seed}\n{text}")
    return part


def one(draw, folder, part):
    case, path = drawn(draw), folder / "run.state"
    data = saved(case, draw, path)
    part.distinct.add(hashlib.blake2b(data, digest_size=8).digest())
    part.sums["bytes"] += len(data)
    for name, texts in (("cuts", cut(data)), ("flipped bits", flipped(data))):
        wrong = accepted(texts, folder / "damaged.state")
        assert wrong == [], f"{name}: not refused as damaged: {wrong[:10]}, of\n{data!r}"
        part.sums[name] += len(texts)
    # Where there is a sampler no shuffle may be asked for.
    never = {other_shuffle if case.sampler else another_sampler if case.config["shuffle"] else None}
    # Of a list its type and its length are known, not what is in it.
    never |= {another_value} if isinstance(case.source, list) else set()
    changes = [change for change in CHANGES if change not in never]
    chosen = [[change] for change in changes]
    chosen += [draw.sample(changes, draw.randint(2, len(changes))) for _ in range(TOGETHER)]
    for several in chosen:
        other, fields = case, set()
        if another_sampler in several and other_shuffle in several:
            several.remove(other_shuffle)
        for change in sorted(several, key=list(CHANGES).index):
            other = change(other, draw)
            fields |= set(CHANGES[change])
        refused(other, path, fields)
        part.sums["other runs"] += 1
    another_world(case, path, draw)


def main(args):
    """Give the exit code."""
    made = parser("states", "States that are damaged, or of another run.", 50)
    return run("states", work, made.parse_args(args), chunk=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
