"""Csv files: written, opened, and read as plain values or refused."""

from pathlib import Path

import pytest

from threadloader.errors import SourceError
from threadloader.sources.csv_file import open_csv

SAMPLE = (
    b"id,note,width,kind\r\n"
    b'1,"a, ""b""",0.5,oak\r\n'
    b'2,"two\r\nlines",-1e3,elm\r\n'
    b'3,,7,"oak"\r\n'
    b"4,plain,0.25,elm\r\n"
)
DTYPES = {"id": "int16", "width": "float32"}


def write(folder, data, name="data.csv"):
    path = Path(folder) / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def opened(path, **options):
    return open_csv({"type": "csv", "path": str(path), **options}, Path())


def rows_of(source):
    """Give the samples with plain values."""
    samples = [source[i] for i in range(len(source))]
    return [
        {name: value if isinstance(value, str) else value.item() for name, value in sample.items()}
        for sample in samples
    ]


def read(path, **options):
    """Give every sample, with plain values."""
    return rows_of(opened(path, **options))


def refused(path, **options):
    with pytest.raises(SourceError) as caught:
        opened(path, **options)
    assert str(path) == caught.value.path
    return caught.value
