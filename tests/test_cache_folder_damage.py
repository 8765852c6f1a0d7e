"""Whatever happened to the files of a folder, no sample is wrong: the rest is prepared anew."""

import errno
import os
import random
import shutil
import tracemalloc
from io import FileIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kept_samples import COUNT, files, filled, made, numbers, read
from links import make_link
from samples import same

from threadloader.cache import Folder, _segments
from threadloader.cache._segments import Segment


@pytest.mark.parametrize("damaged", [True, False])
def test_files_that_are_passed_over_can_be_deleted_only_if_they_are_damaged(
    tmp_path, caplog, monkeypatch, damaged
):
    """What cannot be opened here may be good for others; and it is named as it is."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    if damaged:
        index.write_bytes(b"x" * 4096)
    else:
        real = _segments.FileIO

        def refused(path, mode):
            if mode == "rb":
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path, mode)

        monkeypatch.setattr(_segments, "FileIO", refused)
    assert COUNT == read(tmp_path).misses
    (told,) = [text for text in caplog.messages if "is passed over" in text]
    assert damaged == told.endswith("; its files can be deleted")
    assert "PosixPath" not in told


@pytest.mark.parametrize(("suffix", "told"), [(".data", 1), (".index", 0)])
def test_an_index_without_its_records_is_told_and_records_without_an_index_are_not(
    tmp_path, caplog, suffix, told
):
    """Nobody writes the index first: the records are gone since."""
    filled(tmp_path)
    files(tmp_path, suffix)[0].unlink()
    assert (0, COUNT, 0) == numbers(read(tmp_path))
    assert told == caplog.text.count("is passed over")


def test_files_of_another_key_are_passed_over(tmp_path, caplog):
    """As when somebody has copied them."""
    filled(tmp_path, key="another")
    (other,) = tmp_path.iterdir()
    filled(tmp_path, indices=[])
    (mine,) = set(tmp_path.iterdir()) - {other}
    for file in files(other):
        (mine / file.name).write_bytes(file.read_bytes())
    assert (0, COUNT, 0) == numbers(read(tmp_path))
    assert "is passed over: it has no header of this cache" in caplog.text


def test_records_of_another_key_are_damaged(tmp_path):
    """An index beside the records of another source: each is found out."""
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    filled(tmp_path / "other", key="another")
    records.write_bytes(files(tmp_path / "other", ".data")[0].read_bytes())
    assert (0, COUNT, COUNT) == numbers(read(tmp_path))


@pytest.mark.parametrize("suffix", [".data", ".index"])
def test_cut_at_any_byte_it_gives_what_is_whole(tmp_path, suffix):
    """As after a crash or a full disk: the rest is prepared, and kept for the next run."""
    filled(tmp_path / "whole")
    (cut,) = files(tmp_path / "whole", suffix)
    data = cut.read_bytes()
    for length in range(len(data)):
        folder = tmp_path / f"{length}"
        for file in files(tmp_path / "whole"):
            (folder / file.parent.name).mkdir(parents=True, exist_ok=True)
            (folder / file.parent.name / file.name).write_bytes(file.read_bytes())
        (folder / cut.parent.name / cut.name).write_bytes(data[:length])
        stats = read(folder)
        assert COUNT == stats.hits + stats.misses
        assert (COUNT, 0, 0) == numbers(read(folder))


def flipped(data, bits):
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_one_flipped_bit_anywhere_costs_at_most_one_file(tmp_path):
    """For each byte of the folder one of its bits: no sample is wrong, and it is counted."""
    filled(tmp_path)
    rng = random.Random(7)
    sound = files(tmp_path)
    for file in sound:
        data = file.read_bytes()
        for place in range(len(data)):
            file.write_bytes(flipped(data, [8 * place + rng.randrange(8)]))
            stats = read(tmp_path)
            if file.suffix == ".data":
                assert (COUNT - 1, 1, 1) == numbers(stats)
            else:
                assert COUNT == stats.hits + stats.misses
            for more in set(files(tmp_path)) - set(sound):
                more.unlink()
        file.write_bytes(data)


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bits_and_lost_ends_never_give_a_wrong_sample(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cache")
    filled(folder, range(4))
    filled(folder, range(COUNT))
    for file in files(folder):
        old = file.read_bytes()
        bits = data.draw(st.lists(st.integers(0, 8 * len(old) - 1), max_size=6))
        file.write_bytes(flipped(old, bits)[: data.draw(st.integers(len(old) // 2, len(old)))])
    read(folder)
    assert (COUNT, 0) == numbers(read(folder))[:2]


def test_a_damaged_sample_is_prepared_anew_and_found_in_the_next_run(tmp_path, caplog):
    """The one that was written later counts."""
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    records.write_bytes(flipped(records.read_bytes(), [200]))
    assert (COUNT - 1, 1, 1) == numbers(read(tmp_path))
    assert ["is damaged, and prepared anew" in message for message in caplog.messages] == [True]
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


def test_a_damaged_sample_is_counted_once(tmp_path):
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    records.write_bytes(flipped(records.read_bytes(), [200]))
    cache = Folder(tmp_path, "key", COUNT)
    for _ in range(3):
        cache.find(0)
    stats = cache.stats()
    assert (3, 1, COUNT - 1) == (stats.misses, stats.damaged, stats.samples)
    cache.close()


@pytest.mark.parametrize("field", ["index", "offset", "length"])
@pytest.mark.parametrize("value", [-1, 1 << 31, 1 << 40, (1 << 63) - 1])
def test_an_index_that_lies_takes_no_memory(tmp_path, field, value):
    folder, other = tmp_path / "folder", tmp_path / "other"
    filled(folder)
    (index,) = files(folder, ".index")
    data = bytearray(index.read_bytes())
    entries = np.frombuffer(data, _segments._ENTRY, offset=_segments.HEADER_BYTES)
    entries[field] = value
    index.write_bytes(data)
    shutil.copytree(folder, other)
    read(other)  # which imports what is needed for one that lies
    tracemalloc.start()
    assert (0, COUNT, 0) == numbers(read(folder))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_entries_that_overlap_or_repeat_are_found_out(tmp_path):
    """An index made up by someone: every entry names the first record."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    data = bytearray(index.read_bytes())
    entries = np.frombuffer(data, _segments._ENTRY, offset=_segments.HEADER_BYTES)
    entries["offset"], entries["length"] = entries["offset"][0], entries["length"][0]
    index.write_bytes(data)
    assert (1, COUNT - 1, COUNT - 1) == numbers(read(tmp_path))


def test_an_index_that_is_cut_while_it_is_read_ends_there(tmp_path, monkeypatch):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    cache = Folder(tmp_path, "key", COUNT)
    monkeypatch.setattr(_segments, "_CHUNK", 2)
    segment = Segment(index.parent, index.stem)
    entries = segment.new_entries(cache._key, COUNT)
    assert [0, 1] == next(entries)["index"].tolist()
    os.truncate(index, _segments.HEADER_BYTES + _segments.ENTRY_BYTES)
    assert [] == list(entries)
    segment.close()
    cache.close()


@pytest.mark.parametrize("most", [1, 10, 100])
def test_an_index_that_is_read_in_small_pieces_is_read_whole(tmp_path, monkeypatch, most):
    """A file system may give less than it was asked for."""

    class Short(FileIO):
        def read(self, size=-1):
            return super().read(min(size, most))

    filled(tmp_path)
    monkeypatch.setattr(_segments, "FileIO", Short)
    monkeypatch.setattr(_segments, "_CHUNK", 7)
    cache = Folder(tmp_path, "key", COUNT)
    assert all(same(made(index), cache.find(index)) for index in range(COUNT))
    assert (COUNT, 0, 0) == numbers(cache.stats())
    cache.close()


@pytest.mark.parametrize("shared", [False, hasattr(os, "pread")])
def test_a_file_that_ends_before_gives_what_it_has(tmp_path, shared):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    (records,) = files(tmp_path, ".data")
    segment = Segment(index.parent, index.stem, shared=shared)
    whole = records.read_bytes()
    assert whole[5:] == segment.read(5, len(whole))
    segment.close()


def test_a_file_that_cannot_be_read_is_damage(tmp_path, monkeypatch):
    filled(tmp_path)

    def fail(self, offset, length):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Segment, "read", fail)
    assert (0, COUNT, COUNT) == numbers(read(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_links_in_the_folder_are_passed_over(tmp_path, caplog):
    """Nothing waits on a pipe, and what a link leads to is not read."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    (records,) = files(tmp_path, ".data")
    name = "00000002-" + "0" * 16
    os.mkfifo(index.parent / f"{name}.index")
    (index.parent / f"{name}.data").write_bytes(b"")
    away = tmp_path / "away"
    records.rename(away)
    make_link(records, away)
    assert (0, COUNT, 0) == numbers(read(tmp_path))
    assert 2 == caplog.text.count("is passed over")


def test_an_index_with_holes_announces_no_more_entries_than_there_are_records(
    tmp_path, monkeypatch
):
    """A file may have any length, of which the disk has next to nothing."""
    filled(tmp_path, [0])
    (index,) = tmp_path.glob("*/*.index")
    os.truncate(index, 1 << 40)
    read, lengths = _segments._read_all, []

    def reading(file, length):
        lengths.append(length)
        return read(file, length)

    monkeypatch.setattr(_segments, "_read_all", reading)
    cache = Folder(tmp_path, "key", COUNT)
    assert 1 == cache.stats().samples
    cache.close()
    assert sum(lengths) < 1 << 20
