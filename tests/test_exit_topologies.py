"""A program ends as it should, wherever it has left an open loader.

`exits` is the program. Most of its ends are forks of one process, in which everything is
imported already; one of each topology is a process of its own (`ends`). The exit code is exact,
nothing is on stderr, and who hangs is killed and shows its stacks there.
`python3 tools/campaign exits` draws further ones.
"""

import itertools
import os

import exits
import pytest
from campaigns import exits as campaign
from ends import Ends, Way, end_alone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

WORKERS = (0, 1, 3, 8)
RUNS = 6
"""Forks of each topology. With so many, 200 ends in all."""

PAIRS = list(itertools.product(WORKERS, exits.STATES))


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    with Ends(tmp_path_factory.mktemp("ends")) as ends:
        yield ends


def test_there_are_at_least_200_ends_and_20_topologies():
    assert len(exits.CODES) * (RUNS + 1) >= 200
    assert len(exits.CODES) >= 20


@pytest.mark.parametrize(("topology", "code"), exits.CODES.items())
def test_a_fork_that_left_a_loader_open_ends(ends, topology, code):
    """With workers and states in turn, so that all come over all topologies."""
    first = list(exits.CODES).index(topology) * RUNS
    for number in range(first, first + RUNS):
        workers, state = PAIRS[number * 7 % len(PAIRS)]
        way = Way(topology, workers, state)
        assert (way, code, "", "") == (way, *ends.end(way))


@pytest.mark.parametrize(("topology", "code"), exits.CODES.items())
def test_a_program_that_left_a_loader_open_ends(topology, code):
    workers, state = PAIRS[list(exits.CODES).index(topology) * 3 % len(PAIRS)]
    assert (code, "", "") == end_alone(Way(topology, workers, state))


class TestTheCampaign:
    def test_it_ends_programs(self, capsys):
        """In one topology after the other; the first round has forks alone."""
        assert 0 == campaign.main(["--count=8", "--seed=1", "--processes=1"])
        told = "exits: 8 run, 8 distinct, 0 failed, 8 forks, 0 interpreters of their own, "
        assert capsys.readouterr().out.startswith(told)

    def test_one_round_of_some_has_interpreters_of_its_own(self):
        """With every topology in it, as in the others."""
        topologies = list(exits.CODES)
        ways = [campaign.drawn(1, n) for n in range(campaign.ALONE * len(topologies))]
        assert topologies * campaign.ALONE == [way.topology for way, _ in ways]
        assert topologies == [way.topology for way, forked in ways if not forked]

    @pytest.mark.parametrize("alone", [1, 2])
    def test_an_end_that_is_wrong_is_told(self, alone, monkeypatch, capsys):
        """A code that is not the one expected, with what repeats it."""
        monkeypatch.setattr(campaign, "CODES", {"at_once": 0})
        monkeypatch.setattr(campaign, "ALONE", alone)
        assert 1 == campaign.main(["--count=1", "--processes=1"])
        said = capsys.readouterr().err
        assert ("a process" if alone == 1 else "a fork") in said
        assert "python3 tests/exits.py at_once " in said
        assert "expected (0, '', ''), got (5, '', '')" in said
