"""Measures a config with several numbers of workers and chooses one: ``threadloader bench``.

It sits on top, like the other commands. `_run` puts it together: `_plan` says what is measured,
`_process` makes one run in a process of its own, which runs `_child`; there `_measure` takes the
times and `_steps` stands for the training. `_report` puts the runs together, `_choice` looks at the
numbers, `_table` and `_picture` show them, `_progress` tells how far it has got, `_command` is the
command. PyTorch's side is ``adapters/torch_loader.py``.
"""

from ._choice import Choice
from ._command import add_command
from ._picture import picture
from ._plan import Plan
from ._process import BenchError
from ._progress import progress
from ._report import Report, Row
from ._run import run

__all__ = [
    "BenchError",
    "Choice",
    "Plan",
    "Report",
    "Row",
    "add_command",
    "picture",
    "progress",
    "run",
]
