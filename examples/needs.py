"""How every example begins and ends: imported first, it says in one line what is missing."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

# tools/demo runs an example, and its name is what was typed then.
PROGRAM = os.environ.get("THREADLOADER_PROGRAM", Path(sys.argv[0]).name)

try:
    import numpy as np  # noqa: F401 (whether it is there)

    from threadloader import LoaderError
except ImportError as error:
    root = Path(__file__).resolve().parent.parent
    command = f'{sys.executable} -m pip install "{root}"'
    sys.exit(f"{PROGRAM}: {error}; install what it needs: {command}")
except KeyboardInterrupt:
    sys.exit(130)


def run(main: Callable[[], int]) -> NoReturn:
    """Ends the program with the exit code of ``main()``; what stops that is told in one line."""
    code: object
    try:
        try:
            code = main()
        except SystemExit as end:  # of a help, or a wrong option
            code = end.code
        except BrokenPipeError:
            raise
        except (LoaderError, OSError) as error:
            code = f"{PROGRAM}: {error}"
        except KeyboardInterrupt:
            print("\ninterrupted: the loader is closed", file=sys.stderr)
            code = 130
        if sys.stdout is not None:
            sys.stdout.flush()  # else it is found out at the program's end that nobody reads it
    except OSError as error:  # whoever read it has gone, or the disk is full: the rest goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1 if isinstance(error, BrokenPipeError) else f"{PROGRAM}: {error}"
    sys.exit(code)  # type: ignore[arg-type]
