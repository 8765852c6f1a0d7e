"""Fingerprints of batches: 16 bytes that say whether two batches hold the same.

`digest` reads the *content*: structure, dtypes, shapes, and every value by its bits. Where it
lies in memory does not count: byte order, strides, padding between the fields of a record, or
which library holds an array (numpy, anything with the buffer protocol or ``__array__``, such
as tensors of torch and arrays of jax). So it is the same on every machine and numpy version.
`chained` makes the running fingerprint of a run of batches.

What is fed to the hash is prefix-free: each value begins with a tag and its length, so no two
structures can give the same bytes. BLAKE2b: Aumasson, Neves, Wilcox-O'Hearn, Winnerlein,
"BLAKE2: simpler, smaller, fast as MD5", 2013.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .errors import from_signal

__all__ = ["chained", "digest", "place", "used_bytes"]

SIZE = 16
"""Bytes of a digest: among 2**64 batches two have the same one with a chance of about 0.4."""

_DIGITS = frozenset("0123456789abcdef")

_DEEPEST = 64
"""Containers inside each other. Chosen: no batch needs as many; one that holds itself has more."""

_BLOCK_BYTES = 1 << 20
"""An array that is not stored in order is copied in blocks of so many bytes, at least one row."""

_LABELS = ("columns", "iloc", "coords")
"""Attributes of objects with ``__array__`` that hold more than the array: names of its rows."""

Update = Callable[[Any], object]
Path = tuple[Any, ...]
"""The keys and positions that lead from a batch to what is inside it."""

_SCALARS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    type(None): (b"N", lambda value: b""),
    bool: (b"B", lambda value: b"\1" if value else b"\0"),
    int: (b"I", lambda value: value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)),
    float: (b"F", struct.Struct("<d").pack),
    complex: (b"C", lambda value: struct.pack("<dd", value.real, value.imag)),
    str: (b"S", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: (b"Y", lambda value: value),
}
# Objects of exactly these types hold one value; a subclass (an enum) may hold more: refused.


def digest(batch: Any) -> bytes:
    """Give the fingerprint of a batch's content.

    Args:
        batch: numpy arrays and scalars; objects with the buffer protocol or ``__array__``, which
            count as the array they give; ``None``, bool, int, float, complex, str, bytes; and
            dicts, lists, tuples and named tuples of them. Arrays that are C-contiguous and
            little-endian are read in place; others are copied in blocks of rows, and those of
            long doubles whole.

    Returns:
        16 bytes. They differ where anything differs that a trainer can see: the order of a
        dict's keys, the name and fields of a named tuple, a dtype, a shape, the sign of a
        zero, the bits of a NaN.

    Raises:
        TypeError: the batch holds something else. The message says where and of which type.

    >>> digest({"x": np.zeros(2)}) == digest({"x": np.zeros((2, 2))[:, 0]})
    True
    >>> digest({"x": np.zeros(2)}) == digest({"x": -np.zeros(2)})
    False
    >>> digest([1, {2, 3}])
    Traceback (most recent call last):
    ...
    TypeError: batch[1]: expected arrays, numbers, bool, None, str, bytes, or dicts, tuples and \
lists of them, got builtins.set; give what it holds as these, in the transform or in collate
    """
    hashed = hashlib.blake2b(digest_size=SIZE)
    _feed(hashed.update, batch, ())
    return hashed.digest()


def chained(previous: str, digest: bytes) -> str:
    """Give the running fingerprint of a run that goes on by one batch.

    Args:
        previous: the running fingerprint before the batch; ``""`` at the start.
        digest: of the batch.

    Returns:
        32 characters, hexadecimal, in lower case: the hash of both.

    Raises:
        ValueError: `previous` is no running fingerprint.

    >>> chained(chained("", digest(1)), digest(2)) == chained(chained("", digest(2)), digest(1))
    False
    """
    # `bytes.fromhex` would also take capitals and spaces.
    if len(previous) not in (0, 2 * SIZE) or not _DIGITS.issuperset(previous):
        raise ValueError(
            'expected a running fingerprint, 32 hexadecimal characters in lower case, or "", '
            f"got {previous!r:.60}; give what the batch before it gave"
        )
    return hashlib.blake2b(bytes.fromhex(previous) + digest, digest_size=SIZE).hexdigest()


def place(path: Path) -> str:
    """Give a path as one writes it.

    >>> place(("x", 3))
    "batch['x'][3]"
    """
    return "batch" + "".join(f"[{key!r:.60}]" for key in path)


def used_bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Give the bytes of each value, in this machine's order, along a new last axis.

    Of a long double of 80 bits these are the 10 bytes in use, without the 2 or 6 beside them,
    which may be anything.

    Args:
        values: of a dtype of numpy that holds no objects, at least one.
    """
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    found = native.reshape(-1).view(np.uint8)
    if values.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:
        found = found.reshape(-1, np.dtype(np.longdouble).itemsize)[:, :10]
    return found.reshape(*values.shape, found.size // values.size)


def _feed(update: Update, value: Any, path: Path) -> None:
    """Feed a value into a hash."""
    kind = type(value)
    if kind in _SCALARS:
        tag, encode = _SCALARS[kind]
        data = encode(value)
        _head(update, tag, len(data))
        update(data)
    elif isinstance(value, np.generic):
        _array(update, b"V", np.asarray(value), path)
    elif isinstance(value, np.ndarray):
        # Other subclasses add something, a mask or a unit, that reading values would lose.
        if kind not in (np.ndarray, np.memmap, np.recarray):
            _refuse(value, path)
        _array(update, b"A", np.asarray(value), path)
    elif isinstance(value, bytes):  # a subclass: numpy would read the bytes alone
        _refuse(value, path)
    elif isinstance(value, (dict, list, tuple)):
        _container(update, value, path)
    else:
        _array(update, b"A", _as_array(value, path), path)


def _head(update: Update, tag: bytes, length: int) -> None:
    update(tag + length.to_bytes(8, "little"))


def _container(update: Update, value: Any, path: Path) -> None:
    if len(path) >= _DEEPEST:
        raise TypeError(
            f"{place(path[:3])}...: expected at most {_DEEPEST} containers inside each other, "
            "got more; does one hold itself?"
        )
    kind = type(value)
    tag = b"D" if isinstance(value, dict) else b"L" if isinstance(value, list) else b"T"
    if kind in (dict, list, tuple):
        _head(update, tag, len(value))
    else:
        # A subclass: its name counts, and what its objects hold beside the items.
        _head(update, tag.lower(), len(value))
        attributes = dict(_attributes(value))
        for part in (kind.__name__, getattr(value, "_fields", None), attributes or None):
            _feed(update, part, path)
    if isinstance(value, dict):
        for key, item in value.items():
            _feed(update, key, path)
            _feed(update, item, (*path, key))
    else:
        for number, item in enumerate(value):
            _feed(update, item, (*path, number))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Give an object's attributes: those in its ``__dict__`` and in ``__slots__``."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(slot, MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # nothing is in it yet
                    yield name, slot.__get__(value)


def _as_array(value: Any, path: Path) -> npt.NDArray[Any]:
    """Give the array that an object holds, not copied if it lies in this machine's memory."""
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError) as error:
        if from_signal(error):
            raise
        if not hasattr(type(value), "__array__") or any(hasattr(value, it) for it in _LABELS):
            _refuse(value, path)
    try:
        array = np.asarray(value)
    except Exception as error:
        if from_signal(error):
            raise
        raise TypeError(
            f"{place(path)}: expected an array, got {_name(value)}, which gives none: {error}"
        ) from error
    if array.dtype.hasobject:
        _refuse(value, path)
    return array


def _refuse(value: Any, path: Path) -> NoReturn:
    raise TypeError(
        f"{place(path)}: expected arrays, numbers, bool, None, str, bytes, or dicts, tuples and "
        f"lists of them, got {_name(value)}; give what it holds as these, in the transform or in "
        "collate"
    )


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _array(update: Update, tag: bytes, values: npt.NDArray[Any], path: Path) -> None:
    update(tag)
    _feed(update, _described(values.dtype), path)
    _feed(update, values.shape, path)
    _values(update, values, path)


def _described(dtype: np.dtype[Any]) -> Any:
    """Say what a dtype is, without its byte order and without how it lies in memory."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_described(base), shape]
    if dtype.names is not None and dtype.fields is not None:
        # A field's entry is its dtype, its offset and, if it has one, its title.
        return {
            name: (_described(dtype.fields[name][0]), *dtype.fields[name][2:])
            for name in dtype.names
        }
    if dtype.kind == "T":  # strings of any length; what stands for a missing one may differ
        return ("T", getattr(dtype, "na_object", ""))
    # A dtype of another package (bfloat16) is known by its name.
    return dtype.name if dtype.isbuiltin == 2 else dtype.str[1:]


def _values(update: Update, values: npt.NDArray[Any], path: Path) -> None:
    """Feed the values of an array in C order, little-endian."""
    dtype = values.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _values(update, values[name], (*path, name))
        return
    if dtype.kind in "OT":
        for index in np.ndindex(values.shape):
            _feed(update, values[index], (*path, index))
        return
    if dtype.isbuiltin == 2 and dtype.itemsize in (1, 2, 4, 8):
        values = values.view(f"u{dtype.itemsize}")
        dtype = values.dtype
    elif dtype.kind not in "biufcmMSUV" or dtype.isbuiltin == 2:  # pragma: no cover - none known
        raise TypeError(
            f"{place(path)}: expected an array of a dtype of numpy, got {dtype}; "
            "convert it with astype, in the transform or in collate"
        )
    if not values.nbytes:
        return
    if dtype.kind in "fc" and dtype.itemsize > 8 * (1 + (dtype.kind == "c")):
        update(used_bytes(values).tobytes())
        return
    little = dtype.newbyteorder("<")
    if values.ndim == 0:
        values = values.reshape(1)
    # All at once where nothing has to be copied.
    in_place = values.flags.c_contiguous and dtype == little
    rows = len(values) if in_place else max(1, _BLOCK_BYTES * len(values) // values.nbytes)
    for start in range(0, len(values), rows):
        block = np.ascontiguousarray(values[start : start + rows], little)
        update(block.reshape(-1).view(np.uint8))  # as bytes: hashlib takes no buffer of dates
