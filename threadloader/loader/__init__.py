"""The face: `Loader`, a recipe and a context manager, and `Batches`, the live thing.

It alone knows all rooms and puts them together: config -> order -> source -> collate ->
engine. `_recipe` reads the config and opens what it names, `_batches` is the run, `_epochs` its
iterators, `_place` where it stands, `_sampling` and `_schedule` which samples and jobs come in
what order, `_failure` how a failed batch is raised, `_arguments` what is given in code.
"""

from ._batches import Batches
from ._epochs import Epoch, Epochs
from ._recipe import Loader, open_configured
from ._sampling import Samplings, absolute, deal_of, without_source

__all__ = [
    "Batches",
    "Epoch",
    "Epochs",
    "Loader",
    "Samplings",
    "absolute",
    "deal_of",
    "open_configured",
    "without_source",
]
