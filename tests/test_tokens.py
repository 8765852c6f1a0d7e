"""The tokens source: which windows it gives, in any thread, and which files it refuses."""

import logging
import random
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered_files import write

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _files, _progress, tokens
from threadloader.sources._files import FileReader
from threadloader.sources.tokens import TokensSource, open_tokens


@pytest.fixture
def open_(tmp_path):
    """Opens sources in the test's folder and closes them at its end."""
    opened = []

    def open_(path="*.bin", root=None, **spec):
        opened.append(open_tokens({"type": "tokens", "path": path, **spec}, tmp_path, root))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


def shard(values, magic=20240520, version=1, count=None):
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(values) if count is None else count
    return header.tobytes() + np.asarray(values, "<u2").tobytes()


def raw(values, dtype="uint16"):
    return np.asarray(values).astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def windows(files, window, stride, targets):
    """Give (file, first token, window) of every sample by the rules, the plain way."""
    for file, values in enumerate(files):
        for start in range(0, len(values), stride):
            tokens = list(values[start : start + window + targets])
            if len(tokens) == window + targets:
                yield file, start, {"x": tokens[:-1], "y": tokens[1:]} if targets else tokens


def plain(value):
    """Give a sample or a batch as lists."""
    return {k: v.tolist() for k, v in value.items()} if isinstance(value, dict) else value.tolist()


@given(
    st.lists(st.lists(st.integers(0, 255), max_size=30), min_size=1, max_size=3),
    st.sampled_from(["uint8", "uint16", "uint32", "shard"]),
    st.integers(1, 7),
    st.none() | st.integers(1, 9),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_windows_are_those_of_a_plain_reference(
    tmp_path_factory, files, kind, window, stride, targets, dice
):
    datas = [shard(each) if kind == "shard" else raw(each, kind) for each in files]
    paths = write(tmp_path_factory.getbasetemp(), *datas)
    options = {"format": "shard"} if kind == "shard" else {"dtype": kind}
    expected = list(windows(files, window, stride or window, targets))
    chosen = dice.choices(range(len(expected)), k=5) if expected else []
    batch = [expected[i][2] for i in chosen]
    if targets:
        batch = {name: [sample[name] for sample in batch] for name in "xy"}
    read = [0] * len(files)
    for file, start, _ in expected:
        read[file] = start + window + targets
    source = TokensSource(paths, window=window, stride=stride, targets=targets, **options)
    with closing(source):
        assert len(expected) == len(source)
        for index, (file, start, sample) in enumerate(expected):
            assert sample == plain(source[index])
            assert f"{paths[file]}[{start}:{start + window + targets}]" == source.locate(index)
        assert not chosen or batch == plain(source.take(chosen))
        assert sum(map(len, files)) - sum(read) == source.left_out


@pytest.mark.parametrize(
    ("count", "window", "stride", "targets", "number", "left_out"),
    [
        (10, 5, None, False, 2, 0),
        (10, 5, None, True, 1, 4),
        (11, 5, None, True, 2, 0),
        (12, 5, 1, False, 8, 0),
        (12, 5, 3, True, 3, 0),
        (12, 3, 4, False, 3, 1),
        (4, 5, None, False, 0, 4),
        (5, 5, None, True, 0, 5),
        (0, 1, None, False, 0, 0),
    ],
)
def test_the_number_of_windows_is_that_of_the_formula(
    tmp_path, open_, count, window, stride, targets, number, left_out
):
    write(tmp_path, raw(range(count)))
    source = open_(dtype="uint16", window=window, stride=stride, targets=targets)
    span = window + targets
    assert max((count - span) // (stride or window) + 1, 0) == number
    assert (number, left_out) == (len(source), source.left_out)


@pytest.mark.parametrize(("counts", "told"), [((4, 3), True), ((4, 5), False), ((0,), False)])
def test_files_that_are_all_shorter_than_a_window_are_told(tmp_path, open_, caplog, counts, told):
    """Epochs without a batch end at once, and so would a training over them, in silence."""
    longest, *_ = write(tmp_path, *(raw(range(count)) for count in counts))
    open_(dtype="uint16", window=4, targets=True)
    expected = f"{longest}: expected 5 tokens or more, got 4, and no file has more: no sample; give"
    assert [expected] * told == [message[: len(expected)] for message in caplog.messages]


def test_targets_are_the_tokens_that_follow(tmp_path, open_):
    write(tmp_path, raw(range(9)))
    source = open_(dtype="uint16", window=4, targets=True)
    assert {"x": [4, 5, 6, 7], "y": [5, 6, 7, 8]} == plain(source[1])
    batch = source.take([1, 0])
    assert {"x": [[4, 5, 6, 7], [0, 1, 2, 3]], "y": [[5, 6, 7, 8], [1, 2, 3, 4]]} == plain(batch)
    assert [True, True] == [batch[name].flags.c_contiguous for name in "xy"]


def test_files_follow_in_the_order_given_and_windows_never_cross_them(tmp_path, open_):
    write(tmp_path, raw([0, 1, 2]), raw([10, 11, 12, 13]), raw([20]))
    source = open_(["001.bin", "00[02].bin"], dtype="uint16", window=2)
    assert [[10, 11], [12, 13], [0, 1]] == source.take(np.arange(3)).tolist()
    assert 2 == source.left_out


@pytest.mark.parametrize(
    ("stored", "output", "expected"),
    [
        ("uint8", None, "int64"),
        ("uint32", None, "int64"),
        ("uint16", "int32", "int32"),
        ("uint8", "stored", "uint8"),
        ("uint32", "stored", "uint32"),
    ],
)
def test_tokens_are_int64_unless_asked_otherwise(tmp_path, open_, stored, output, expected):
    most = np.iinfo(stored).max
    write(tmp_path, raw([1, most, 2], stored))
    options = {} if output is None else {"output": output}
    source = open_(dtype=stored, window=2, targets=True, **options)
    for gave in (source[0], source.take([0])):
        assert {(np.dtype(expected), True)} == {(v.dtype, v.dtype.isnative) for v in gave.values()}
        assert [1, most] == gave["x"].reshape(-1).tolist()
        assert gave["x"].flags.writeable


def test_a_token_that_does_not_fit_into_int32_names_its_byte(tmp_path, open_):
    (path,) = write(tmp_path, raw([1, 2, 3, 2**31, 2**32 - 1, 5], "uint32"))
    source = open_(dtype="uint32", window=2, output="int32")
    assert [1, 2] == source.take([0])[0].tolist()
    for read in (lambda: source[1], lambda: source.take([0, 1])):
        with pytest.raises(SourceError) as caught:
            read()
        assert (str(path), "byte 12") == (caught.value.path, caught.value.place)
        assert (
            'expected tokens that fit into int32, got 2147483648; if it is right, set "output" '
            'to "int64"'
        ) == caught.value.message


@pytest.mark.parametrize("index", [-1, 3, 2**70, np.int64(3)])
def test_an_index_out_of_range_never_wraps(tmp_path, open_, index):
    write(tmp_path, raw(range(6)))
    source = open_(dtype="uint16", window=2)
    for call in (source.__getitem__, source.locate):
        with pytest.raises(IndexError, match=rf"expected an index of 0 .. 2, got {index}"):
            call(index)
    with pytest.raises((IndexError, TypeError)):
        source.take([0, index])


def test_sixteen_threads_at_once_read_what_one_reads(tmp_path, open_, monkeypatch):
    """Some files are kept open, some are opened for each read, some have no pread."""
    values = np.random.default_rng(0).integers(0, 2**16, (6, 900))
    write(tmp_path, *map(raw, values))
    monkeypatch.setattr(tokens, "kept_open", lambda: 3)
    made = []

    def reader(path, keep):
        made.append(keep)
        return FileReader(path, keep=keep, **({} if len(made) % 2 else {"shared": False}))

    monkeypatch.setattr(tokens, "FileReader", reader)
    source = open_(dtype="uint16", window=32, stride=9)
    assert [True] * 3 + [False] * 3 == made
    expected = np.array([w for _, _, w in windows(values.tolist(), 32, 9, 0)])
    barrier = threading.Barrier(16)

    def read(seed):
        barrier.wait()
        order = np.random.default_rng(seed).permutation(len(expected))
        singly = all((expected[i] == source[i]).all() for i in order[:40])
        return singly and (expected[order] == source.take(order)).all()

    with ThreadPoolExecutor(16) as pool:
        assert [True] * 16 == list(pool.map(read, range(16)))


def test_windows_that_overlap_are_one_read(tmp_path, open_, monkeypatch, ranges):
    write(tmp_path, raw(range(100)))
    source = open_(dtype="uint16", window=10, stride=3)
    ranges.clear()  # of what it has looked at
    source.take([3, 2, 4])
    assert [(12, 32)] == ranges
    monkeypatch.setattr(_files, "_GAP", 0)
    ranges.clear()
    source.take([20, 3])
    assert [(18, 20), (120, 20)] == ranges


# Fingerprint


def test_the_fingerprint_tells_data_and_options_apart(tmp_path, open_):
    def said(**options):
        return open_(**{"dtype": "uint16", "window": 2, **options}).fingerprint()

    write(tmp_path, raw(range(7)), raw(range(4)))
    first = said()
    assert first.startswith(
        "tokens, 5 windows of 2 every 2, raw uint16 as int64, 2 files of 22 bytes, "
        "1 tokens left out, sha256 "
    )
    assert first == said()
    others = [said(targets=True), said(stride=3), said(output="int32"), said(dtype="uint8")]
    write(tmp_path, raw(range(4)), raw(range(7)))
    others.append(said())
    write(tmp_path, raw(range(1, 8)), raw(range(4)))
    others.append(said())
    assert 7 == len({first, *others})


# What is refused


def refused(open_, **options):
    with pytest.raises(SourceError) as caught:
        open_(**{"window": 2, **options})
    return caught.value


@pytest.mark.parametrize(
    ("options", "expected", "got"),
    [
        ({}, '"uint8", "uint16" or "uint32" for "format": "raw"', "null"),
        (
            {"format": "shard", "dtype": "uint32"},
            'null or "uint16" for "format": "shard"',
            "'uint32'",
        ),
    ],
)
def test_a_contradiction_is_a_config_error(tmp_path, open_, options, expected, got):
    write(tmp_path, shard(range(4)))
    with pytest.raises(ConfigError) as caught:
        open_(window=2, **options)
    (problem,) = caught.value.problems
    assert ("/source/dtype", expected, got) == (problem.pointer, problem.expected, problem.got)


def test_no_file_is_an_error(open_):
    assert "matches this pattern, found none" in refused(open_, dtype="uint16").message


def test_no_file_may_lie_outside_of_the_root(tmp_path, open_):
    write(tmp_path, raw(range(4)))
    (tmp_path / "in").mkdir()
    error = refused(open_, root=tmp_path / "in", dtype="uint16")
    assert 'inside the folder "root"' in error.message
    assert 2 == len(open_(root=tmp_path, dtype="uint16", window=2))


@pytest.mark.parametrize(("dtype", "width"), [("uint16", 2), ("uint32", 4)])
def test_a_size_that_is_no_multiple_is_refused(tmp_path, open_, dtype, width):
    (path,) = write(tmp_path, bytes(9))
    assert (
        f"{path}: expected a multiple of {width} bytes, as {dtype} has, got 9; "
        'check "dtype", or copy the file again'
    ) == str(refused(open_, dtype=dtype))


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"", "", "expected a header of 1024 bytes, got a file of 0"),
        (shard([])[:1000], "", "expected a header of 1024 bytes, got a file of 1000"),
        (shard(range(4), magic=20240801), "byte 0", "expected the magic 20240520, got 20240801"),
        (raw(range(600)), "byte 0", "expected the magic 20240520, got 65536"),
        (shard(range(4), version=2), "byte 4", "expected the version 1, got 2"),
        (
            shard(range(4), count=5),
            "byte 8",
            "expected 10 bytes after the header, for the 5 tokens that it announces, got 8; copy",
        ),
        (shard([], count=-1), "byte 8", "expected a number of tokens >= 0, got -1; copy"),
    ],
)
def test_what_is_no_whole_shard_is_refused(tmp_path, open_, data, place, message):
    (path,) = write(tmp_path, data)
    error = refused(open_, format="shard")
    assert (str(path), place) == (error.path, error.place)
    assert error.message.startswith(message)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize(
    ("save", "got"),
    [(np.save, "a .npy"), (np.savez, "an .npz"), (np.savez_compressed, "an .npz")],
)
def test_a_file_of_numpy_is_never_read_as_a_raw_file(tmp_path, open_, dtype, save, got):
    with (tmp_path / "000.bin").open("wb") as file:
        save(file, np.arange(1000, dtype=dtype))
    error = refused(open_, dtype=dtype)
    said = f"expected nothing but tokens, got the header of {got} file; write the array with tofile"
    assert (said, "byte 0") == (error.message, error.place)


@pytest.mark.parametrize("start", [b"PK\3\4", b"PK\3\4\x14\0\0\0\1\0", b"\x93NUMPY\4\0"])
def test_tokens_that_only_begin_as_a_file_of_numpy_are_tokens(tmp_path, open_, start):
    write(tmp_path, start + bytes(10))
    assert list(start[:2]) == open_(dtype="uint8", window=2)[0].tolist()


def test_a_shard_is_never_read_as_a_raw_file(tmp_path, open_):
    write(tmp_path, raw(range(4)), shard(range(4)))
    error = refused(open_, dtype="uint16")
    assert (str(tmp_path / "001.bin"), "byte 0") == (error.path, error.place)
    assert 'got the header of a shard; set "format" to "shard"' in error.message


@pytest.mark.parametrize("change", [lambda data: data[:-2], lambda data: data + b"\0\0"])
def test_a_shard_that_was_cut_is_no_raw_file_either(tmp_path, open_, change):
    write(tmp_path, change(shard(range(4))))
    assert 'got the header of a shard; set "format"' in refused(open_, dtype="uint16").message


@pytest.mark.parametrize(("magic", "version"), [(20240801, 7), (20240520, 2), (20240520, 7)])
def test_a_shard_of_another_kind_is_told_what_to_do_in_either_format(
    tmp_path, open_, magic, version
):
    write(tmp_path, shard(range(4), magic=magic, version=version))
    advice = f"shards of this kind ({magic}, version {version}) are not read: write what follows"
    for options in ({"format": "shard"}, {"dtype": "uint16"}, {"dtype": "uint32"}):
        assert advice in refused(open_, **options).message


@pytest.mark.parametrize("second", [0, 100, -1, 2**31 - 1])
def test_tokens_that_only_begin_as_a_shard_are_tokens(tmp_path, open_, second):
    data = np.array([20240520, second, 4, 0], "<i4").tobytes()
    write(tmp_path, data)
    assert np.frombuffer(data, "<u2").tolist() == open_(dtype="uint16", window=8)[0].tolist()


def test_a_shard_cut_anywhere_or_longer_is_refused(tmp_path, open_):
    whole = shard(range(20))
    path = tmp_path / "000.bin"
    for data in [*(whole[:n] for n in range(len(whole))), whole + b"\0", whole * 2]:
        path.write_bytes(data)
        assert str(path) == refused(open_, format="shard").path


def test_a_changed_header_is_an_error_or_changes_nothing(tmp_path, open_):
    whole = shard(range(20))
    dice = random.Random(0)
    path = tmp_path / "000.bin"
    refusals = 0
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(dice.choice((1, 2))):
            changed[dice.randrange(dice.choice((16, 1024)))] = dice.randrange(256)
        path.write_bytes(changed)
        try:
            source = open_(format="shard", window=20)
        except SourceError:
            refusals += 1
        else:
            assert [list(range(20))] == source.take([0]).tolist()
    assert 100 < refusals < 400


@given(st.binary(max_size=40), st.binary(min_size=12, max_size=12))
def test_any_bytes_as_a_shard_are_a_refusal(tmp_path_factory, data, start):
    path = tmp_path_factory.getbasetemp() / "any.bin"
    for content in (data, start + bytes(1012) + data, struct.pack("<2i", 20240520, 1) + data):
        path.write_bytes(content)
        with pytest.raises(SourceError):
            TokensSource([path], window=1, format="shard")


# Files that change, and the end


@pytest.mark.parametrize("keep", [128, 0], ids=["kept open", "opened for each read"])
@pytest.mark.parametrize("after", [b"", bytes(20)], ids=["empty", "grown"])
def test_a_file_of_another_size_than_at_opening_is_refused(
    tmp_path, open_, monkeypatch, keep, after
):
    monkeypatch.setattr(tokens, "kept_open", lambda: keep)
    (path,) = write(tmp_path, raw(range(6)))
    source = open_(dtype="uint16", window=2)
    path.write_bytes(after)
    for read in (lambda: source[0], lambda: source.take([2, 1])):
        with pytest.raises(SourceError, match=f"expected the 12 bytes .* got {len(after)}; open"):
            read()


@pytest.mark.parametrize("keep", [128, 0], ids=["kept open", "opened for each read"])
def test_reading_after_close_is_an_error_and_closing_twice_is_none(
    tmp_path, open_, monkeypatch, keep
):
    monkeypatch.setattr(tokens, "kept_open", lambda: keep)
    write(tmp_path, raw(range(6)))
    source = open_(dtype="uint16", window=2)
    source.close()
    source.close()
    for read in (lambda: source[0], lambda: source.take([0])):
        with pytest.raises(ClosedError, match="expected an open source, got one that has been"):
            read()


def test_more_files_are_read_than_a_process_may_have_open(tmp_path, open_):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    write(tmp_path, *(raw([i, i]) for i in range(400)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(300, soft), hard))
    try:
        source = open_(dtype="uint16", window=2)
        assert [[i, i] for i in range(400)] == source.take(np.arange(400)).tolist()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_if_one_file_is_damaged_the_others_are_closed(tmp_path, open_, monkeypatch):
    write(tmp_path, raw(range(6)), b"x")
    made = []
    monkeypatch.setattr(
        tokens, "FileReader", lambda *a, **k: made.append(FileReader(*a, **k)) or made[-1]
    )
    refused(open_, dtype="uint16")
    assert 2 == len(made)
    for reader in made:
        with pytest.raises(ClosedError):
            reader.read(0, 1)


def test_a_long_opening_says_how_far_it_is(tmp_path, open_, monkeypatch, caplog):
    paths = write(tmp_path, raw(range(6)), raw(range(6)))
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    with caplog.at_level(logging.INFO, "threadloader"):
        open_(dtype="uint16", window=2)
    assert [f"{path}: {n} files of tokens opened" for n, path in enumerate(paths, 1)] == (
        caplog.messages[-2:]  # behind those of the search
    )
