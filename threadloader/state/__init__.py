"""What to write down so that a run can go on exactly where it was.

A state is plain JSON: what the run is (source, seed, order), where the world stands (epoch,
position in its global order), which samples are left out, what this shard has counted, and
a checksum over it all. It says what was *delivered*; what was only prefetched is not in it.

A file holds a state in one form only, so that any other byte anywhere shows. It is written
beside its place, flushed to the disk, and renamed: a process that is killed leaves the old
file or the new one.

`_state` makes and reads the values, `_file` the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._state import LAST_EPOCH, NOTHING, Cursor, Excluded, dump, load

if TYPE_CHECKING:
    from ._file import read, write

__all__ = ["LAST_EPOCH", "NOTHING", "Cursor", "Excluded", "dump", "load", "read", "write"]


if not TYPE_CHECKING:  # a checker would take any name to be there

    def __getattr__(name: str) -> Any:
        """Import what is about files when it is asked for (PEP 562)."""
        if name in ("read", "write"):
            from . import _file

            return getattr(_file, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
