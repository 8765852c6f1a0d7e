"""The face: `Loader`, a recipe and a context manager, and `Batches`, the live thing.

It alone knows all rooms and puts them together: config -> order -> source -> collate ->
engine. `_recipe` reads the config and opens what it names, `_batches` is the run, `_epochs` its
iterators, `_schedule` its jobs in order, `_failure` how a failed batch is raised.
"""

from ._batches import Batches
from ._epochs import Epoch, Epochs
from ._recipe import Loader, open_configured

__all__ = ["Batches", "Epoch", "Epochs", "Loader", "open_configured"]
