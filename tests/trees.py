"""A small tree of empty files, and what names and patterns find in it, or why not."""

import pytest

from threadloader.errors import SourceError
from threadloader.sources._paths import expand

TREE = [
    *("a.npy", "a10.npy", "a2.npy", "B.npy", "b.txt", ".hidden.npy", "é.npy"),
    *("sub/a.npy", "sub/deep/a.npy", "sub/deep/b.npy", "sub-1/a.npy", ".git/a.npy"),
]


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", TREE)


def plant(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


def found(tree, path, root=None):
    return [file.relative_to(tree).as_posix() for file in expand(tree, path, root)]


def refused(*args, **options):
    with pytest.raises(SourceError) as caught:
        expand(*args, **options)
    return caught.value
