"""``python -m threadloader`` is the command ``threadloader``."""

from threadloader.cli import program

if __name__ == "__main__":  # pragma: no branch - it is run, not imported
    program()
