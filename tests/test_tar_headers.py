"""Plain files are read in every form that tar programs write; any other header names its byte."""

import tarfile
from contextlib import closing

import pytest
from opened_sources import samples
from tar_files import FORMATS, opened, packed, refused, write


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


def test_a_pax_record_for_all_members_that_names_none_of_them_is_passed_over(tmp_path):
    said = {"comment": "x"}
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=said) as archive:
        archive.addfile(tarfile.TarInfo("1.txt"))
    with closing(opened(tmp_path)) as source:
        assert 1 == len(source)
