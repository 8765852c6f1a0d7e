"""JPEG decoding and resizing with Pillow, from memory: long work without the GIL."""

from __future__ import annotations

import functools
import importlib
import io
from typing import Any

import numpy as np

from .._measure import loop, plain_loops
from .._protocol import Cannot, Case, Job, Metric

SHORT = "JPEG"
TITLE = "JPEG decode and resize with Pillow, 500 x 375 to 224 x 224 float32, batches of 32"
LIMIT = "workers (at most cores) x the rate of a plain loop in one thread"
METRICS = (Metric("samples_per_second", "samples/s", "/s"),)
FILES = 32


def cases(quick: bool) -> list[Case]:
    """Give two workers."""
    return [Case("2 workers", {"samples": 32 if quick else 1024, "workers": 2})]


@functools.cache
def _files() -> list[bytes]:
    """Make pictures of smooth shapes and some noise, which pack as photographs do."""
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError:
        raise Cannot("expected Pillow, found none; write: pip install pillow") from None
    random = np.random.default_rng(0)
    files = []
    for _ in range(FILES):
        coarse = random.integers(0, 255, (12, 16, 3), np.uint8)
        smooth = np.asarray(image.fromarray(coarse).resize((500, 375)), np.int16)
        noise = random.integers(-12, 13, smooth.shape, np.int16)
        file = io.BytesIO()
        image.fromarray((smooth + noise).clip(0, 255).astype(np.uint8)).save(
            file, "JPEG", quality=88
        )
        files.append(file.getvalue())
    return files


class Files:
    """The pictures as files in memory."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._files = _files()

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"file": self._files[index % FILES], "index": index}


def decode(sample: dict[str, Any]) -> dict[str, Any]:
    """Decode and resize a picture: float32 ``(224, 224, 3)``."""
    from PIL import Image

    with Image.open(io.BytesIO(sample["file"])) as image:
        small = image.resize((224, 224), Image.Resampling.BILINEAR)
    return {"x": np.asarray(small, np.float32), "index": sample["index"]}


def job(options: dict[str, Any]) -> Job:
    """Give the pictures."""
    return Job(
        source=Files(options["samples"]),
        batch_size=32,
        workers=options["workers"],
        cost="computes",
        transform=decode,
    )


measure, limit = loop, plain_loops
