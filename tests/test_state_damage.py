"""What stands in a state's file is read as it was written, or refused: damage is always seen."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from campaigns import states as campaign
from damaged_states import accepted, cut, flipped
from two_states import PLAIN, RICH, RUN, WORLD

from threadloader import Loader, StateError
from threadloader.state import Cursor, _file, dump, load, read, write


@pytest.fixture(scope="module", params=[PLAIN, RICH], ids=["plain", "rich"])
def saved(request, tmp_path_factory):
    """The bytes of a file that `write` made."""
    path = tmp_path_factory.mktemp("saved") / "run.state"
    write(request.param, path)
    return path.read_bytes()


def test_a_file_cut_at_any_byte_is_refused_as_damaged(saved, tmp_path):
    assert [] == accepted(cut(saved), tmp_path / "cut.state")


def test_a_file_with_any_bit_flipped_is_refused_as_damaged(saved, tmp_path):
    """Whatever it stands in: a value, a name, the form, the version, the checksum."""
    flips = flipped(saved)
    assert 8 * len(saved) == len(flips)
    assert [] == accepted(flips, tmp_path / "flipped.state")


def test_a_file_with_more_behind_it_is_refused_as_damaged(saved, tmp_path):
    longer = [(byte, saved + bytes([byte])) for byte in range(256)]
    longer += [("twice", saved + saved), ("a hole", saved + bytes(4096))]
    assert [] == accepted(longer, tmp_path / "longer.state")


def test_a_hole_in_a_file_is_refused_as_damaged(saved, tmp_path):
    """As a file system leaves it that lost a block, or swapped two."""
    holes = []
    for size in (1, 16, 64, 512):
        for first in range(0, len(saved), size):
            hole = bytes(len(saved[first : first + size]))
            holes.append(((first, size), saved[:first] + hole + saved[first + size :]))
    half = len(saved) // 2
    holes.append(("swapped", saved[half:] + saved[:half]))
    assert [] == accepted(holes, tmp_path / "hole.state")


def test_the_same_values_in_another_form_are_no_file_of_a_state(tmp_path):
    """Else a flipped blank would not show. The hint says what to do with a file of one's own."""
    path = tmp_path / "own.json"
    path.write_text(json.dumps(PLAIN), encoding="utf-8")
    with pytest.raises(StateError, match=r"damaged.*save\(\) writes"):
        read(path)


def test_a_damaged_file_is_refused_by_the_loader_and_nothing_is_left_open(tmp_path):
    """As `resume`, before any thread starts, and by `load_state_dict`, which changes nothing."""
    source, path = np.arange(9), tmp_path / "run.state"
    with Loader({"batch_size": 2}, source) as batches:
        next(iter(batches))
        batches.save(path)
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 4
    path.write_bytes(text)
    with pytest.raises(StateError, match="damaged"):
        Loader({"batch_size": 2}, source, resume=path).__enter__()
    with Loader({"batch_size": 2}, source) as batches:
        before = batches.state_dict()
        with pytest.raises(StateError, match="damaged"):
            batches.load_state_dict(path)
        assert before == batches.state_dict()


def test_what_is_written_is_read(saved, tmp_path):
    path = tmp_path / "again.state"
    path.write_bytes(saved)
    state = read(path)
    write(state, tmp_path / "copy.state")
    assert saved == (tmp_path / "copy.state").read_bytes()


def test_a_state_is_small(saved):
    """But for the two lists that a person makes, it fits into one block of a disk."""
    assert len(saved) <= 4096


def test_a_system_that_reads_a_few_bytes_at_a_time_makes_no_state_damaged(tmp_path, monkeypatch):
    class Short(io.FileIO):
        def read(self, size=-1):
            return super().read(min(size, 3) if size > 0 else size)

    with Loader({"batch_size": 2}, list(range(9))) as batches:
        next(iter(batches))
        batches.save(tmp_path / "state")
        expected = batches.state_dict()
    monkeypatch.setattr(_file, "FileIO", Short)
    assert expected == _file.read(tmp_path / "state")


def test_a_file_of_version_1_is_read_for_ever():
    """tests/goldens/state-1.state was written by the first version that wrote states."""
    path = Path(__file__).parent / "goldens" / "state-1.state"
    config = {"batch_size": 3, "seed": 11, "num_workers": 0, "num_epochs": 3, "exclude": [2, 3]}
    with Loader(config, list(range(12)), resume=path) as batches:
        now, then = batches.state_dict(), read(path)
        then["shard"]["skipped"] = 0  # not written yet, and 0 by what it means
        del now["checksum"], then["checksum"]
        assert then == now
        got = [[batch.tolist() for batch in epoch] for epoch in batches.epochs()]
    rest = [[[7, 5, 10], [1]], [[11, 4, 6], [10, 1, 0], [7, 5, 9], [8]]]
    assert rest == got


def test_a_newer_file_is_refused_as_such(tmp_path, monkeypatch):
    """Its checksum is right, so it is not damaged."""
    monkeypatch.setattr("threadloader.state._state.VERSION", 2)
    write(dump(Cursor(), RUN, WORLD, 0), tmp_path / "run.state")
    monkeypatch.undo()
    with pytest.raises(StateError, match="expected version 1, got 2"):
        load(read(tmp_path / "run.state"), RUN, WORLD, 0)


class TestTheCampaign:
    def test_it_damages_states_and_changes_runs(self, capsys):
        """Each cut and bit of a state, and some changes of what it is a state of."""
        assert 0 == campaign.main(["--count=2", "--seed=1", "--processes=1"])
        out = capsys.readouterr().out
        assert out.startswith("states: 2 run, 2 distinct, 0 failed, ")
        assert " 0 cut" not in out

    def test_every_field_of_a_run_is_changed(self):
        """By some change, alone."""
        changed = {field for fields in campaign.CHANGES.values() for field in fields}
        assert set(PLAIN["run"]) | {"order"} == changed

    def test_a_damage_that_is_taken_for_a_state_is_seen(self, monkeypatch, capsys):
        monkeypatch.setattr("damaged_states.read", lambda path: {})
        assert 1 == campaign.main(["--count=1", "--processes=1"])
        assert "not refused as damaged" in capsys.readouterr().err

    def test_another_run_that_is_taken_for_the_same_is_seen(self, monkeypatch, capsys):
        refuse = "threadloader.state._state._refuse_another_run"
        monkeypatch.setattr(refuse, lambda saved, run, allowed: None)
        assert 1 == campaign.main(["--count=1", "--processes=1"])
        assert "expected to be refused for" in capsys.readouterr().err
