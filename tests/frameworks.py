"""Optional frameworks in tests: used where they are declared present, and then never skipped.

The environment variable ``THREADLOADER_FRAMEWORKS`` lists them, ``torch,jax``. A
machine that declares one and has lost it fails its tests instead of passing with
fewer of them.
"""

import importlib
import os
from types import ModuleType

import pytest

VARIABLE = "THREADLOADER_FRAMEWORKS"

KNOWN = frozenset({"PIL", "h5py", "jax", "sklearn", "tokenizers", "torch"})
"""By the names that are imported."""


def declared() -> frozenset[str]:
    """The names of the frameworks that are declared present."""
    names = frozenset(filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))))
    if unknown := names - KNOWN:  # its tests would be skipped, as if nobody had declared it
        wanted = ",".join(sorted(KNOWN))
        raise pytest.UsageError(f"{VARIABLE}: expected some of {wanted}, got {sorted(unknown)}")
    return names


def framework(name: str) -> ModuleType:
    """Imports a framework; skips the test where it is not declared, fails where it is missing."""
    if name not in declared():
        pytest.skip(f"{name} is not listed in {VARIABLE}", allow_module_level=True)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.fail(f"{VARIABLE} lists {name}, expected to import it, got: {error}", pytrace=False)
