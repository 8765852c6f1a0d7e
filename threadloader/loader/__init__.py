"""The face: `Loader`, a recipe and a context manager, and `Batches`, the live thing.

It alone knows all rooms and puts them together: config -> order -> source -> collate ->
engine.

`_loader` reads the config and opens what it names (`_opening` its source), `_recipe` says how
batches are made (`_whole_batches` how a source builds whole ones), `_caching` puts a cache before
the source, `_skipping` says what is done about samples that fail, `_sampling` and `_schedule` which
samples and jobs come in what order (`_pace` how many small batches are one job), `_skip_steps`
where a run stands after steps that are left out. `_batches` is the run as its user sees it,
`_run` what happens in it, for one thread at a time (`_turn`), `_place` where it stands,
`_results` what it goes on with; `_supply` opens the streams of results, of threads or
(`_choice`) without, under a shorter switch interval (`_switching`) if need be; `_epochs` has
its iterators, `_failure` says how a failed batch is raised, `_open_runs` what becomes of it in
a fork and when the interpreter ends, `_entry` who has entered, `_arguments` checks what is given
in code, `_base` is for configs that somebody else has read.
"""

from ._base import based
from ._batches import Batches
from ._caching import stamp_of
from ._epochs import Epoch, Epochs
from ._loader import Loader
from ._opening import length_of, open_configured, transform_of
from ._recipe import fills_of, read_by
from ._sampling import NO_BATCH, Samplings, deal_of, without_source
from ._skipping import unlisted

__all__ = [
    "NO_BATCH",
    "Batches",
    "Epoch",
    "Epochs",
    "Loader",
    "Samplings",
    "based",
    "deal_of",
    "fills_of",
    "length_of",
    "open_configured",
    "read_by",
    "stamp_of",
    "transform_of",
    "unlisted",
    "without_source",
]
