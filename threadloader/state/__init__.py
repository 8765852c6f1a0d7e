"""What to write down so that a run can go on exactly where it was.

A state is plain JSON: who the run is (source, seed, order), where the world stands (epoch,
position in its global order), which samples are left out, what this shard has counted, and
a checksum over it all. It says what was *delivered*; what was only prefetched is not in it.

A file holds a state in one form only, so that any other byte anywhere shows. It is written
beside its place, flushed to the disk, and renamed: whoever is killed leaves the old one or
the new one.

`_state` makes and reads the values, `_file` the files.
"""

from ._file import read, write
from ._state import FORMAT, NOTHING, VERSION, Cursor, Excluded, dump, load

__all__ = ["FORMAT", "NOTHING", "VERSION", "Cursor", "Excluded", "dump", "load", "read", "write"]
