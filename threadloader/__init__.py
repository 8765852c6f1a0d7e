"""A data loader for those who train outside the big frameworks.

::

    with Loader("train.json") as batches:
        for batch in batches:
            step(batch)

The rooms: `config` reads what is to be loaded (`_schema` checks it), `order` says which samples
come when, `samplers` does where that is not a plain shuffle, `sources` reads the samples,
`transforms` changes them (`masking` is one that comes along), `cache` keeps them, `collate` makes
batches of them, in memory that `buffers` uses again, `jobs` does all that for one batch, `engine`
runs it in threads over the `_runtime`, `stats` counts, `state` lets a run go on, `quarantine` lists
what it left out, `loader` puts them together. `sizes` says how large a batch is, `fingerprint`
tells batches apart by their content, `adapters` connects other programs, `cli`, `bench`, `lookup`
and `verify` hold the commands (`_command_line` finds what a command line names, `_dry_run` tries a
config out and `_first_batch` its first batch, `_messages` puts what is wrong in lines, `_stdout`
keeps stdout for what a command answers, `_children` starts the children of `bench` and `verify` and
reads what they are asked, `_exit` ends a process that has run user code), `errors` what is raised,
and how that is told.
"""

import sys
from typing import TYPE_CHECKING

# Where it was not installed by pip, which looks at these itself. Of an ImportError of this name
# `python -m threadloader` prints the text alone.
if sys.version_info < (3, 11):  # noqa: UP036
    raise ImportError(f"expected CPython >= 3.11, got {sys.version.split()[0]}", name=__name__)
try:
    from .config import LoaderConfig
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise
    hint = f"{error}; write: {sys.executable} -m pip install numpy"
    raise ModuleNotFoundError(hint, name=__name__) from None

from .errors import (
    BusyError,
    ClosedError,
    CollateError,
    ConfigError,
    LoaderError,
    Problem,
    SourceError,
    StalledError,
    StateError,
    WorkerError,
    at_need,
)
from .loader import Batches, Epoch, Epochs, Loader
from .sources import Source, per_thread

if TYPE_CHECKING:
    from .jobs import BatchInfo
    from .masking import MaskTokens
    from .stats import Stats

__all__ = [
    "BatchInfo",
    "Batches",
    "BusyError",
    "ClosedError",
    "CollateError",
    "ConfigError",
    "Epoch",
    "Epochs",
    "Loader",
    "LoaderConfig",
    "LoaderError",
    "MaskTokens",
    "Problem",
    "Source",
    "SourceError",
    "StalledError",
    "StateError",
    "Stats",
    "WorkerError",
    "per_thread",
]

__version__ = "0.1.0"

_AT_NEED = {"BatchInfo": ".jobs", "MaskTokens": ".masking", "Stats": ".stats"}


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(globals(), _AT_NEED)
