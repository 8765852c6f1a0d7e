"""A framework that is declared present is used, and takes batches; only another is skipped."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from frameworks import VARIABLE, framework

from threadloader import Loader

TESTS = Path(__file__).resolve().parent


def outcome(folder: Path, name: str, declared: str) -> str:
    """The last line of pytest in a child interpreter, for a test that asks for a framework."""
    (folder / "test_it.py").write_text(
        "import frameworks\nframeworks.KNOWN |= {'json', 'xml', 'no_such_framework'}\n"
        f"def test_it(): frameworks.framework({name!r})\n"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            folder,
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS), VARIABLE: declared},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout.strip().splitlines()[-1].partition(" in ")[0]


@pytest.mark.parametrize(
    ("name", "declared", "expected"),
    [
        pytest.param("json", "json", "1 passed", id="declared-and-there"),
        pytest.param("json", "xml, json ,", "1 passed", id="one-of-several"),
        pytest.param("json", "", "1 skipped", id="not-declared"),
        pytest.param("no_such_framework", "torch", "1 skipped", id="another-declared"),
        pytest.param("json", "json, Torch", "1 failed", id="a-name-that-nothing-is-imported-by"),
        pytest.param(
            "no_such_framework", "no_such_framework", "1 failed", id="declared-and-missing"
        ),
    ],
)
def test_a_framework_is_used_skipped_or_missed(
    tmp_path: Path, name: str, declared: str, expected: str
) -> None:
    """A declared framework is imported or fails the test; an undeclared one skips it."""
    assert expected == outcome(tmp_path, name, declared)


ARRAYS = {
    "x": np.arange(24, dtype=np.float32).reshape(8, 3),
    "y": np.arange(8, dtype=np.int32),
}
CONFIG = {"batch_size": 3, "shuffle": False, "num_workers": 2}


def test_batches_pass_to_torch() -> None:
    """A batch's arrays become tensors of the same values by `torch.from_numpy`."""
    torch = framework("torch")
    with Loader(CONFIG, source=ARRAYS) as batches:
        tensors = [{name: torch.from_numpy(batch[name]) for name in ARRAYS} for batch in batches]
    for name, array in ARRAYS.items():
        joined = torch.cat([tensor[name] for tensor in tensors])
        assert (f"torch.{array.dtype}", array.tolist()) == (str(joined.dtype), joined.tolist())


def test_batches_pass_to_jax() -> None:
    """A batch's arrays become JAX arrays of the same values by `jax.numpy.asarray`."""
    jnp = framework("jax").numpy
    with Loader(CONFIG, source=ARRAYS) as batches:
        arrays = [{name: jnp.asarray(batch[name]) for name in ARRAYS} for batch in batches]
    for name, array in ARRAYS.items():
        joined = jnp.concatenate([part[name] for part in arrays])
        assert (array.dtype, array.tolist()) == (joined.dtype, joined.tolist())
