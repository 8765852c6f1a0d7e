"""Nothing that a config or a data file says runs code, leaves the root, or fills the memory.

Some five hundred hostile configs and files (`hostile`) are tried in a child interpreter under
an audit hook (`guarded`), which hears of every import, exec, compile, open, unpickling, program
and socket; memory is bounded there, so that a size that lies is a `MemoryError`.
"""

import json
import sys
from pathlib import Path

import pytest
import unguarded

if sys.platform != "linux":
    pytest.skip("bounds the memory, and makes pipes and devices", allow_module_level=True)

TESTS = Path(__file__).parent


@pytest.fixture
def guarded(run_child, tmp_path):
    """Gives a function that tries everything, with a planted fault or none."""

    def tried(*planted):
        code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import guarded; guarded.main("
        child = run_child(code + "*sys.argv[1:])", str(tmp_path), *planted, timeout=300)
        assert 0 == child.returncode, child.stderr
        return json.loads(child.stdout.splitlines()[-1])  # some modules print when imported

    return tried


def test_hostile_inputs_are_refused_and_nothing_else_happens(guarded):
    """But for an index that cannot be kept: the lines are read without it."""
    said = guarded()
    assert [] == said["violations"]
    assert [True] == [name.startswith("index ") for name in said["read"]]
    assert said["refused"] > 450


@pytest.mark.parametrize("event", unguarded.PLANTED)
def test_a_library_that_lets_them_is_seen(event, guarded):
    """Each kind of violation is heard of when it is there."""
    assert any(event in violation for violation in guarded(event)["violations"])
