"""``python -m threadloader`` is the command ``threadloader``."""

import sys

from threadloader.cli import main

if __name__ == "__main__":  # pragma: no branch - it is run, not imported
    sys.exit(main())
