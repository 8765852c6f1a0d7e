"""How many bytes a batch has, for the bound in bytes and what is told of it."""

from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

from threadloader.sizes import nbytes

Pair = namedtuple("Pair", "x y")
X, Y = np.zeros((2, 3), np.float32), np.arange(2)
BOTH = 24 + 16


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, MappingProxyType])
def test_every_mapping_is_looked_into(kind):
    """A `collate` in code may give any."""
    assert BOTH == nbytes(kind({"x": X, "y": kind({"y": Y})}))


@pytest.mark.parametrize("batch", [[X, Y], (X, [Y]), Pair(X, Y)], ids=type)
def test_lists_and_tuples_are_looked_into(batch):
    assert BOTH == nbytes(batch)


@pytest.mark.parametrize("batch", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc")], ids=type)
def test_texts_and_bytes_count_as_long_as_they_are(batch):
    assert 3 == nbytes(batch)


@pytest.mark.parametrize("batch", [7, None, object()], ids=type)
def test_what_tells_nothing_counts_as_eight(batch):
    assert 8 == nbytes(batch)
