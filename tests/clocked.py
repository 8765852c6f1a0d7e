"""A run by a clock that stands still but where the source moves it."""

from contextlib import suppress

from threadloader import Loader
from threadloader._runtime import Runtime


def stats_of(config, source, now, calls, collate=None):
    """Ask for so many batches, of which some fail, and give the numbers of the run.

    Args:
        config: the config.
        source: moves the clock where its reads take time.
        now: a list of the one number that the clock shows, in seconds.
        calls: how often the next batch is asked for.
        collate: of the caller's own.
    """
    loader = Loader(config, source=source, collate=collate)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: now[0]
    with loader as batches:
        epoch = iter(batches)
        for _ in range(calls):
            with suppress(OSError):
                next(epoch)
        return batches.stats()
