"""Writes ``digits.npz`` from scikit-learn's copy of the handwritten digits.

    python examples/data/make_digits.py [FILE]

The same bytes on every machine and every day: the entries of the zip archive bear
a fixed date and are not compressed (compressed bytes differ between versions of
zlib). README.md beside this file says where the data comes from and what its
checksum is. scikit-learn is needed to make the file, not to read it.
"""

import argparse
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# The first date that a zip archive can hold.
NO_DATE = (1980, 1, 1, 0, 0, 0)


def digits() -> dict[str, np.ndarray]:
    """Gives the arrays of the file.

    Returns:
        ``images``, ``(1797, 8, 8)`` uint8: ink in 0..16; ``labels``, ``(1797,)`` uint8: 0..9.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    return {
        "images": np.ascontiguousarray(data.images, dtype=np.uint8),
        "labels": np.ascontiguousarray(data.target, dtype=np.uint8),
    }


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays as `numpy.savez` does, with nothing in the file but the arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", NO_DATE)
            entry.create_system = 3  # else it would name the system this runs on
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content.getvalue())


def main() -> int:
    """Writes the file and prints its checksum."""
    parser = argparse.ArgumentParser(description="Writes the digits of the examples.")
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "digits.npz")
    path = parser.parse_args().file
    try:
        arrays = digits()
    except ImportError as error:
        told = f"expected scikit-learn, got: {error}; pip install scikit-learn"
        print(f"make_digits: {told}", file=sys.stderr)
        return 1
    write_npz(path, arrays)
    print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
