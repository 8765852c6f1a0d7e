"""Ends an example in one line where what all of them need is not installed; imported first."""

import sys
from pathlib import Path

try:
    import numpy as np  # noqa: F401 (whether it is there)

    import threadloader  # noqa: F401
except ImportError as error:
    here = Path(sys.argv[0]).name
    root = Path(__file__).resolve().parent.parent
    command = f'{sys.executable} -m pip install "{root}"'
    sys.exit(f"{here}: {error}; install what it needs: {command}")
except KeyboardInterrupt:
    sys.exit(130)
