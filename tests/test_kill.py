"""A run that is killed at any moment, however often, delivers what it would have delivered.

`killed` is what is killed, `lives` looks at what is left, and `campaigns.kills` says what is
looked at.
"""

import json
import os
import random
import signal
import subprocess
import sys

import pytest
from campaigns.kills import Kills, main
from killed import STEPS
from lives import PROGRAM, Count, Run, Server

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="lives are forks, and SIGKILL is a signal of Unix"
)

WORKERS = [0, 1, 2, 8]
KILLS, FRESH = 60, 4
"""For each number of workers; forks, and processes with an interpreter of their own."""


def test_there_are_at_least_100_kills():
    assert len(WORKERS) * KILLS + FRESH >= 100


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.mark.parametrize("workers", WORKERS)
def test_a_run_that_is_killed_at_random_delivers_the_uninterrupted_sequence(
    server, workers, tmp_path
):
    """Looked at after every kill; the run is killed until it is done."""
    count = Kills(server, tmp_path, seed=workers, workers=[workers], disk=0).until(KILLS)
    assert KILLS == count.kills == sum(count.phases.values())
    assert count.lives == count.kills + count.runs


def test_so_does_a_run_of_processes_with_their_own_interpreter(server, tmp_path):
    count = Kills(server, tmp_path, seed=5, workers=[0, 2]).until(FRESH, fresh=True)
    assert FRESH == count.kills == count.fresh


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_each_step_of_a_save_leaves_the_state_before_it_or_its_own(
    server, step, tmp_path
):
    """Up to the rename it is that before, of which there is none in the first save."""
    if step == "folder" and not hasattr(os, "O_DIRECTORY"):
        pytest.skip("folders cannot be flushed here")
    own = step in ("replaced", "folder")
    for number in (1, 2, 5):
        run = Run(tmp_path / str(number), random.Random(number), [0, 2])
        count = Count()
        code, _ = server.live(run.next_job(die=[step, number]))
        run.look(count, code)
        assert (-signal.SIGKILL, {"in a save": 1}) == (code, count.phases)
        assert (number if own else number - 1) == run.saved
        assert (step not in ("open", "replaced", "folder")) == bool(count.temporaries)
        run.look(count, server.live(run.next_job())[0])
        assert (2, 1) == (count.lives, count.kills)


def test_what_is_looked_at_would_show_a_batch_that_is_lost_or_comes_twice(server, tmp_path):
    """A state from one batch earlier or later than the record says is found."""
    for number, change in enumerate((-1, 1)):
        run = Run(tmp_path / str(number), random.Random(1), [0])
        code, _ = server.live(run.next_job(die=["replaced", 3]))
        run.look(Count(), code)
        (run.folder / "run.state").write_text(
            json.dumps(run.states[run.saved + change], indent=1) + "\n", encoding="ascii"
        )
        code, _ = server.live(run.next_job(die=["replaced", 3]))
        with pytest.raises(AssertionError, match="another sequence"):
            run.look(Count(), code)


def test_the_campaign_tells_what_it_did(capsys):
    assert 0 == main(["--count", "3", "--fresh", "1", "--workers", "2"])
    assert "kills: 3 in " in capsys.readouterr().out.splitlines()[-1]


def test_a_life_that_fails_is_no_kill(tmp_path):
    """The program ends with a traceback and a code of its own, which no look accepts."""
    run = Run(tmp_path / "run", random.Random(1), [0])
    job = run.next_job()
    (tmp_path / "run" / "run.state").write_text("no state", encoding="ascii")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, PROGRAM, json.dumps(job)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (1, True) == (child.returncode, "StateError" in child.stderr)
    with pytest.raises(AssertionError, match="ended with 1"):
        run.look(Count(), child.returncode)
