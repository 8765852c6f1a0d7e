"""Samples of every kind that a cache keeps, and what it means that two are the same."""

import struct

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ["?", "i1", "<u2", ">i4", "u8", "f2", ">f4", "f8", "c8", "c16", "S3", "<U4", ">U2"]
DTYPES += ["M8[ns]", "m8[s]"]

texts = st.text(st.characters(), max_size=5)
"""With lone surrogates, as file names may have."""

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)


@st.composite
def laid_out(draw):
    """Draws an array that need not be contiguous or writable."""
    array = draw(arrays)
    array = draw(st.sampled_from([array, array.T, array[..., ::-1] if array.ndim else array]))
    if draw(st.booleans()):
        array.setflags(write=False)
    return array


constants = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | texts
    | st.binary(max_size=5)
)
scalars = st.sampled_from(["?", "i2", "u8", "f4", "f8", "c8", "M8[s]", "S3", "U3"]).flatmap(
    lambda dtype: hnp.arrays(dtype, ()).map(lambda array: array[()])
)
samples = st.recursive(
    constants | scalars | laid_out(),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.lists(inside, max_size=3).map(tuple)
        | st.dictionaries(constants, inside, max_size=3)
    ),
    max_leaves=6,
)


def same(one, other):
    """Tells whether two samples are equal to the last bit, types and order of fields included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        form = one.dtype == other.dtype and one.shape == other.shape
        return form and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        keys = len(one) == len(other) and all(map(same, one, other))
        return keys and all(map(same, one.values(), other.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return same((one.real, one.imag), (other.real, other.imag))
    return one == other
