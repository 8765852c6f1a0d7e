"""A cut or damaged archive is an error, but for contents, and so is one that changes while open."""

import io
import os
import tarfile
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from opened_sources import npy, samples
from tar_files import opened, packed, refused, write

from threadloader.errors import SourceError


def spans(data):
    """The bytes of the archive that are contents of members."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {
            at
            for member in archive
            for at in range(member.offset_data, member.offset_data + member.size)
        }


def small():
    """An archive of three members in one sample, without the padding of its end."""
    data = packed({"1.txt": "one", "1.npy": npy(np.arange(3)), "1.cls": "7"})
    return data[: 512 * (2 + 2 + 2) + 1024]


def plain(folder):
    (sample,) = samples(opened(folder))
    return {**sample, "npy": sample["npy"].tolist()}


def test_an_archive_cut_anywhere_is_an_error(tmp_path):
    data = small()
    (tmp_path / "a.tar").write_bytes(data)
    assert {"__key__": "1", "cls": 7, "npy": [0, 1, 2], "txt": "one"} == plain(tmp_path)
    for length in range(len(data)):
        (tmp_path / "a.tar").write_bytes(data[:length])
        assert f"{tmp_path / 'a.tar'}: byte " in refused(tmp_path)


def test_a_changed_byte_outside_of_the_contents_is_an_error_or_changes_nothing(tmp_path):
    """The contents have no checksum in a tar archive; all else is checked."""
    data = small()
    contents = spans(data)
    (tmp_path / "a.tar").write_bytes(data)
    expected = plain(tmp_path)
    outcomes = Counter()
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF)[: 1 if data[at] == 0 else 3]:
            changed = bytearray(data)
            changed[at] ^= flip
            (tmp_path / "a.tar").write_bytes(changed)
            try:
                found = plain(tmp_path)
            except SourceError:
                outcomes["refused"] += 1
                continue
            # In the contents of a member, only this member may differ.
            differ = {name for name in expected if found.get(name) != expected[name]}
            assert expected.keys() == found.keys()
            assert len(differ) <= (at in contents)
            outcomes["same" if not differ else "other contents"] += 1
    assert outcomes["refused"] > 1000


def test_an_archive_that_grows_while_it_is_open_is_an_error(tmp_path):
    source = opened(write(tmp_path, {"1.txt": "x"}))
    with (tmp_path / "a.tar").open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(SourceError, match="that it had when it was opened"):
        source[0]
    source.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows lets the times of a file be set")
def test_an_archive_is_let_go_where_the_system_numbers_its_file_anew(tmp_path, monkeypatch):
    with closing(opened(write(tmp_path, {"1.txt": "one"}))) as source:
        known = source._archives[0].reader._known
        monkeypatch.setattr(source._archives[0].reader, "_known", (known[0], -1, *known[2:]))
        source._archives[0].let_go()
        assert {"txt": "one"}.items() <= source[0].items()


def test_an_archive_that_grows_before_it_is_let_go_is_an_error(tmp_path):
    with closing(opened(write(tmp_path, {"1.txt": "one"}))) as source:
        with (tmp_path / "a.tar").open("ab") as file:
            file.write(bytes(512))
        with pytest.raises(SourceError, match="expected a file at rest"):
            source._archives[0].let_go()


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced")
def test_an_archive_replaced_before_it_is_let_go_is_an_error(tmp_path):
    """Though it has the same size, its members stand elsewhere."""
    with closing(opened(write(tmp_path, {"1.txt": "one", "2.txt": ""}))) as source:
        write(tmp_path, {"1.txt": "", "2.txt": "two"}, name="b.tar")
        assert (tmp_path / "a.tar").stat().st_size == (tmp_path / "b.tar").stat().st_size
        os.utime(tmp_path / "b.tar", ns=(1, 1))  # it may be written in the same tick of a clock
        os.replace(tmp_path / "b.tar", tmp_path / "a.tar")
        with pytest.raises(SourceError, match="expected a file at rest"):
            source._archives[0].let_go()
