"""Arrays of every dtype that a sample may have, and what it means that two of them are the same."""

import numpy as np

DTYPES = [
    *("?", "i1", "u1", "i2", ">u4", "i8", ">i8", "u8", "f2", "f4", ">f4", "f8", "g", "F", "D", "G"),
    *("S1", "S5", "U1", "U5", ">U3", "V3", "M8[D]", "M8[ns]", ">M8[s]", "m8[s]"),
    [("id", "i4"), ("box", ">f4", (2, 2)), ("name", "U3")],
    np.dtype([("flag", "?"), ("value", "f8")], align=True),
]


def same(expected, actual):
    """Tell whether two nests of arrays have the same structure, dtypes, shapes and bytes."""
    if isinstance(expected, dict):
        return list(expected) == list(actual) and all(same(expected[k], actual[k]) for k in actual)
    if isinstance(expected, tuple | list):
        return (
            type(expected) is type(actual)
            and len(expected) == len(actual)
            and all(map(same, expected, actual))
        )
    if isinstance(expected, np.ndarray | np.generic):
        kinds = (expected.dtype, expected.shape), (actual.dtype, actual.shape)
        return kinds[0] == kinds[1] and content(expected) == content(actual)
    return type(expected) is type(actual) and expected == actual


def content(array):
    """Give the bytes that count: without those between fields, or unused ones of long doubles."""
    if array.dtype.names is not None:
        return [content(array[name]) for name in array.dtype.names]
    if array.dtype.char in "gG":
        return str(array.tolist())
    return array.tobytes()


def filled(shape, dtype):
    """Give an array of random bytes that mean something in every dtype."""
    dtype = np.dtype(dtype)
    numbers = np.random.default_rng(0).integers(0, 100, shape)
    if dtype.names is None:
        return numbers.astype(dtype if dtype.kind != "V" else "S3").view(dtype)
    array = np.zeros(shape, dtype)
    for name in dtype.names:
        array[name] = filled(array[name].shape, dtype[name].base)
    return array
