"""Members of archives become samples by their names, and any thread reads any of them."""

import logging
import tarfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import open_files
from hypothesis import given
from hypothesis import strategies as st
from links import make_link
from opened_sources import close_at, npy, samples
from tar_files import FORMATS, opened, refused, write

from threadloader.errors import ClosedError, ConfigError
from threadloader.sources import _progress, _tar_headers, tar
from threadloader.sources.tar import TarSource


def test_an_interrupt_at_the_end_of_the_opening_leaves_no_archive_open(tmp_path, monkeypatch):
    """While the checksum over all keys is made, which may take long."""

    def interrupted(*given):
        raise KeyboardInterrupt

    write(tmp_path, {"1.txt": "one"})
    monkeypatch.setattr(TarSource, "_summed", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        opened(tmp_path)
    # What was raised still holds the frames: nothing has been closed by their end.
    assert caught.value.__traceback__ is not None
    assert str(tmp_path / "a.tar") not in open_files()


# Grouping


def test_members_are_grouped_by_the_name_up_to_the_first_dot(tmp_path):
    members = {"a/1.cls": "3", "a/1.txt": "one", "a.b/1.txt": "two", "a.b/1.cls": "-4\n"}
    assert [
        {"__key__": "a/1", "cls": 3, "txt": "one"},
        {"__key__": "a.b/1", "cls": -4, "txt": "two"},
    ] == samples(opened(write(tmp_path, members)))


def test_members_are_decoded_by_what_is_behind_the_last_dot(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    members = {
        "1.npy": npy(array),
        "1.left.npy": npy(array + 1),
        "1.json": '{"x": [1]}',
        "1.text": "é",
        "1.PNG": b"\x89PNG",
        "1.0": b"0",
    }
    (sample,) = samples(opened(write(tmp_path, members)))
    assert ["__key__", "0", "json", "left.npy", "npy", "png", "text"] == list(sample)
    assert (array + 1).tolist() == sample["left.npy"].tolist()
    assert ({"x": [1]}, "é", b"\x89PNG", b"0") == (
        sample["json"],
        sample["text"],
        sample["png"],
        sample["0"],
    )


def test_decode_chooses_by_field_or_by_its_last_part(tmp_path):
    write(tmp_path, {"1.seg.png": b"12", "1.png": b"123", "1.txt": b"7"})
    make = {"image": lambda **options: len}
    (sample,) = samples(
        opened(
            tmp_path,
            decoders=make,
            decode={"png": "image", "seg.png": "bytes", "txt": "int"},
        )
    )
    assert {"__key__": "1", "png": 3, "seg.png": b"12", "txt": 7} == sample


def test_a_rule_that_another_one_overrides_is_no_error(tmp_path):
    write(tmp_path, {"1.seg.txt": b"12"})
    rules = {"txt": "int", "seg.txt": "bytes"}
    assert [{"__key__": "1", "seg.txt": b"12"}] == samples(opened(tmp_path, decode=rules))


@pytest.mark.parametrize("name", ["jpg", ".png", "PNG", "seg"])
def test_to_decode_what_is_not_there_is_a_config_error(tmp_path, name):
    write(tmp_path, {"1.seg.png": b"12"})
    assert f"/source/decode/{name}: expected a field, or what follows the last dot" in refused(
        tmp_path, ConfigError, decode={name: "bytes"}
    )


def test_an_unknown_decoder_is_a_config_error(tmp_path):
    write(tmp_path, {"1.png": b"12"})
    assert '/source/decode: expected one of "bytes"' in refused(
        tmp_path, ConfigError, decode={"png": "image"}
    )


def test_fields_are_chosen_in_the_order_given(tmp_path):
    write(tmp_path, {"1.b": "b", "1.a": "a", "2.c": "c", "2.a": "a", "2.b": "b"})
    source = opened(tmp_path, fields=["b", "a"])
    assert ("b", "a") == source.fields
    assert [["__key__", "b", "a"]] * 2 == [list(sample) for sample in samples(source)]


@pytest.mark.parametrize("fields", [[], ["a", "a"]])
def test_an_empty_or_doubled_choice_is_a_config_error(tmp_path, fields):
    write(tmp_path, {"1.a": "a"})
    assert "/source/fields: expected " in refused(tmp_path, ConfigError, fields=fields)


@pytest.mark.parametrize(
    ("members", "fields", "said"),
    [
        (
            {"1.a": "", "1.b": "", "k/2.b": ""},
            None,
            "'k/2', byte 1536: expected the fields 'a', 'b', got 'b'; choose fields",
        ),
        ({"1.a": "", "2.a": "", "2.b": ""}, None, "'2', byte 1024: expected the fields 'a', got"),
        ({"1.a": "", "2.b": ""}, ["a"], "'2', byte 1024: expected the fields 'a', got 'b'"),
        ({"1.a": "", "1.b": "", "1.A": ""}, None, "'1', byte 1536: expected each field once, got"),
        ({"1.a": "", "./1.a": ""}, None, "'1', byte 1024: expected each field once, got 'a' again"),
        ({"README": ""}, None, "'README', byte 512: expected a name with a field after its first"),
        ({"1.": ""}, None, "'1.', byte 512: expected a name with a field after its first dot"),
        ({"1.__key__": ""}, None, "expected another field than '__key__', which is the sample's"),
        ({"a/../1.a": ""}, None, "expected a name inside the archive"),
        ({"..": ""}, None, 'the archive, without ".."; pack it from its folder'),
        ({}, None, "a.tar: expected at least one sample, got none; pack it again"),
        ({".hidden.a": "", "a/._1.a": ""}, None, "expected at least one sample, got none"),
    ],
)
def test_members_that_make_no_samples_name_key_and_byte(tmp_path, members, fields, said):
    assert said in refused(write(tmp_path, members), fields=fields)


def test_a_folder_as_the_oldest_archives_have_it_is_passed_over(tmp_path):
    """There it is a file whose name ends in a slash."""
    folder = tarfile.TarInfo("k/")
    folder.type = tarfile.AREGTYPE
    write(tmp_path, [(folder, b""), ("k/1.txt", "a")])
    assert [{"__key__": "k/1", "txt": "a"}] == samples(opened(tmp_path))


def test_an_absolute_name_is_refused(tmp_path):
    info = tarfile.TarInfo("/etc/1.a")
    assert "'/etc/1.a', byte 512: expected a name inside the archive" in refused(
        write(tmp_path, [(info, b"")])
    )


names = st.lists(
    st.tuples(st.sampled_from(["1", "2", "d/1", "é"]), st.sampled_from(["a", "b.c", "b", "C"])),
    unique=True,
    min_size=1,
    max_size=12,
)


@given(names, st.sampled_from(sorted(FORMATS)), st.booleans())
def test_any_members_are_the_samples_of_a_plain_reference(tmp_path_factory, names, kind, dot):
    """Grouped over the whole archive, in the order of first members; or refused if they differ."""
    folder = tmp_path_factory.getbasetemp()
    members = {f"{'./' * dot}{key}.{field}": f"{key} {field}" for key, field in names}
    write(folder, members, FORMATS[kind])
    expected = {}
    for key, field in names:
        expected.setdefault(key, {})[field.lower()] = f"{key} {field}".encode()
    if len({frozenset(fields) for fields in expected.values()}) > 1:
        assert "expected the fields" in refused(folder)
        return
    assert [{"__key__": key, **fields} for key, fields in expected.items()] == samples(
        opened(folder)
    )


def test_several_archives_follow_each_other_in_their_sorted_order(tmp_path):
    for name in ("s-10", "s-9", "s-1"):
        write(tmp_path, {"1.txt": name, "2.txt": name}, name=f"{name}.tar")
    source = opened(tmp_path, "s-*.tar")
    assert 6 == len(source)
    assert f"{tmp_path / 's-10.tar'}: '2', byte 1536" == source.locate(3)
    assert ["s-1", "s-1", "s-10", "s-10", "s-9", "s-9"] == [s["txt"] for s in samples(source)]
    write(tmp_path, {"1.txt": "", "1.cls": "1"}, name="s-2.tar")
    assert "s-2.tar: '1', byte 512: expected the fields 'txt', got 'cls', 'txt'" in refused(
        tmp_path, path="s-*.tar"
    )


def test_an_archive_and_a_link_to_it_are_one_archive_twice(tmp_path):
    write(tmp_path, {"1.txt": "x"})
    make_link(tmp_path / "b.tar", "a.tar")
    assert "expected each file once" in refused(tmp_path, path="*.tar")
    assert 1 == len(samples(opened(tmp_path, "b.tar")))


def test_an_archive_may_be_empty_beside_another(tmp_path):
    write(tmp_path, {}, name="1.tar")
    write(tmp_path, {"1.txt": "x"}, name="2.tar")
    assert 1 == len(samples(opened(tmp_path, ["1.tar", "2.tar"])))


def test_of_more_archives_than_may_be_open_the_others_are_opened_for_each_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tar, "kept_open", lambda: 2)
    for i in range(3):
        write(tmp_path, {"1.cls": str(i)}, name=f"{i}.tar")
    let_go, plain = [], tar._Archive.let_go
    monkeypatch.setattr(
        tar._Archive, "let_go", lambda it: (let_go.append(it.reader.path.name), plain(it))
    )
    source = opened(tmp_path, "*.tar")
    assert ["2.tar"] == let_go
    assert [0, 1, 2] == [sample["cls"] for sample in samples(source)]
    with pytest.raises(ClosedError):
        source[0]


def test_members_that_cannot_be_decoded_name_archive_member_and_byte(tmp_path):
    write(tmp_path, {"a/1.cls": "x"})
    assert (
        f"{tmp_path / 'a.tar'}: member 'a/1.cls', byte 512: expected an integer that int64 holds, "
        "got 'x'; correct it, or decode it as \"text\""
    ) == refused(tmp_path)


# Threads, root, and the rest


def test_many_threads_read_at_once_what_one_reads(tmp_path):
    for shard in range(3):
        members = {f"{i}.npy": npy(np.full(200, 10 * shard + i)) for i in range(10)}
        write(tmp_path, members, name=f"{shard}.tar")
    source = opened(tmp_path, "*.tar")
    together = threading.Barrier(16)

    def read(start):
        together.wait(10)
        return [set(source[(start + i) % 30]["npy"].tolist()) for i in range(60)]

    with ThreadPoolExecutor(16) as pool:
        for start, found in enumerate(pool.map(read, range(16))):
            assert [{(start + i) % 30} for i in range(60)] == found
    source.close()


def test_no_archive_may_lie_outside_of_root(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path, {"1.txt": "x"}, name="b.tar")
    make_link(tmp_path / "in" / "link.tar", "../b.tar")
    for path in ("b.tar", "in/../b.tar", "in/link.tar", "in/*.tar"):
        assert "expected a path inside the folder" in refused(
            tmp_path, path=path, root=tmp_path / "in"
        )


def test_indices_end_at_the_length_and_a_closed_source_reads_no_more(tmp_path):
    source = opened(write(tmp_path, {"1.txt": "x"}))
    close_at(source, 1)


def test_the_fingerprint_tells_keys_sizes_and_options(tmp_path):
    def said(members, **options):
        source = opened(write(tmp_path, members), **options)
        source.close()
        return source.fingerprint()

    first = said({"1.txt": "x", "1.a": "1"})
    assert first.startswith("tar, 1 samples, a bytes, txt text, 10240 bytes, sha256 ")
    others = [
        said({"1.txt": "x", "1.a": "1"}, fields=["txt"]),
        said({"1.txt": "x", "1.a": "1"}, decode={"a": "int"}),
        said({"2.txt": "x", "2.a": "1"}),
        said({"1.txt": "xx", "1.a": "1"}),
    ]
    assert 5 == len({first, *others})


def test_an_index_that_takes_long_says_how_far_it_is(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(write(tmp_path, {"1.txt": "x"})).close()
    assert "a.tar: 1 samples found, 5%" in caplog.text


def test_the_index_reads_headers_alone(tmp_path, monkeypatch):
    write(tmp_path, {"1.a": bytes(10_000_000), "2.a": bytes(10_000_000)})
    read = Counter()
    real = tar.FileReader.read
    monkeypatch.setattr(
        tar.FileReader,
        "read",
        lambda self, offset, length: read.update(bytes=length) or real(self, offset, length),
    )
    opened(tmp_path).close()
    assert read["bytes"] < 5 * _tar_headers._WINDOW
