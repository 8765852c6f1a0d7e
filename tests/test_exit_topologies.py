"""A program ends as it should, wherever it has left an open loader.

`exits` is the program. Most of its ends are forks of one process, in which everything is
imported already; one of each topology is a process of its own. The exit code is exact, nothing
is on stderr, and who hangs is killed and shows its stacks there.
"""

import itertools
import json
import os
import subprocess
import sys

import exits
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

WORKERS = (0, 1, 3, 8)
RUNS = 6
"""Forks of each topology. With so many, 200 ends in all."""

PAIRS = list(itertools.product(WORKERS, exits.STATES))
ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OPENBLAS_NUM_THREADS": "1",  # a process that has more threads should not be forked
}


class Ends:
    """Has ends brought about, in forks."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, exits.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENV,
        )

    def end(self, topology, workers, state):
        """Gives exit code, stdout and stderr."""
        job = {"topology": topology, "workers": workers, "state": state}
        names = {name: str(self.folder / name) for name in ("stdout", "stderr")}
        self.process.stdin.write(json.dumps(job | names) + "\n")
        self.process.stdin.flush()
        code = json.loads(self.process.stdout.readline())["code"]
        return code, *((self.folder / name).read_text() for name in names)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    ends = Ends(tmp_path_factory.mktemp("ends"))
    yield ends
    ends.close()


def test_there_are_at_least_200_ends_and_20_topologies():
    assert len(exits.CODES) * (RUNS + 1) >= 200
    assert len(exits.CODES) >= 20


@pytest.mark.parametrize(("topology", "code"), exits.CODES.items())
def test_a_fork_that_left_a_loader_open_ends(ends, topology, code):
    """With workers and states in turn, so that all come over all topologies."""
    first = list(exits.CODES).index(topology) * RUNS
    for number in range(first, first + RUNS):
        workers, state = PAIRS[number * 7 % len(PAIRS)]
        expected = (topology, workers, state, code, "", "")
        assert expected == (topology, workers, state, *ends.end(topology, workers, state))


@pytest.mark.parametrize(("topology", "code"), exits.CODES.items())
def test_a_program_that_left_a_loader_open_ends(topology, code):
    workers, state = PAIRS[list(exits.CODES).index(topology) * 3 % len(PAIRS)]
    child = subprocess.run(
        [sys.executable, exits.__file__, topology, str(workers), state],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (code, "", "") == (child.returncode, child.stdout, child.stderr)
