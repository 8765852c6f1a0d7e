"""Archives of given members, and what a tar source makes of them or says of them."""

import io
import tarfile

import pytest
from opened_sources import samples

from threadloader.errors import SourceError
from threadloader.sources.tar import open_tar

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def opened(folder, path="a.tar", root=None, decoders=None, **options):
    return open_tar({"type": "tar", "path": path, **options}, folder, root, decoders)


def packed(members, kind=tarfile.USTAR_FORMAT):
    """Pack (name, data) pairs, or a `TarInfo` with its data, as an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            data = data if isinstance(data, bytes) else data.encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def write(folder, members, kind=tarfile.USTAR_FORMAT, name="a.tar"):
    (folder / name).write_bytes(packed(members, kind))
    return folder


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)
