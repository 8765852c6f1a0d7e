"""Pixels are what their file says; an image is refused where Pillow can only give others."""

import io
import itertools
import struct
import sys
import zlib

import numpy as np
import pytest
from images import PIXELS, encoded, pillow

from threadloader.errors import SourceError

__all__ = ["pillow"]  # the fixture


def test_16_bits_are_kept_and_never_cut_to_8(pillow):
    module, decoders = pillow
    data = encoded(module, pixels=np.arange(54, dtype=np.uint16).reshape(6, 9) * 1000)
    kept = decoders["image"](mode="keep")(data)
    assert 53_000 == int(kept.max())
    with pytest.raises(SourceError, match='read it with "image_mode": "keep"'):
        decoders["image"](mode="RGB")(data)


def wide_png(colour, channels, bits=16):
    """Makes a PNG of one pixel, each of its values of 16 bits, or of so many."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, bits, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0" + b"\x12\x34"[: bits // 8 or 1] * channels)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def wide_tiff(planes):
    """Makes a TIFF of one pixel, its three values of 16 bits in one plane, or in three."""
    # Behind a head of 8 bytes: bits of the values, places and sizes of three planes, the values.
    body = struct.pack("<9H", 16, 16, 16, 26, 28, 30, 2, 2, 2) + b"\x12\x34" * 3
    place, size, layout = ((1, 26), (1, 6), 1) if planes == 1 else ((3, 14), (3, 20), 2)
    tags = [
        (256, 1, 1), (257, 1, 1), (258, 3, 8), (259, 1, 1), (262, 1, 2), (273, *place),
        (277, 1, 3), (278, 1, 1), (279, *size), (284, 1, layout),
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 3, *value) for tag, *value in tags)
    return b"II*\0" + struct.pack("<I", 32) + body + struct.pack("<H", 10) + entries + bytes(4)


WIDE = {
    "PNG RGB": wide_png(2, 3),
    "PNG grey and alpha": wide_png(4, 2),
    "PNG RGBA": wide_png(6, 4),
    "TIFF": wide_tiff(1),
    "TIFF in planes": wide_tiff(3),
    "PPM": b"P6 1 1 65535\n" + b"\x12\x34" * 3,
    "PPM of 9 bits": b"P6 1 1 256\n" + b"\0\x12" * 3,
    "PPM in digits": b"P3 1 1 1023\n1 2 1023\n",
}


@pytest.mark.parametrize("mode", ["RGB", "keep"])
@pytest.mark.parametrize("name", WIDE)
def test_colours_of_more_than_8_bits_are_refused_and_never_cut(pillow, name, mode):
    _, decoders = pillow
    said = "got several channels of more bits, which Pillow cannot hold; convert it to npy, or to 8"
    with pytest.raises(SourceError, match=said):
        decoders["image"](mode=mode)(WIDE[name])


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (b"P6 1 1 255\n\x01\x02\xff", [[[1, 2, 255]]]),
        (b"P3 1 1 255\n1 2 255\n", [[[1, 2, 255]]]),
        (b"P5 1 1 65535\n\x12\x34", [[0x1234]]),
        (wide_png(0, 1), [[0x1234]]),
    ],
)
def test_colours_of_8_bits_and_all_greys_are_kept(pillow, data, pixels):
    _, decoders = pillow
    assert pixels == decoders["image"](mode="keep")(data).tolist()


def grey_tiff(values, signed=False, black=0, compressed=False):
    """Makes a TIFF of one row of grey, in the byte order that the values have."""
    data = zlib.compress(values.tobytes()) if compressed else values.tobytes()
    order = ">" if values.dtype.str[0] == ">" else "<"
    head = b"MM\0*" if order == ">" else b"II*\0"
    tags = [
        (256, 4, values.size), (257, 4, 1), (258, 3, values.itemsize * 8),
        (259, 3, 8 if compressed else 1), (262, 3, int(black == 0)), (273, 4, 200), (277, 3, 1),
        (278, 4, 1), (279, 4, len(data)), (339, 3, 1 + signed),
    ]  # fmt: skip
    entries = b"".join(
        struct.pack(f"{order}HHI", tag, kind, 1)
        + (struct.pack(f"{order}I", value) if kind == 4 else struct.pack(f"{order}HH", value, 0))
        for tag, kind, value in tags
    )
    head += struct.pack(f"{order}IH", 8, len(tags)) + entries
    return head.ljust(200, b"\0") + data


def tiff(values, tags):
    """Makes a TIFF of 8 bits a value, with these tags besides; its values are at 200."""
    tags = {256: len(values), 257: 1, 258: 8, 259: 1, 262: 1, 277: 1} | tags
    if 324 not in tags:  # strips in the place of tiles
        tags = {273: 200, 278: 1, 279: len(values)} | tags
    entries = b"".join(
        struct.pack("<HHII", tag, 3, *(value if isinstance(value, tuple) else (1, value)))
        for tag, value in sorted(tags.items())
    )
    return (b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries).ljust(200, b"\0") + values


def tiff_in_planes(*planes, compressed=True, **tags):
    """Makes a TIFF of one row, in which each channel lies for itself; tags by "t" and number."""
    packed = [zlib.compress(bytes(plane)) if compressed else bytes(plane) for plane in planes]
    count, begin = len(planes), 200 + 6 * len(planes)
    begins = list(itertools.accumulate(map(len, packed[:-1]), initial=begin))
    arrays = [struct.pack(f"<{count}H", *it) for it in ([8] * count, begins, map(len, packed))]
    found = {256: len(planes[0]), 259: 8 if compressed else 1, 277: count, 284: 2}
    found |= {int(name[1:]): value for name, value in tags.items()}
    for place, (tag, array) in enumerate(zip((258, 273, 279), arrays, strict=True)):
        inside = int.from_bytes(array, "little")
        found[tag] = count, inside if count < 3 else 200 + 2 * count * place
    return tiff(b"".join(arrays + packed), found)


MISREAD = {
    "grey and alpha": tiff_in_planes([10, 20], [100, 200], t338=2),
    "grey times alpha": tiff_in_planes([10, 20], [100, 200], t338=1),
    "a fourth channel": tiff_in_planes([1], [2], [3], [100], t262=2),
    "CIELab": tiff_in_planes([1], [2], [3], t262=8),
    "CIELab as it is": tiff_in_planes([1], [2], [3], compressed=False, t262=8),
}


@pytest.mark.parametrize("mode", ["keep", "RGBA"])
@pytest.mark.parametrize("name", MISREAD)
def test_planes_that_pillow_misreads_are_refused(pillow, name, mode):
    module, decoders = pillow
    if name == "grey times alpha" and int(module.__version__.partition(".")[0]) < 13:
        pytest.skip("an older Pillow does not know such a file")
    with pytest.raises(SourceError, match="channels of a pixel lie together, got each channel"):
        decoders["image"](mode=mode)(MISREAD[name])


@pytest.mark.parametrize(
    ("data", "pixel"),
    [
        (tiff_in_planes([1], [2], [3], t262=2), [1, 2, 3]),
        (tiff_in_planes([1], [2], [3], [4], t262=5), [1, 2, 3, 4]),
        (tiff_in_planes([1], [2], [3], [255], t262=2, t338=2), [1, 2, 3, 255]),
    ],
    ids=["colours", "four colours", "colours and alpha"],
)
def test_other_planes_are_read(pillow, data, pixel):
    _, decoders = pillow
    assert [[pixel]] == decoders["image"](mode="keep")(data).tolist()


@pytest.mark.parametrize("mode", ["keep", "RGB"])
def test_ycbcr_without_compression_is_refused(pillow, mode):
    """A Pillow before 13 reads four bytes of each three."""
    module, decoders = pillow
    with pytest.raises(SourceError, match="got YCbCr without compression"):
        decoders["image"](mode=mode)(encoded(module, "TIFF", mode="YCbCr"))


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_that_is_to_be_turned_stays_as_it_lies(pillow, orientation, compression):
    """As other formats do; Pillow turns it when it is loaded."""
    module, decoders = pillow
    file = io.BytesIO()
    tags = {274: orientation}
    module.fromarray(PIXELS).save(file, "TIFF", tiffinfo=tags, compression=compression)
    assert PIXELS.tolist() == decoders["image"]()(file.getvalue()).tolist()


def test_a_tiff_that_is_to_be_turned_by_its_xmp_stays_as_it_lies(pillow):
    module, decoders = pillow
    file = io.BytesIO()
    module.fromarray(PIXELS).save(file, "TIFF", tiffinfo={700: b'<x tiff:Orientation="6"/>'})
    assert PIXELS.tolist() == decoders["image"]()(file.getvalue()).tolist()


def test_greys_that_are_to_be_turned_stay_without_a_sign(pillow):
    _, decoders = pillow
    values = np.array([[1, 2**31, 2**32 - 1]], "<u4")
    data = tiff(values.tobytes(), {256: 3, 258: 32, 274: 6})
    assert values.tolist() == decoders["image"](mode="keep")(data).tolist()


@pytest.mark.parametrize(
    ("stored", "kept"),
    [("|u1", "uint8"), ("<u2", "uint16"), (">u2", "uint16"), ("<u4", "uint32")],
)
def test_greys_without_a_sign_are_kept_in_this_machines_byte_order(pillow, stored, kept):
    """So they stack with others, and what is above the middle does not become negative."""
    _, decoders = pillow
    values = np.array([1, np.iinfo(stored).max // 2 + 6, np.iinfo(stored).max - 5], stored)
    found = decoders["image"](mode="keep")(grey_tiff(values))
    assert (np.dtype(kept), [values.tolist()]) == (found.dtype, found.tolist())


OTHER = ">" if sys.byteorder == "little" else "<"


@pytest.mark.parametrize(("kind", "sample_format"), [("i2", 2), ("i4", 2), ("f4", 3)])
def test_compressed_values_of_the_other_byte_order_are_refused(pillow, kind, sample_format):
    """libtiff swaps their bytes, and Pillow once more."""
    _, decoders = pillow
    decode, values = decoders["image"](mode="keep"), np.array([1, 2, 3])
    data = grey_tiff(values.astype(OTHER + kind), sample_format - 1, compressed=True)
    with pytest.raises(SourceError, match="this machine's byte order"):
        decode(data)
    same = values.astype(np.dtype(kind))
    for stored in (same, same.astype("=u2" if kind == "i2" else "=u4")):
        signed = sample_format - 1 if stored is same else 0
        assert [values.tolist()] == decode(grey_tiff(stored, signed, compressed=True)).tolist()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def grey_png(bits, level):
    """Makes a PNG of one row, of the greys 0 to 3, of which one is transparent."""
    row = sum(value << bits * (3 - value) for value in range(4)) << max(0, 8 - 4 * bits)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", 4, 1, bits, 0, 0, 0, 0),
        b"tRNS": struct.pack(">H", level),
        b"IDAT": zlib.compress(b"\0" + row.to_bytes(max(1, bits // 2), "big")),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(itertools.starmap(chunk, chunks.items()))


def test_a_transparent_white_of_one_bit_is_refused(pillow):
    _, decoders = pillow
    with pytest.raises(SourceError, match="a grey of 8 bits where one is transparent"):
        decoders["image"](mode="RGBA")(grey_png(1, 1))


@pytest.mark.parametrize("bits", [2, 4])
def test_a_transparent_grey_of_few_bits_is_refused_where_it_counts(pillow, bits):
    """Pillow looks for its level among greys that it has scaled to 8 bits; black it finds."""
    _, decoders = pillow
    with pytest.raises(SourceError, match="a grey of 8 bits where one is transparent"):
        decoders["image"](mode="RGBA")(grey_png(bits, 2))
    greys = [[value * 255 // (2**bits - 1) for value in range(4)]]
    assert greys == decoders["image"](mode="L")(grey_png(bits, 2)).tolist()
    for more, level in ((bits, 0), (8, 0), (8, 2)):
        whole = decoders["image"](mode="RGBA")(grey_png(more, level))
        assert [[0 if value == level else 255 for value in range(4)]] == whole[:, :, 3].tolist()


@pytest.mark.parametrize("mode", ["RGB", "keep"])
def test_four_colours_of_a_jpeg_are_refused_without_adobes_mark(pillow, mode):
    """Then they are stored as they are, and Pillow inverts them as it does with the mark."""
    module, decoders = pillow
    data = encoded(module, "JPEG", np.full((8, 8, 4), 10, np.uint8), "CMYK")
    at = data.index(b"\xff\xee")
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    unmarked = data[:at] + data[at + 2 + size :]
    more = io.BytesIO()
    first = module.fromarray(PIXELS)
    first.save(more, "MPO", save_all=True, append_images=[first])
    index = more.getvalue()[more.getvalue().index(b"\xff\xe2") :]  # of the pictures behind it
    index = index[: 2 + int.from_bytes(index[2:4], "big")]
    for wrong in (unmarked, unmarked[:2] + index + unmarked[2:]):
        with pytest.raises(SourceError, match="Adobe's mark in a JPEG of four colours"):
            decoders["image"](mode=mode)(wrong)
    assert decoders["image"](mode=mode)(data).shape == (8, 8, 4 if mode == "keep" else 3)


@pytest.mark.parametrize("stored", ["<i2", ">i2", "<i4", ">i4"])
def test_signed_greys_are_kept(pillow, stored):
    _, decoders = pillow
    found = decoders["image"](mode="keep")(grey_tiff(np.array([-1, 5, -128], stored), signed=True))
    assert (np.dtype("int32"), [[-1, 5, -128]]) == (found.dtype, found.tolist())


@pytest.mark.parametrize("mode", ["keep", "L", "RGB"])
def test_signed_greys_of_8_bits_are_refused_and_never_taken_for_others(pillow, mode):
    _, decoders = pillow
    data = grey_tiff(np.array([-1, 5, -128], "i1"), signed=True)
    with pytest.raises(SourceError, match="got signed ones of 8, which Pillow takes for others"):
        decoders["image"](mode=mode)(data)


def bitmap_of_5_bits():
    """Makes a BMP of one pixel, its colours 1, 2 and 3 of 31."""
    head = struct.pack("<IHHI", 58, 0, 0, 54) + struct.pack(
        "<IiiHHIIiiII", 40, 1, 1, 1, 16, *[0] * 6
    )
    return b"BM" + head + struct.pack("<HH", 1 << 10 | 2 << 5 | 3, 0)


SCALED = {
    "BMP of 5 bits": (bitmap_of_5_bits(), [[[8, 16, 24]]]),
    "TIFF with white as 0": (
        grey_tiff(np.array([0, 9], "u1"), black=255),
        [[[255] * 3, [246] * 3]],
    ),
    "TIFF of a bit with white as 0": (
        tiff(b"\x40", {256: 2, 258: 1, 262: 0}),
        [[[255] * 3, [0] * 3]],
    ),
    "PBM": (b"P4 2 1\n\x40", [[[255] * 3, [0] * 3]]),
    "PBM in digits": (b"P1 2 1\n0 1\n", [[[255] * 3, [0] * 3]]),
    "PGM": (b"P5 1 1 7\n\3", [[[109] * 3]]),
    "PGM in digits": (b"P2 1 1 7\n3\n", [[[109] * 3]]),
    "PGM of 10 bits": (b"P5 1 1 1023\n\1\2", None),
    "PPM": (b"P6 1 1 15\n\0\1\x0f", [[[0, 17, 255]]]),
    "PNG of 4 bits": (wide_png(0, 1, bits=4), None),
}


@pytest.mark.parametrize("name", SCALED)
def test_what_is_kept_is_not_scaled(pillow, name):
    """Or inverted, as Pillow does so that it looks right: labels would be others."""
    _, decoders = pillow
    data, shown = SCALED[name]
    with pytest.raises(
        SourceError, match="got a file of fewer levels or with white as 0, which Pillow"
    ):
        decoders["image"](mode="keep")(data)
    if shown:
        assert shown == decoders["image"]()(data).tolist()


@pytest.mark.parametrize("mode", ["RGB", "L", "keep"])
def test_what_no_mode_can_read_is_not_sent_to_another(pillow, mode):
    """10 bits of grey: too many to convert, and scaled where they are kept."""
    _, decoders = pillow
    data, _ = SCALED["PGM of 10 bits"]
    with pytest.raises(SourceError, match=r"convert it to npy, or to 8 or 16 bits a value$"):
        decoders["image"](mode=mode)(data)


def test_colours_that_are_multiplied_by_their_alpha_are_refused_where_they_are_kept(pillow):
    """Pillow divides them."""
    _, decoders = pillow
    data = tiff(bytes([10, 20, 30, 100]), {256: 1, 262: 2, 277: 4, 338: 1})
    with pytest.raises(SourceError, match="got colours multiplied by it, which Pillow divides"):
        decoders["image"](mode="keep")(data)
    assert [[[25, 51, 76, 100]]] == decoders["image"](mode="RGBA")(data).tolist()


CHANNELS = {  # extra ones of no meaning that the file tells: 338 has a 0 for each
    "grey and one": (bytes([10, 20]), {277: 2, 338: 0}, 1, [[[10] * 3]]),
    "colours and one": (bytes([1, 2, 3, 4]), {262: 2, 277: 4, 338: 0}, 3, [[[1, 2, 3]]]),
    "colours and two": (bytes(range(5)), {262: 2, 277: 5, 338: (2, 0)}, 3, [[[0, 1, 2]]]),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_that_pillow_leaves_out_are_refused_where_they_are_kept(pillow, name):
    module, decoders = pillow
    values, tags, kept, shown = CHANNELS[name]
    data = tiff(values, {256: 1} | tags)
    message = f"got {len(values)}, of which Pillow keeps {kept}; convert it to npy, or leave"
    if name == "grey and one" and int(module.__version__.partition(".")[0]) < 13:
        with pytest.raises(SourceError, match="cannot identify image file"):
            decoders["image"]()(data)
        return
    with pytest.raises(SourceError, match=message):
        decoders["image"](mode="keep")(data)
    assert shown == decoders["image"]()(data).tolist()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_that_a_tiff_tells_are_kept(pillow, channels):
    module, decoders = pillow
    values = np.arange(2 * 3 * channels, dtype=np.uint8).reshape(2, 3, channels)
    made = io.BytesIO()
    module.fromarray(values[..., 0] if channels == 1 else values).save(made, "TIFF")
    found = decoders["image"](mode="keep")(made.getvalue())
    assert values.reshape(found.shape).tolist() == found.tolist()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_grey_that_is_multiplied_by_its_alpha_is_refused_unless_it_is_kept(pillow, mode):
    module, decoders = pillow
    if int(module.__version__.partition(".")[0]) < 13:
        pytest.skip("an older Pillow does not know such a file")
    data = tiff(bytes([10, 100]), {256: 1, 277: 2, 338: 1})
    with pytest.raises(SourceError, match=r"got grey multiplied by it, .* read it with .*keep"):
        decoders["image"](mode=mode)(data)
    assert [[[10, 100]]] == decoders["image"](mode="keep")(data).tolist()


def bitmap_of_greys(bits, colours, oldest=False):
    """Makes a BMP of eight pixels with a palette of greys."""
    head = struct.pack("<IHHHH", 12, 8, 1, 1, bits)
    if not oldest:
        head = struct.pack("<IiiHHIIiiII", 40, 8, 1, 1, bits, 0, 0, 0, 0, len(colours), 0)
    palette = b"".join(bytes([grey] * 3 if oldest else [grey] * 3 + [0]) for grey in colours)
    start = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + 8, 0, 0, start) + head + palette + b"\0\1" * 4


@pytest.mark.parametrize("mode", ["keep", "L", "RGB"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bitmap_of_greys(4, range(16)), "a bit depth of 8 .*, got 4, which"),
        (bitmap_of_greys(4, range(16), oldest=True), "a bit depth of 8 .*, got 4, which"),
        (bitmap_of_greys(4, [0, 255]), "a bit depth of 1 .*, got 4, which"),
        (bitmap_of_greys(8, [0, 255]), "a bit depth of 1 .*, got 8, which"),
    ],
    ids=["16 greys", "16 greys, the oldest head", "4 bits, black and white", "8 bits, the same"],
)
def test_a_bmp_whose_bits_pillow_mistakes_is_refused(pillow, mode, data, said):
    """It goes by the greys of the palette alone: the pixels would be others."""
    _, decoders = pillow
    with pytest.raises(SourceError, match=said):
        decoders["image"](mode=mode)(data)


@pytest.mark.parametrize("oldest", [False, True])
@pytest.mark.parametrize(
    ("bits", "colours", "pixels"),
    [
        (8, range(256), [0, 1] * 4),
        (8, [0, 9], [0, 1] * 4),
        (4, [0, *range(2, 17)], [0, 0, 0, 1] * 2),
        (1, [0, 255], [False] * 8),
    ],
)
def test_other_bmps_of_greys_are_kept(pillow, bits, colours, pixels, oldest):
    _, decoders = pillow
    if oldest:  # a palette of all colours
        colours = [*colours, *[7] * (2**bits - len(colours))]
    found = decoders["image"](mode="keep")(bitmap_of_greys(bits, colours, oldest))
    assert [pixels] == found.tolist()


TILES = {257: 16, 322: 16, 323: 16, 324: 200, 325: 256}

LACKING = {
    "strips": tiff(b"ab", {257: 4}),
    "planes": tiff(b"ab", {262: 2, 277: 3, 284: 2}),
    "tiles": tiff(b"a" * 256, TILES | {256: 32}),
    "left out": tiff(b"ab", {273: 0}),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_tiff_that_lacks_strips_or_tiles_is_refused(pillow, name):
    """And is not made whole with zeros, or with the head of the file."""
    _, decoders = pillow
    with pytest.raises(SourceError, match="got a TIFF that lacks some strips or tiles"):
        decoders["image"]()(LACKING[name])


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (tiff(b"abcd", {256: 2, 257: 2, 278: 9}), [[[97] * 3, [98] * 3], [[99] * 3, [100] * 3]]),
        (tiff(b"a" * 256, TILES | {256: 1, 257: 1}), [[[97] * 3]]),
        # Behind the three values, at 204, stand the places of the planes.
        (
            tiff(
                b"abc\0" + struct.pack("<3H", 200, 201, 202),
                {256: 1, 262: 2, 273: (3, 204), 277: 3, 284: 2},
            ),
            [[[97, 98, 99]]],
        ),
    ],
    ids=["strip", "tile", "planes"],
)
def test_strips_and_tiles_that_reach_beyond_the_image_are_whole(pillow, data, pixels):
    """And planes of which each is one strip."""
    _, decoders = pillow
    assert pixels == decoders["image"]()(data).tolist()
