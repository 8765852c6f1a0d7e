"""Samples of named fields and of other lengths, and what a collate refuses of them."""

import collections

import hypothesis.extra.numpy as hnp
import pytest
from hypothesis import strategies as st

from threadloader.errors import CollateError

Pair = collections.namedtuple("Pair", "image label")


def refused(collate, samples):
    with pytest.raises(CollateError) as caught:
        collate(samples)
    return caught.value


ragged = st.tuples(
    st.sampled_from(["?", "i2", ">f4", "f8", "u8", "F"]),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
).flatmap(lambda drawn: st.tuples(*(hnp.arrays(drawn[0], (n, *drawn[1])) for n in drawn[2])))
