"""SHA-256 without OpenSSL, which `hashlib` loads: 5 ms before the first batch, and 3.5 MiB.

What is summed with it is short: some rows, or sizes and times of files.
"""

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # CPython 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:  # pragma: no cover - a Python built without its own
        from hashlib import sha256

__all__ = ["sha256"]
