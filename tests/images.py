"""Images of a few pixels, written by Pillow, and the decoder that reads them."""

import io

import numpy as np
import pytest
from frameworks import framework


@pytest.fixture
def pillow():
    framework("PIL")
    from PIL import Image

    from threadloader.adapters.pillow import image_decoder

    return Image, {"image": image_decoder}


PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)


def encoded(module, kind="PNG", pixels=PIXELS, mode=None):
    file = io.BytesIO()
    image = module.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, kind)
    return file.getvalue()
