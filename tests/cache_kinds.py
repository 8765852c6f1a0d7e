"""A cache of either kind, in memory or in a folder, and the locks that it has."""

from contextlib import contextmanager

from threadloader.cache import Folder, Memory


@contextmanager
def roomy(kind, folder):
    """Gives a cache with room for everything, and closes it."""
    made = Memory() if kind == "memory" else Folder(folder, "key", 100)
    yield made
    made.close()


def locks(cache):
    """Lists the locks that a cache holds while it does something."""
    memory = isinstance(cache, Memory)
    own = [cache._lock] if memory else [cache._writing, cache._shelf._lock, cache._shelf._looking]
    return [*own, cache._counted._lock]
