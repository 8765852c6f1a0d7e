"""What to write down so that a run can go on exactly where it was.

A state is plain JSON: what the run is (source, seed, order), where the world stands (epoch,
position in its global order), which samples are left out, what this shard has counted, and
a checksum over it all. It says what was *delivered*; what was only prefetched is not in it.

A file holds a state in one form only, so that any other byte anywhere shows. It is written
beside its place, flushed to the disk, and renamed: a process that is killed leaves the old
file or the new one.

`_state` makes and reads the values, `_file` the files, `_saving` keeps a newer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import at_need
from ._state import LAST_EPOCH, NOTHING, Cursor, Excluded, dump, load

if TYPE_CHECKING:
    from ._file import read, write
    from ._saving import save

__all__ = ["LAST_EPOCH", "NOTHING", "Cursor", "Excluded", "dump", "load", "read", "save", "write"]


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(
        globals(), {"read": "._file", "save": "._saving", "write": "._file"}
    )
