"""The tar source: how members become samples, and that a damaged archive is an error."""

import io
import logging
import os
import tarfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from conftest import open_files
from hypothesis import given
from hypothesis import strategies as st
from links import make_link

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _progress, _tar_headers, tar
from threadloader.sources.tar import TarSource, open_tar

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def opened(folder, path="a.tar", root=None, decoders=None, **options):
    return open_tar({"type": "tar", "path": path, **options}, folder, root, decoders)


def packed(members, kind=tarfile.USTAR_FORMAT):
    """Pack (name, data) pairs, or a `TarInfo` with its data, as an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            data = data if isinstance(data, bytes) else data.encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def write(folder, members, kind=tarfile.USTAR_FORMAT, name="a.tar"):
    (folder / name).write_bytes(packed(members, kind))
    return folder


def samples(source):
    with closing(source):
        return [source[i] for i in range(len(source))]


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


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


def test_more_archives_than_may_be_open_are_opened_for_each_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tar, "kept_open", lambda: 2)
    for i in range(3):
        write(tmp_path, {"1.cls": str(i)}, name=f"{i}.tar")
    source = opened(tmp_path, "*.tar")
    assert [0, 1, 2] == [sample["cls"] for sample in samples(source)]
    with pytest.raises(ClosedError):
        source[0]


# Formats


@pytest.mark.parametrize("kind", FORMATS)
def test_folders_are_passed_over_and_long_names_arrive(tmp_path, kind):
    folder = tarfile.TarInfo("data")
    folder.type = tarfile.DIRTYPE
    long = "/".join(["ordner" * 10] * 3) + "/é"
    assert len(long) > 100
    write(tmp_path, [(folder, b""), (f"{long}.txt", "x" * 600), ("b.txt", "y")], FORMATS[kind])
    assert [(long, "x" * 600), ("b", "y")] == [
        (sample["__key__"], sample["txt"]) for sample in samples(opened(tmp_path))
    ]


def test_what_webdataset_reserves_for_metadata_is_passed_over(tmp_path):
    """As its own reader does: it would be a sample among the others, or an error."""
    members = {"__meta__": "x", "__info__/a/1.json": "{}", "1.json": "[1]", "a/__2__.json": "[2]"}
    members |= {"__3.json": "[3]", "__4__.json": "[4]", "__/5.json": "[5]"}
    write(tmp_path, members)
    keys = [one["__key__"] for one in samples(opened(tmp_path))]
    assert ["1", "a/__2__", "__3", "__4__", "__/5"] == keys


def test_what_gnu_tar_adds_with_a_label_or_a_snapshot_is_passed_over(tmp_path):
    """The name of the archive, and folders that list what is in them."""
    label, folder = tarfile.TarInfo("backup"), tarfile.TarInfo("data/")
    label.type, folder.type = b"V", b"D"
    content = "Ya.txt\0\0" + "x" * 600
    folder.size = len(content)
    write(tmp_path, [(label, b""), (folder, content), ("data/a.txt", "y")], tarfile.GNU_FORMAT)
    assert [{"__key__": "data/a", "txt": "y"}] == samples(opened(tmp_path))


def test_pax_records_that_say_nothing_of_path_and_size_are_passed_over(tmp_path):
    info = tarfile.TarInfo("1.txt")
    info.pax_headers = {"comment": "ü\n=1 ", "mtime": "1.5"}
    write(tmp_path, [(info, b"x")], tarfile.PAX_FORMAT)
    assert ["x"] == [sample["txt"] for sample in samples(opened(tmp_path))]


def header(name=b"1.txt", size=b"00000000001\0", kind=b"0", **more):
    """Make a header by hand, with a right checksum."""
    block = bytearray(512)
    block[:100] = name.ljust(100, b"\0")
    block[124:136] = size
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    for at, data in more.items():
        place = int(at.removeprefix("at"))
        block[place : place + len(data)] = data
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)


def raw(folder, *parts):
    """Write an archive of headers and data, each filled up to whole blocks."""
    (folder / "a.tar").write_bytes(b"".join(part + bytes(-len(part) % 512) for part in parts) + b"")
    return folder


@pytest.mark.parametrize(
    "size",
    [b"00000000001\0", b"          1 ", b"1\0\0\0\0\0\0\0\0\0\0\0", b"\x80" + bytes(10) + b"\1"],
)
def test_sizes_are_read_in_every_form(tmp_path, size):
    raw(tmp_path, header(size=size), b"x", END)
    assert ["x"] == [sample["txt"] for sample in samples(opened(tmp_path))]


def test_a_pax_size_takes_the_place_of_the_header_s(tmp_path):
    raw(tmp_path, header(kind=b"x", size=b"00000000012\0"), b"10 size=3\n", header(), b"xyz", END)
    assert ["xyz"] == [sample["txt"] for sample in samples(opened(tmp_path))]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([header(size=b"0000000000x\0")], "byte 0: expected a size, got b'0000000000x"),
        ([header(size=b"\xff" * 12)], "byte 0: expected a size, got"),
        ([header(size=b"00000010000\0")], "byte 512: expected 4096 bytes of '1.txt', got 1024"),
        ([header(size=b"\x80" + b"\xff" * 11)], "byte 512: expected "),
        ([header(name=b"\xff.txt"), b"x"], r"byte 0: expected a name in UTF-8, got '\\xff.txt'"),
        ([header(kind=b"1")], "got a hard link, '1.txt'; pack with --hard-dereference"),
        ([header(kind=b"2")], "got a symbolic link, '1.txt'; pack with --dereference"),
        ([header(kind=b"3")], "got a device"),
        ([header(kind=b"4")], "got a device"),
        ([header(kind=b"6")], "got a pipe"),
        ([header(kind=b"S")], "got a sparse file, '1.txt'; pack without --sparse"),
        ([header(kind=b"M")], "got a part of a file"),
        ([header(kind=b"A")], "got one of type b'A'"),
        ([header(kind=b"x", size=b"00000000001\0"), b"x"], "byte 512: expected a pax record, got"),
        (
            [header(kind=b"x", size=b"00000000012\0"), b"99 size=3\n", header(), b"x"],
            "byte 512: expected a pax record, got b'99 size=3",
        ),
        (
            [header(kind=b"x", size=b"00000000012\0"), b"10 size=x\n", header(), b"x"],
            "expected a size, got b'x'",
        ),
        (
            [header(kind=b"x", size=b"%011o\0" % 22), b"22 GNU.sparse.major=1\n", header(), b"x"],
            "byte 512: expected files, got a sparse file",
        ),
        (
            [header(kind=b"g", size=b"00000000012\0"), b"10 size=3\n", header(), b"x"],
            "byte 512: expected a path and a size for each member, got one for all",
        ),
        ([header(kind=b"x", size=b"77777777777\0")], "byte 512: expected a long name or pax "),
        ([header(kind=b"L", size=b"00000000005\0"), b"1.txt"], "byte 1024: expected a member, got"),
    ],
)
def test_headers_that_are_refused_name_the_byte(tmp_path, parts, said):
    assert said in refused(raw(tmp_path, *parts, END))


def test_an_old_header_without_a_format_and_signed_sums_are_read(tmp_path):
    old = bytearray(header(at257=bytes(8), at0="é.txt".encode()))
    bare = old[:148] + b" " * 8 + old[156:]
    old[148:156] = b"%06o\0 " % (sum(bare) - 256 * sum(byte > 127 for byte in bare))
    raw(tmp_path, bytes(old), b"x", header(name=b"dir/", kind=b"\0", size=b"0".ljust(12)), END)
    assert ["é"] == [sample["__key__"] for sample in samples(opened(tmp_path))]


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
def test_a_compressed_archive_is_refused_with_the_command_that_unpacks_it(tmp_path, mode):
    with tarfile.open(tmp_path / "a.tar", f"w:{mode}") as archive:
        archive.addfile(tarfile.TarInfo("1.txt"))
    command = {"gz": "gunzip", "bz2": "bunzip2", "xz": "unxz"}[mode]
    assert f"no part can be read by itself; unpack it: {command} a.tar" in refused(tmp_path)


def test_a_name_that_looks_like_the_begin_of_a_packed_file_is_a_name(tmp_path):
    write(tmp_path, {"BZh91/0001.txt": "x"})
    assert ["BZh91/0001"] == [sample["__key__"] for sample in samples(opened(tmp_path))]


def test_joined_archives_are_refused(tmp_path):
    one = packed({"1.txt": "x"})
    (tmp_path / "a.tar").write_bytes(one + packed({"2.txt": "y"}))
    assert f"byte {len(one)}: expected nothing after the end of the archive" in refused(tmp_path)


@pytest.mark.parametrize("zeros", [0, 1, 511, 512, 1023])
def test_an_archive_without_its_whole_end_is_refused(tmp_path, zeros):
    (tmp_path / "a.tar").write_bytes(header() + b"x" + bytes(511) + bytes(zeros))
    at = 1024 if zeros < 512 else 1536
    assert f"byte {at}: expected a header or the end of the archive" in refused(tmp_path)


# Damage


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


def test_members_that_cannot_be_decoded_name_archive_member_and_byte(tmp_path):
    write(tmp_path, {"a/1.cls": "x"})
    assert (
        f"{tmp_path / 'a.tar'}: member 'a/1.cls', byte 512: expected an integer that int64 holds, "
        "got 'x'; correct it, or decode it as \"text\""
    ) == refused(tmp_path)


def test_an_archive_that_grows_while_it_is_open_is_an_error(tmp_path):
    source = opened(write(tmp_path, {"1.txt": "x"}))
    with (tmp_path / "a.tar").open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(SourceError, match="that it had when it was opened"):
        source[0]
    source.close()


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
    for index in (-1, 1):
        with pytest.raises(IndexError):
            source[index]
    source.close()
    source.close()
    with pytest.raises(ClosedError):
        source[0]


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


def test_a_pax_record_for_all_members_that_names_none_of_them_is_passed_over(tmp_path):
    said = {"comment": "x"}
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=said) as archive:
        archive.addfile(tarfile.TarInfo("1.txt"))
    with closing(opened(tmp_path)) as source:
        assert 1 == len(source)


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
