"""Proves that a config gives the same batches whatever the threads do: ``threadloader verify``.

It sits on top, like the other commands. `_run` puts it together: `_plan` says how much is
compared and in which runs, `_case` opens source and batches, `_record` makes the batches of a
run, `_difference` says where one is not the first run's, with `_compare`. `_causes` looks for
what makes them differ, with the experiments of `_probe` (one thread; `_inner_state` sees what a
function keeps, `_clock` stops the time) and `_stress` (several) on the calls that `_parts`
makes and of which `_result` gives a digest; `_cause_texts` says it. `_process` asks
another process, which runs `_child`. `_report` is what was found, `_progress` tells how far it has
got, `_command` is the command.
"""

from ._command import add_command
from ._plan import Plan
from ._record import VerifyError
from ._report import Cause, Difference, Failure, Report
from ._run import run

__all__ = ["Cause", "Difference", "Failure", "Plan", "Report", "VerifyError", "add_command", "run"]
