"""A folder of files, and what the files source makes of it: samples, or an error."""

import pytest
from opened_sources import samples

from threadloader.errors import SourceError
from threadloader.sources.files import open_files


def opened(folder, root=None, decoders=None, **options):
    return open_files({"type": "files", "folder": "data", **options}, folder, root, decoders)


def write(folder, contents):
    """Write files below data/, by their relative paths."""
    for name, data in contents.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def paths(source):
    return [sample["path"] for sample in samples(source)]


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)
