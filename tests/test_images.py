"""Images become arrays where Pillow is new enough; damaged and too large ones are refused."""

import io
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from folders import opened, refused, write
from frameworks import framework
from images import PIXELS, encoded, pillow
from opened_sources import samples

from threadloader import Loader
from threadloader.errors import SourceError

__all__ = ["pillow"]  # the fixture


def test_a_missing_pillow_is_an_error_that_names_the_command(monkeypatch):
    from threadloader.adapters.pillow import image_decoder

    monkeypatch.setitem(sys.modules, "PIL", None)  # what importing it then raises is ImportError
    with pytest.raises(SourceError) as caught:
        image_decoder()
    assert 'expected Pillow, which "decode": "image" needs' in str(caught.value)
    assert "install it with: python3 -m pip install pillow" in str(caught.value)
    assert caught.value.option == "/decode"


@pytest.mark.parametrize("version", ["9.5.0", "9.5.0.post2", "10.4.0", "11.1.0"])
def test_an_older_pillow_is_refused(version, monkeypatch):
    """Some files have other pixels there."""
    from threadloader.adapters.pillow import image_decoder

    monkeypatch.setitem(sys.modules, "PIL", SimpleNamespace(__version__=version, Image=None))
    with pytest.raises(SourceError, match=f"expected Pillow 11.2 or newer, .* got {version}; "):
        image_decoder()


@pytest.mark.parametrize("version", ["11.2.1", "11.10.0", "12.0.0.dev0", "13.0.0"])
def test_a_newer_pillow_is_taken(version, monkeypatch):
    from threadloader.adapters import pillow

    fake = SimpleNamespace(__version__=version, Image=SimpleNamespace(OPEN={}))
    monkeypatch.setitem(sys.modules, "PIL", fake)
    monkeypatch.setattr(pillow.importlib, "import_module", lambda name: None)
    assert callable(pillow.image_decoder())


def test_images_become_arrays_of_height_width_and_channels(tmp_path, pillow):
    module, decoders = pillow
    for kind in ("BMP", "PNG", "PPM", "TIFF"):
        write(tmp_path, {f"a.{kind}": encoded(module, kind)})
    for sample in samples(opened(tmp_path, decode="image", decoders=decoders)):
        assert (PIXELS.dtype, PIXELS.tolist()) == (sample["data"].dtype, sample["data"].tolist())
        assert sample["data"].flags.writeable


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "WEBP"])
def test_images_that_lose_something_keep_their_shape(pillow, kind):
    module, decoders = pillow
    assert PIXELS.shape == decoders["image"]()(encoded(module, kind)).shape


@pytest.mark.parametrize(
    ("stored", "mode", "shape"),
    [
        ("1", "RGB", (6, 9, 3)),
        ("P", "RGB", (6, 9, 3)),
        ("LA", "L", (6, 9)),
        ("RGBA", "RGB", (6, 9, 3)),
        ("L", "RGBA", (6, 9, 4)),
        ("P", "keep", (6, 9)),
        ("RGBA", "keep", (6, 9, 4)),
        ("1", "keep", (6, 9)),
    ],
)
def test_the_mode_of_images(pillow, stored, mode, shape):
    module, decoders = pillow
    found = decoders["image"](mode=mode)(encoded(module, mode=stored))
    assert (shape, "bool" if (stored, mode) == ("1", "keep") else "uint8") == (
        found.shape,
        found.dtype,
    )


def test_a_transparent_palette_is_read_without_a_warning(pillow):
    module, decoders = pillow
    file = io.BytesIO()
    module.fromarray(PIXELS).convert("P").save(file, "PNG", transparency=bytes(range(16)))
    assert PIXELS.shape == decoders["image"]()(file.getvalue()).shape


def test_an_image_with_too_many_pixels_is_refused_before_it_is_unpacked(pillow):
    module, decoders = pillow
    assert PIXELS.shape == decoders["image"](max_pixels=54)(encoded(module)).shape
    with pytest.raises(SourceError, match="expected at most 53 pixels, got 9 x 6"):
        decoders["image"](max_pixels=53)(encoded(module))


@pytest.mark.parametrize("most", [20, 40])
def test_an_image_beyond_the_limit_of_pillow_names_that_limit(pillow, monkeypatch, most):
    """Of which it warns, and beyond two of which it refuses."""
    module, decoders = pillow
    monkeypatch.setattr(module, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(SourceError, match=r"own limit, got: .* and PIL\.Image\.MAX_IMAGE_PIXELS"):
        decoders["image"](max_pixels=54)(encoded(module))


@pytest.mark.filterwarnings("ignore::UserWarning:PIL.TiffImagePlugin")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "WEBP"])
def test_an_image_cut_anywhere_is_an_error_or_whole(pillow, kind):
    module, decoders = pillow
    decode, data = decoders["image"](), encoded(module, kind)
    expected = decode(data).tolist()
    refusals = 0
    for length in range(len(data)):
        try:
            assert expected == decode(data[:length]).tolist()
        except SourceError:
            refusals += 1
    assert refusals >= len(data) - 4  # some formats do without their last, empty bytes


def test_a_changed_byte_of_a_png_is_an_error_or_changes_nothing(pillow):
    module, decoders = pillow
    decode, data = decoders["image"](), encoded(module)
    expected = decode(data).tolist()
    for at in range(len(data)):
        for flip in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= flip
            with suppress(SourceError):
                assert expected == decode(bytes(changed)).tolist()


def test_what_is_no_image_is_told_without_an_address_in_memory(pillow):
    """So that it is told in the same words in every run."""
    _, decoders = pillow
    with pytest.raises(SourceError) as caught:
        decoders["image"]()(b"no image")
    told = "WEBP), got: cannot identify image file; copy the file again, convert it, or exclude "
    assert str(caught.value).endswith(f"{told}the sample")


def test_a_damaged_image_names_its_file(tmp_path, pillow):
    module, decoders = pillow
    write(tmp_path, {"a.png": encoded(module)[:-30]})
    assert f"{tmp_path / 'data' / 'a.png'}: expected a whole image (BMP, GIF, JPEG, " in refused(
        tmp_path, decode="image", decoders=decoders
    )


def test_formats_that_run_programs_are_refused(pillow):
    _, decoders = pillow
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    with pytest.raises(SourceError, match="cannot identify image file"):
        decoders["image"]()(postscript)


def test_a_config_alone_decodes_images(tmp_path):
    framework("PIL")
    from PIL import Image

    pixels = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    (tmp_path / "data").mkdir()
    Image.fromarray(pixels).save(tmp_path / "data" / "a.png")
    folder = str(tmp_path / "data")
    with Loader({"source": {"type": "files", "folder": folder, "decode": "image"}}) as batches:
        batch = next(iter(batches))
    assert np.array_equal(pixels[np.newaxis], batch["data"])
