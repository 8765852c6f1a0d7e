"""From the bytes of a file or a member to a value: what ``decode`` means in a config.

- ``"bytes"``: as they are.
- ``"text"``: str, of UTF-8; a byte order mark at the start is left out, line ends stay.
- ``"npy"``: the array that `numpy.save` wrote, never unpickled.
- ``"json"``: the JSON value, of UTF-8; NaN, numbers too large for a float, and
  a key twice are refused.
- ``"int"``: a decimal integer that int64 holds, with white space around it or not;
  a byte order mark at the start is left out.

Any other (``"image"``) needs a package, which is not known here: the code that opens a source
hands in a function that makes the decoder. A decoder is a function of bytes, called by several
threads at once, that raises `SourceError` for what it cannot decode; `apply` adds the place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError
from ._dtypes import int64_of
from ._npy_header import read_header
from ._strict_json import STRICT

__all__ = ["Decoder", "Decoders", "apply", "decoder_of", "image_options"]

Decoder = Callable[[bytes], Any]

Decoders = Mapping[str, Callable[..., Decoder]]
"""The word of the config -> what makes its decoder, of those that need a package."""

_AS_TEXT = 'correct it, or decode it as "text"'


def image_options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments for the maker of an image decoder, from a section of the config."""
    names = {"image_mode": "mode", "max_pixels": "max_pixels"}
    return {ours: spec[name] for name, ours in names.items() if name in spec}


def decoder_of(kind: str, more: Decoders | None, image: Mapping[str, Any]) -> tuple[Decoder, str]:
    """Give the decoder that a word of the config means, and what a fingerprint says about it.

    ``more`` makes the decoders that are not built in, with options as `image_options` gives
    them. An unknown word is a ConfigError, a missing package a SourceError.
    """
    if kind in _BUILT_IN:
        return _BUILT_IN[kind], kind
    make = (more or {}).get(kind)
    if make is None:
        known = ", ".join(f'"{name}"' for name in [*_BUILT_IN, *(more or ())])
        hint = (
            'in code, give open_source(..., decoders={"image": image_decoder}), which '
            "threadloader.adapters.pillow has"
        )
        hint = hint if kind == "image" else ""
        raise ConfigError(Problem("/source/decode", f"one of {known}", repr(kind), hint))
    # The bound of an image's size does not change the samples, so no fingerprint has it.
    return make(**image), f"{kind} ({image.get('mode', 'RGB')})"


def apply(decoder: Decoder, data: bytes, path: object, place: str = "") -> Any:
    """Decode; a SourceError of what cannot be decoded is given its path and place."""
    try:
        return decoder(data)
    except SourceError as error:
        error.path, error.place = str(path), place
        raise


def _text(data: bytes) -> str:
    try:
        # Not as "utf-8-sig", a codec written in Python: where a signal handler raises inside it,
        # CPython 3.11 raises an error of its own, which would be taken for the sample's.
        return data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        at = error.start + 3 * data.startswith(b"\xef\xbb\xbf")  # counted after the mark
        raise SourceError(
            f"expected UTF-8, got the byte 0x{data[at]:02x} at {at} ({error.reason}); "
            'convert it to UTF-8, or decode it as "bytes"'
        ) from error


def _json(data: bytes) -> Any:
    text = _text(data)
    try:
        # This makes a decoder for each call: threads must not share the memo that one keeps.
        return json.loads(text, **STRICT)
    except RecursionError as error:
        message = "expected JSON, got lists and objects nested too deeply"
        raise SourceError(f"{message}; {_AS_TEXT}") from error
    except ValueError as error:
        raise SourceError(f"expected strict JSON, got: {error}; {_AS_TEXT}") from error


def _int(data: bytes) -> int:
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").strip(" \t\r\n")
    number = int64_of(text)
    if number is None:
        expected = "an integer that int64 holds"
        raise SourceError(f"expected {expected}, got {text[:40]!r}; {_AS_TEXT}")
    return number


def _npy(data: bytes) -> npt.NDArray[Any]:
    if data[:4] == b"PK\x03\x04":
        raise SourceError(
            "expected an array as numpy.save writes it, got a zip archive, as numpy.savez does; "
            'decode it as "bytes", and give what numpy.load(io.BytesIO(...)) has in it from the '
            "transform"
        )
    header = read_header(BytesIO(data), SourceError, "save it again", "; save it as an array of 1")
    if len(data) - header.length != header.size:
        raise SourceError(
            f"expected {header.size} bytes for shape {header.shape} of {header.dtype}, "
            f"got {len(data) - header.length}; save it again"
        )
    # Copied: an array over bytes cannot be written to, nor is it always aligned.
    return header.array(np.frombuffer(data, np.uint8, offset=header.length).copy())


_BUILT_IN: dict[str, Decoder] = {
    "bytes": bytes,  # gives the same object
    "text": _text,
    "npy": _npy,
    "json": _json,
    "int": _int,
}
