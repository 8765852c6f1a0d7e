"""Of the files that a config's ``path`` names, one error tells all that are missing."""

import pytest

from threadloader.errors import SourceError
from threadloader.sources import open_source

MORE = {
    "tokens": {"dtype": "uint16", "window": 4},
    "sqlite": {"query": "SELECT 1 AS id", "key": "id"},
}
KINDS = ("npz", "npy", "csv", "jsonl", "text", "tokens", "tar", "sqlite")


def refused(folder, kind, names):
    """What is said of a source whose files these are."""
    with pytest.raises(SourceError) as caught:
        open_source({"type": kind, "path": names, **MORE.get(kind, {})}, folder)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_one_error_names_all_missing_files(tmp_path, kind):
    (tmp_path / "b").write_bytes(b"not of this kind")
    wrong = refused(tmp_path, kind, ["a", "b", "c", "d"])
    missing = f"{str(tmp_path / 'c')!r}, {str(tmp_path / 'd')!r}"
    assert wrong.message.startswith(f"expected a file, found none, nor at {missing}; ")
    assert wrong.path == str(tmp_path / "a")
    assert isinstance(wrong.__cause__, FileNotFoundError)


@pytest.mark.parametrize("kind", KINDS)
def test_one_missing_file_is_named_alone(tmp_path, kind):
    (tmp_path / "a").write_bytes(b"not of this kind")
    wrong = refused(tmp_path, kind, ["a", "b"])
    assert wrong.message.startswith("expected a file, found none; ")
    assert wrong.path == str(tmp_path / "b")
