"""Archives of arrays made for a test, opened as an npz source, and what it tells or refuses."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from npy_files import ARRAYS

from threadloader.errors import SourceError
from threadloader.sources import open_source


def opened(path, **options):
    return open_source({"type": "npz", "path": str(path), **options}, Path())


def content(source):
    """Give all that a source of this kind can tell about its arrays."""
    batch = source.take(np.arange(len(source)))
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in batch.items()}


def archive(path, method=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "good.npz"
    np.savez(path, **ARRAYS)
    return path


def refused(path, **options):
    with pytest.raises(SourceError) as caught:
        opened(path, **options)
    assert str(path) == caught.value.path
    return caught.value
