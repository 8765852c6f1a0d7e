"""Damaged files of every format: the true rows, or an error that names the file.

What is allowed, and what nobody can notice, stands in `damages`; `tools/campaign files` does
random damages by the million.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest
from campaigns import files
from damages import KINDS, Home, bounded_memory, cuts, quiet

from threadloader.errors import SourceError
from threadloader.sources import _files, _npy_rows, jsonl

NAMES = [kind.name for kind in KINDS]


@pytest.fixture(autouse=True)
def silence():
    """The log is no part of these tests."""
    with quiet():
        yield


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_file_cut_at_any_byte_gives_its_true_rows_or_an_error(kind, tmp_path):
    home = Home(kind, tmp_path)
    with bounded_memory():
        came = {home.look(data) for data in cuts(home)}
    assert came <= {"same", "others'", "refused"}


def test_files_with_random_damages_give_true_rows_or_an_error():
    """Every format in turn."""
    part = files.work(0, range(500 * len(KINDS)))
    assert [] == part.failures
    # Neither all refused nor all harmless, and hardly one twice.
    assert min(part.sums[came] for came in ("same", "others'", "refused")) > 500
    assert len(part.distinct) > 7_000


def lenient(error):
    """Something that passes over what it should refuse."""
    raise error("planted")


def shouting(self, offset, length):
    """A read of other bytes than there are."""
    return self.path.read_bytes()[offset : offset + length].upper()


WRONG = AssertionError
PLANTED = {
    "other bytes": (WRONG, "text", _files.FileReader, "read", shouting),
    "a bare exception": (KeyError, "csv", _files, "open_regular", lambda path: lenient(KeyError)),
    "no file named": (WRONG, "jsonl", _files, "open_regular", lambda path: lenient(SourceError)),
    "memory": (
        MemoryError,
        "npy",
        _npy_rows,
        "_checked_header",
        lambda *_: np.empty(min(1 << 40, sys.maxsize), np.uint8),
    ),
    "a line less": (WRONG, "jsonl", jsonl.JsonlSource, "__len__", lambda it: it._firsts[-1] // 2),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_reader_with_a_bug_is_seen(bug, tmp_path, monkeypatch):
    seen, name, place, attribute, planted = PLANTED[bug]
    kind = next(kind for kind in KINDS if kind.name == name)
    home = Home(kind, tmp_path)
    monkeypatch.setattr(place, attribute, planted)
    with bounded_memory(), pytest.raises(seen):
        list(map(home.look, cuts(home)))


def test_rows_that_nobody_else_finds_are_seen(tmp_path):
    """Nor may rows change where the format has a checksum."""
    kind = next(kind for kind in KINDS if kind.name == "text")
    longer = [b"x", *cuts(Home(kind, tmp_path))]
    for others in (None, lambda data: 1 / 0, lambda data: []):
        home = Home(kind, tmp_path)
        home.kind = replace(kind, others=others)
        with pytest.raises(AssertionError):
            list(map(home.look, longer))


def test_a_failure_of_the_campaign_is_told_with_its_number(capsys):
    broken = replace(KINDS[6], others=None)
    part = files.work(1, range(40), [broken])
    assert part.failures
    assert part.failures[0].startswith("file ")
    assert part.cases == 40
    assert 0 == files.main(["--seed", "1", "--replay", "3"])
    assert capsys.readouterr().out.strip() in ("same", "others'", "refused")
