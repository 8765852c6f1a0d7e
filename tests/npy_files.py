"""Files of numpy's format made for a test, how it opens them, and compares what came."""

import io

import numpy as np
import pytest

from threadloader.sources.npy import open_npy

ARRAYS = {
    "images": np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
    "labels": np.arange(6, dtype=np.int64),
    "names": np.array(["zero", "one", "two", "three", "four", "five"]),
}
EACH_WAY = pytest.mark.parametrize("mapped", [False, True], ids=["by position", "mapped"])


@pytest.fixture
def open_(tmp_path):
    """Opens sources in the test's folder and closes them at its end."""
    opened = []

    def open_(mapped=False, root=None, **spec):
        opened.append(open_npy({"type": "npy", "mmap": mapped, **spec}, tmp_path, root))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {name: f"{name}.npy" for name in arrays}


def raw(array, **header):
    """Give the bytes of an array as a file; with what its header says replaced."""
    file = io.BytesIO()
    said = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**said, "shape": array.shape, **header})
    return file.getvalue() + array.tobytes()


def told(value):
    """Tell all about an array, a scalar, or a dict of them."""
    if isinstance(value, dict):
        return {name: told(each) for name, each in value.items()}
    return type(value), value.dtype, value.shape, value.tobytes()


def header_of(descr, shape):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
