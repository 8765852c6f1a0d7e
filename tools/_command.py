"""What the scripts of tools/ that are commands of threadloader have in common.

They run the package of this repository as it stands. Any Python can read this file, to say
plainly that it is too old.
"""

import os
import sys


def cli_of(tool):
    """Gives the module of the commands, `threadloader.cli`, to a tool of this name.

    Where it cannot be had, the process ends: with exit code 2 and a message, with 130 after a
    Ctrl-C, or as the tool does in the .venv that tools/demo has made, where numpy is only there.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - the check that makes the rule true
        found = sys.version.split()[0]
        sys.stderr.write(tool + ": expected CPython 3.11 or newer, got " + found + "\n")
        sys.exit(2)
    try:
        import numpy as np  # noqa: F401 (whether it is there)
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        import _env

        sys.exit(_env.without_numpy(tool))
    except ImportError as error:  # there, but for another Python, say
        why = str(error).strip().rpartition("\n")[2]  # numpy gives a page of advice before it
        hint = "; write " + sys.executable + " -m pip install --force-reinstall numpy\n"
        sys.stderr.write(tool + ": expected numpy, got one that does not work: " + why + hint)
        sys.exit(2)
    except KeyboardInterrupt:
        interrupted()
    try:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        import threadloader.cli as cli
    except KeyboardInterrupt:
        interrupted()
    return cli


def interrupted():
    """Ends the process in the way of the commands after a Ctrl-C."""
    sys.stderr.write("threadloader: interrupted\n")
    sys.exit(130)
