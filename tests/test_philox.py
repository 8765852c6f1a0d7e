"""The draws that an order is made from are those of Philox, as everybody gives them."""

import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader.order._philox import FEW, draws, own_draws


@given(key=st.integers(0, 2**128 - 1), count=st.integers(0, 4 * FEW + 600))
def test_draws_are_those_of_numpy(key, count):
    """All ways of making them, on both sides of the limits between them."""
    for found in (own_draws(key, count), draws(key, count)):
        assert np.uint64 == found.dtype
        assert np.random.Philox(key=key).random_raw(count).tolist() == found.tolist()


@pytest.mark.parametrize("there", [None, types.ModuleType("numpy.random._philox")])
def test_draws_are_made_here_unless_numpy_has_imported_its_own(monkeypatch, there):
    """The module is empty while another thread is importing it."""
    monkeypatch.setitem(sys.modules, "numpy.random._philox", there)
    assert own_draws(7, 500).tolist() == draws(7, 500).tolist()


def test_a_shuffled_run_does_not_import_random_numbers(run_child):
    """Nor OpenSSL: 11 ms in front of the first batch, and 6 MiB. (numpy 1 itself has them all.)"""
    child = run_child(
        "import sys, numpy as np\n"
        "numpys = set(sys.modules)\n"
        "import threadloader\n"
        "config = {'batch_size': 4, 'num_workers': 2,}\n"
        "with threadloader.Loader(config, source=np.arange(40)) as batches:\n"
        "    print(sum(1 for batch in batches))\n"
        "late = {'numpy.random', 'hashlib', 'secrets'} - numpys\n"
        "print(sorted(late & set(sys.modules)))\n"
    )
    assert ("10\n[]", "") == (child.stdout.strip(), child.stderr)
