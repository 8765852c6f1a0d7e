"""A file of lines made for a test, read by its index, and the passes over data counted."""

import pytest

from threadloader.sources import _line_scan, _lines
from threadloader.sources._index_cache import IndexCache
from threadloader.sources._lines import LineFiles

DATA = "first\n\r\n \t\nfünf\r\nlast without an end".encode()
LINES = ["first", "", " \t", "fünf", "last without an end"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def passes(monkeypatch):
    """Counts the passes over data."""
    made = []
    scan = _line_scan.scan

    def counted(*args):
        made.append(args)
        return scan(*args)

    monkeypatch.setattr(_lines, "scan", counted)
    return made


def read(path, index="beside", **options):
    """Give the text of every line."""
    lines = LineFiles([path], index=index, **options)
    try:
        return [lines.line(i).text() for i in range(len(lines))]
    finally:
        lines.close()


def index_of(path, skip_blank=False):
    return IndexCache(None).path(path, skip_blank)
