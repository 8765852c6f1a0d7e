"""``python -m threadloader`` is the command ``threadloader``."""

import sys

from threadloader.cli import main

if __name__ == "__main__":
    sys.exit(main())
