"""Proves that a config gives the same batches whatever the threads do: ``threadloader verify``.

It sits on top, like the other commands. `_run` puts it together: `_plan` says how much is
compared and in which runs, `_case` opens source and batches, `_record` makes the batches of a
run, `_difference` finds the first that is not as in the first run, with `_compare`. `_causes` looks
for what makes batches differ, by experiments in one thread (`_probe`; `_inner_state` sees what a
function keeps, `_clock` stops the clocks) and in several (`_stress`). They make the calls that
`_parts` prepares and compare their digests, which are of `_result`; `_cause_texts` has the words.
`_process` asks another process, which runs `_child`. `_report` is what was found, `_progress` tells
how far it has got, `_command` is the command.
"""

from ._command import add_command
from ._plan import Plan
from ._record import VerifyError
from ._report import Cause, Difference, Failure, Report
from ._run import run

__all__ = ["Cause", "Difference", "Failure", "Plan", "Report", "VerifyError", "add_command", "run"]
