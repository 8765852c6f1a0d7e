"""What a file holds is decoded as the config says, or an error says what is wrong."""

import sys
import threading
from contextlib import suppress

import numpy as np
import pytest
from folders import opened, refused, write
from opened_sources import npy, samples

from threadloader.errors import ConfigError, SourceError
from threadloader.sources import _decode


def test_an_archive_of_arrays_for_each_sample_is_told_what_to_do(tmp_path):
    """That it is of "type": "npz" would not do: it is one file; and no such decoding is known."""
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", x=np.arange(3))
    assert 'got a zip archive, as numpy.savez does; decode it as "bytes", and give what' in refused(
        tmp_path, decode="npy"
    )


ARRAYS = [
    np.arange(6, dtype=">i2").reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(["a", "ü"]),
    np.zeros((2, 0)),
    np.zeros((3, 2), "V0"),
    np.zeros(2, [("a", "<i4"), ("b", "f2", (2,))]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_arrive_as_saved_in_memory_of_their_own(tmp_path, array):
    write(tmp_path, {"a.npy": npy(array)})
    (sample,) = samples(opened(tmp_path, decode="npy"))
    found = sample["data"]
    assert (array.dtype, array.shape, array.tobytes()) == (
        found.dtype,
        found.shape,
        found.tobytes(),
    )
    assert found.flags.writeable
    assert found.flags.c_contiguous


def test_an_array_cut_anywhere_is_an_error_that_names_the_file(tmp_path):
    whole = npy(np.arange(4, dtype=np.int64))
    write(tmp_path, {"a.npy": b""})
    for length in range(len(whole)):
        (tmp_path / "data" / "a.npy").write_bytes(whole[:length])
        assert f"{tmp_path / 'data' / 'a.npy'}: expected " in refused(tmp_path, decode="npy")
    (tmp_path / "data" / "a.npy").write_bytes(whole + b"\0")
    assert "expected 32 bytes for shape (4,) of int64, got 33" in refused(tmp_path, decode="npy")


def test_a_changed_byte_of_an_array_is_an_error_or_another_array_of_its_size():
    decode, _ = _decode.decoder_of("npy", None, None)
    whole = npy(np.arange(4, dtype=np.int64))
    for at in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] ^= flip
            with suppress(SourceError):
                assert 32 == decode(bytes(changed)).nbytes


def test_pickled_objects_are_refused(tmp_path):
    data = npy(np.array([{}, 1], object), allow_pickle=True)
    assert "never unpickled" in refused(write(tmp_path, {"a": data}), decode="npy")


def test_text_is_utf_8_without_its_mark(tmp_path):
    write(tmp_path, {"a": b"\xef\xbb\xbfh\xc3\xa9\r\n", "b": b""})
    assert ["hé\r\n", ""] == [each["data"] for each in samples(opened(tmp_path, decode="text"))]
    for data in (b"ab\xff", b"\xef\xbb\xbf\xff"):
        write(tmp_path, {"b": data})
        at = data.index(b"\xff")
        assert f"{tmp_path / 'data' / 'b'}: expected UTF-8, got the byte 0xff at {at}" in refused(
            tmp_path, decode="text"
        )


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("json", b'{"a": [1, 2.5, null, "\xc3\xa9"]}', {"a": [1, 2.5, None, "é"]}),
        ("json", b"\xef\xbb\xbf 3 ", 3),
        ("int", b" -12\n", -12),
        ("int", b"\xef\xbb\xbf7\n", 7),
        ("int", b"+9223372036854775807", 2**63 - 1),
    ],
)
def test_json_and_integers_are_decoded(kind, data, value):
    assert value == _decode.decoder_of(kind, None, None)[0](data)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("json", b"", "expected strict JSON, got: Expecting value"),
        ("json", b"{} {}", "expected strict JSON, got: Extra data"),
        ("json", b'{"a": 1, "a": 2}', "the key 'a' twice"),
        ("json", b"[NaN]", "NaN, which JSON does not have"),
        ("json", b"1e999", "1e999, too large for a float"),
        ("json", b"\xff", "expected UTF-8"),
        ("json", b"[" * 100_000, "expected "),
        ("int", b"", "expected an integer that int64 holds, got ''; correct it, or decode"),
        ("int", b"1.0", "expected an integer"),
        ("int", b"1_0", "expected an integer"),
        ("int", b"9223372036854775808", "expected an integer"),
        ("int", "٣".encode(), "expected an integer that int64 holds, got '٣'"),
    ],
)
def test_what_cannot_be_decoded_names_file_and_place(kind, data, said):
    decoder, _ = _decode.decoder_of(kind, None, None)
    with pytest.raises(SourceError) as caught:
        _decode.apply(decoder, data, "shard.tar", "member 'x'")
    assert str(caught.value).startswith("shard.tar: member 'x': ")
    assert said in str(caught.value)


def test_an_unknown_decoder_is_a_config_error(tmp_path):
    """That of images is none here: it needs another package, so the loader hands it in."""
    write(tmp_path, {"a": b""})
    said = refused(tmp_path, ConfigError, decode="image")
    assert '/source/decode: expected one of "bytes", "text", "npy", "json", "int", got' in said
    assert said.endswith("image_decoder}), which threadloader.adapters.pillow has")


def test_decoding_a_text_runs_no_python_of_a_codec(tmp_path):
    """CPython 3.11 puts an error of its own in the place of what a signal handler raises there."""
    write(tmp_path, {"a": b"\xef\xbb\xbfmarked"})
    ran = []

    def noted(frame, event, arg):
        ran.append(frame.f_globals.get("__name__", ""))

    source = opened(tmp_path, decode="text")
    sys.settrace(noted)
    try:
        sample = source[0]
    finally:
        sys.settrace(None)
    assert "marked" == sample["data"]
    assert [] == [name for name in ran if name.startswith("encodings")]


def test_the_maker_of_a_decoder_is_called_once_at_opening_with_its_options(tmp_path):
    write(tmp_path, {"a": b"12", "b": b"3"})
    calls = []

    def make(**options):
        calls.append((options, threading.current_thread()))
        return len

    source = opened(
        tmp_path, decode="image", decoders={"image": make}, image_mode="L", max_pixels=9
    )
    assert [({"mode": "L", "max_pixels": 9}, threading.current_thread())] == calls
    assert "decode image (L)" in source.fingerprint()
    assert [2, 1] == [sample["data"] for sample in samples(source)]
    assert 1 == len(calls)
