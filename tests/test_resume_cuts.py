"""Runs that are cut at random go on as the oracle says: 5040 cuts here, others in a campaign."""

import os

import pytest
from campaigns.resumes import main
from cuts import Chain

PARTS = [(0, range(first, first + 210)) for first in range(0, 1260, 210)]
PARTS += [(workers, range(10_000 * workers, 10_000 * workers + 60)) for workers in (1, 2, 8)]


def cuts_of(seed):
    """How often the chain of a seed is cut: 1 to 6 times."""
    return 1 + seed % 6


def test_there_are_at_least_5000_cuts():
    assert 5040 == sum(cuts_of(seed) for _, seeds in PARTS for seed in seeds)


@pytest.mark.parametrize(("workers", "seeds"), PARTS)
def test_a_run_that_is_cut_anywhere_goes_on_as_the_oracle_says(
    workers, seeds, tmp_path, monkeypatch
):
    """Each batch, `info` and state, in every epoch; over world and batch size exactly once."""
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is for another test
    cuts = 0
    for seed in seeds:
        try:
            cuts += Chain(seed, cuts_of(seed), tmp_path, workers).cuts
        except BaseException as error:
            error.add_note(f"Chain({seed}, {cuts_of(seed)}, folder, {workers})")
            raise
    assert sum(map(cuts_of, seeds)) == cuts


def test_the_campaign_tells_what_it_did(capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", os.fsync)  # put back what the campaign changes
    assert 0 == main(["--count", "8", "--workers", "0", "2"])
    told = capsys.readouterr().out
    assert "resumes: 10 cuts of 4 runs in " in told
    assert told.endswith("0 failed; by workers: 4 with 0, 6 with 2\n")
