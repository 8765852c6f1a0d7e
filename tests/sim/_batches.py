"""A loader's consumer and its source, watched: what they see is held against the contract.

What is expected comes from tests/oracle.py, which shares no code with the library, over the
order of each epoch. The numbers are those of the docstring of `threadloader.engine`.
"""

import functools

import numpy as np
from oracle import expected_epoch

from threadloader import Loader, per_thread
from threadloader.config import LoaderConfig
from threadloader.order import Order

from ._jobs import Bad


@functools.cache
def expected(samples, batch, seed, epochs):
    """List (epoch, step, indices) of all batches of a run."""
    found = []
    for epoch in range(epochs):
        order = Order(samples, seed=max(seed, 0), epoch=epoch, shuffle=seed >= 0)
        dealt = expected_epoch(
            order.at(np.arange(samples)).tolist(),
            batch_size=batch,
            shard_index=0,
            shard_count=1,
            remainder="pad",
            drop_last=False,
        )
        found += [(epoch, step, indices) for step, (indices, _, _) in enumerate(dealt)]
    return found


@functools.cache
def config(workers, ahead, batch, seed, epochs):
    return LoaderConfig(
        num_workers=workers,
        prefetch_batches=ahead,
        batch_size=batch,
        shuffle=seed >= 0,
        seed=max(seed, 0),
        num_epochs=epochs,
        stall_seconds=None,  # the watch would wake up where a deadlock is to be found
    )


GROUP_BYTES = (8 << 20) // 3
"""What the loader makes at once of small batches, more or less: too much of it is one batch."""


class SimLoader(Loader):
    """A `Loader` on a simulated runtime."""

    def __init__(self, sim, *args, **options):
        self._runtime = sim
        super().__init__(*args, **options)


class Source:
    """Sample i is the number i. Watches who reads it, when, and under which locks."""

    def __init__(self, play):
        self._play = play
        self._closed = False
        play.opened += 1

    def __len__(self):
        return self._play.scenario.samples

    def __getitem__(self, index):
        play = self._play
        sim = play.sim
        if play.threads:
            held = sim.held()
            sim.check(not held, lambda: f"G9: sample {index} is read under {held}")
        sim.check(not self._closed, lambda: f"sample {index} is read from a closed source")
        if play.inside is not None:
            play.inside(index)
        if play.scenario.ms:
            sim.sleep(play.scenario.ms / 1000)
        else:
            sim.step()
        if index in play.fails:
            raise Bad(index)
        return index

    def close(self):
        self._play.sim.check(not self._closed, "a source is closed twice")
        self._closed = True
        self._play.opened -= 1


class Taking(Source):
    """One that makes whole batches: small ones are made two at a time, as a group."""

    @property
    def sample_bytes(self):
        return GROUP_BYTES // (2 * self._play.scenario.batch)

    def take(self, indices):
        return np.array([self[index] for index in indices.tolist()])


class Play:
    """A scenario on one schedule: its loader, and the consumer's place in what is expected.

    Attributes:
        place: how many of the expected batches have been delivered or have failed.
        delivered: how many have been delivered.
        inside: called with each index that is read, where a test wants to do more.
        alone: whether there is only one consumer.
        threads: whether workers alone read: the consumer never does, which holds a turn.
    """

    def __init__(self, sim, scenario):
        self.sim = sim
        self.scenario = scenario
        self.at = scenario.at
        self.fails = {int(index) for index in scenario.fails.split(",") if index}
        self.expected = expected(scenario.samples, scenario.batch, scenario.seed, scenario.epochs)
        self.place = self.delivered = self.opened = 0
        self.inside = None
        self.alone = True
        # Where batches are cheap and waited for, the consumer may come to make them itself.
        self.threads = scenario.workers > 0 and scenario.ms < 5

    def loader(self, workers=None, ahead=None):
        it = self.scenario
        kind = Taking if it.take else Source
        source = per_thread(lambda: kind(self)) if it.own else kind(self)
        workers = it.workers if workers is None else workers
        options = config(workers, ahead or it.ahead, it.batch, it.seed, it.epochs)
        return SimLoader(self.sim, options, source, collate=None if it.take else tuple)

    def next(self, batches, epoch):
        """Take a batch, and compare it with what is expected.

        Returns:
            Whether there was one, a failed one included; False at the end of the epoch.
        """
        check, error = self.sim.check, None
        try:
            batch = next(epoch)
        except StopIteration:
            due = self.due(epoch)
            check(due is None, lambda: f"G1: epoch {epoch.number} ends before {due}")
            return False
        except Bad as caught:
            error = caught.args[0]
        due = self.due(epoch)
        check(due is not None, lambda: f"G3: epoch {epoch.number} does not end")
        bad = self.failing(self.place)
        if error is None:
            found = tuple(batch)
            check(not bad and found == tuple(due[2]), lambda: f"G1: expected {due}, got {found}")
            self.delivered += 1
            if self.alone:  # or it is of the batch of another one, by now
                info = batches.info
                found = info.epoch, info.step, info.indices.tolist()
                check(found == due, lambda: f"expected the info {due}, got {found}")
        else:
            check(bad[:1] == [error], lambda: f"G7: of {due} sample {error} is said to fail")
        self.place += 1
        return True

    def failing(self, number):
        """List the indices of a batch that cannot be read."""
        return [index for index in self.expected[number][2] if index in self.fails]

    def due(self, epoch):
        """Give (epoch, step, indices) of the next batch; None at the end of an epoch."""
        rest = self.expected[self.place :]
        return rest[0] if rest and rest[0][0] == epoch.number else None

    def consume(self, batches, most=None):
        """Take batches, at most so many, epoch after epoch from where the run stands."""
        most = len(self.expected) if most is None else most
        for epoch in batches.epochs():
            while self.place < most or most == len(self.expected):
                if not self.next(batches, epoch):
                    break
            else:
                return

    def stands(self, batches):
        """Check that the state says what was delivered, and nothing else."""
        state = batches.state_dict()
        found = state["shard"]["batches"]
        self.sim.check(
            found == self.delivered, lambda: f"{self.delivered} delivered, the state has {found}"
        )
        return state

    def over(self):
        """Check what holds at every end."""
        sim = self.sim
        left = sim.drain()
        sim.check(not left, lambda: f"G6: {left} wait for ever")
        sim.check(not sim.escaped, lambda: f"G7: an exception has ended {sim.escaped}")
        sim.check(not sim.logged, lambda: f"G6: the log has {sim.logged}")
        if self.scenario.own:
            sim.check(not self.opened, lambda: f"{self.opened} sources are left open")

    def ended(self):
        """Check that no thread is left behind a `with`."""
        left = [name for name in self.sim.alive() if name.startswith("threadloader")]
        self.sim.check(not left, lambda: f"G6: {left} are left behind the `with`")
