"""What tests ask of a source of any kind: all of its samples, and where its indices end."""

import io
from contextlib import closing

import numpy as np
import pytest

from threadloader import ClosedError


def samples(source):
    """All of them; then it is closed."""
    with closing(source):
        return [source[i] for i in range(len(source))]


def close_at(source, length):
    """Looks whether its indices end at the length, and closes it twice; then it reads no more."""
    for index in (-1, length):
        with pytest.raises(IndexError):
            source[index]
    source.close()
    source.close()
    with pytest.raises(ClosedError):
        source[0]


def npy(array, **options):
    """The bytes of a file of the array."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()
