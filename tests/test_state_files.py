"""A state in a file is there whole or not at all, and damage is always seen."""

import json

import numpy as np
import pytest

from threadloader import Loader, StateError
from threadloader.state import Cursor, Excluded, dump, load, read, write

RUN = {"source": "x", "samples": 90, "seed": 2**64 - 1, "shuffle": True, "sampler": None}
WORLD = {"batch_size": 4, "shard_count": 2}
PLAIN = dump(Cursor(), RUN, WORLD, 0)
RICH = dump(
    Cursor(3, 16, 2, 47, 180, ((0, 3, 2), (1, 0, 9)), "f0" * 16),
    {**RUN, "source": 'a "täble"\n'},
    WORLD,
    1,
    Excluded.of("4-6 80"),
)
CONFIG = {"batch_size": 2, "num_workers": 0}


@pytest.fixture(scope="module", params=[PLAIN, RICH], ids=["plain", "rich"])
def saved(request, tmp_path_factory):
    """The bytes of a file that `write` made."""
    path = tmp_path_factory.mktemp("saved") / "run.state"
    write(request.param, path)
    return path.read_bytes()


def accepted(texts, path):
    """Lists those of some contents of a file that are not refused as damaged."""
    wrong = []
    with path.open("wb", buffering=0) as file:
        for name, text in texts:
            file.seek(0)
            file.write(text)
            file.truncate()
            try:
                read(path)
            except StateError as error:
                if "the state is damaged" in str(error) and error.fields == ():
                    continue
            wrong.append(name)
    return wrong


def test_a_file_cut_at_any_byte_is_refused_as_damaged(saved, tmp_path):
    cuts = [(length, saved[:length]) for length in range(len(saved))]
    assert [] == accepted(cuts, tmp_path / "cut.state")


def test_a_file_with_any_bit_flipped_is_refused_as_damaged(saved, tmp_path):
    """Whatever it stands in: a value, a name, the form, the version, the checksum."""
    flips = []
    for place in range(len(saved)):
        for bit in range(8):
            flipped = bytearray(saved)
            flipped[place] ^= 1 << bit
            flips.append(((place, bit), bytes(flipped)))
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


def test_a_newer_file_is_refused_as_such(tmp_path, monkeypatch):
    """Its checksum is right, so it is not damaged."""
    monkeypatch.setattr("threadloader.state._state.VERSION", 2)
    write(dump(Cursor(), RUN, WORLD, 0), tmp_path / "run.state")
    monkeypatch.undo()
    with pytest.raises(StateError, match="expected version 1, got 2"):
        load(read(tmp_path / "run.state"), RUN, WORLD, 0)
