"""Csv files of one header are one source in memory, which any thread reads until it is closed."""

import logging
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from csv_files import DTYPES, SAMPLE, opened, refused, rows_of, write

from threadloader import Loader
from threadloader.errors import ClosedError, SourceError
from threadloader.sources import _progress, as_source, fingerprint
from threadloader.sources._csv_options import CsvOptions
from threadloader.sources.csv_file import CsvSource, open_csv


@pytest.mark.parametrize("dtype", ["float32", "str"])
def test_a_wide_table_takes_as_much_memory_as_a_narrow_one(tmp_path, dtype):
    """A block has a row or two of it: none may leave an object behind for each column."""
    rows, columns = 300, 200
    header = ",".join(f"c{number}" for number in range(columns))
    row = ",".join(f"{number:04}" for number in range(columns))
    path = write(tmp_path, f"{header}\n" + f"{row}\n" * rows)
    tracemalloc.start()
    try:
        source = CsvSource([path], CsvOptions(dtypes={"*": dtype}), _chunk=len(row))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == len(source)
    assert peak < 2.5 * source.sample_bytes * rows + (1 << 20)


def test_files_with_the_same_header_follow_one_another(tmp_path):
    paths = [
        write(tmp_path, "x,t\n1,a\n2,b\n", "1.csv"),
        write(tmp_path, "x,t\n", "2.csv"),
        write(tmp_path, '"x","t"\r\n3,"c\n\n"\r\n4,d', "3.csv"),
    ]
    source = open_csv({"path": "?.csv", "dtypes": {"x": "int8"}}, tmp_path)
    assert [1, 2, 3, 4] == source.take(range(4))["x"].tolist()
    assert ["a", "b", "c\n\n", "d"] == source.take(range(4))["t"]
    assert [f"{paths[i]}:{line}" for i, line in ((0, 2), (0, 3), (2, 2), (2, 5))] == [
        source.locate(i) for i in range(4)
    ]


def test_a_file_with_another_header_is_an_error(tmp_path):
    write(tmp_path, "x,t\n1,a\n", "1.csv")
    path = write(tmp_path, "t,x\n1,a\n", "2.csv")
    with pytest.raises(SourceError) as caught:
        open_csv({"path": "*.csv"}, tmp_path)
    assert (str(path), "line 1") == (caught.value.path, caught.value.place)
    assert caught.value.message.startswith(
        "expected the columns of the first file, 'x', 't', got 't', 'x'"
    )


def test_an_empty_file_is_an_error_where_a_header_should_be_and_no_rows_elsewhere(tmp_path):
    write(tmp_path, "1,2\n", "1.csv")
    path = write(tmp_path, "", "2.csv")
    assert [{"0": "1", "1": "2"}] == rows_of(
        open_csv({"path": ["2.csv", "1.csv"], "header": False}, tmp_path)
    )
    with pytest.raises(SourceError, match="got an empty file"):
        open_csv({"path": ["1.csv", "2.csv"]}, tmp_path)
    assert (
        "expected a row, got a file without one; give one with rows"
        == refused(path, header=False).message
    )


def test_a_batch_is_what_its_samples_are(tmp_path):
    source = opened(write(tmp_path, SAMPLE), dtypes=DTYPES)
    batch = source.take([3, 0, 3])
    assert ["id", "note", "width", "kind"] == list(batch)
    assert [source[i]["note"] for i in (3, 0, 3)] == batch["note"]
    assert [source[i]["width"] for i in (3, 0, 3)] == batch["width"].tolist()
    for index in (-1, 4):
        for call in (source.__getitem__, source.locate, lambda i: source.take([i])):
            with pytest.raises(IndexError):
                call(index)
    source.close()


def test_given_in_code_it_is_taken_as_it_is(tmp_path):
    """With what reads a whole batch, which is that of its own ``[]``."""
    source = opened(write(tmp_path, SAMPLE), dtypes=DTYPES)
    assert as_source(source) is source


def test_a_file_with_no_row_but_a_header_is_an_empty_source(tmp_path):
    source = opened(write(tmp_path, "a,b\n"), dtypes={"a": "int8"})
    batch = source.take([])
    assert (0, np.int8, []) == (len(source), batch["a"].dtype, batch["b"])


def test_the_fingerprint_tells_texts_options_and_sizes_apart(tmp_path):
    def said(data, **options):
        return fingerprint(opened(write(tmp_path, data), **options))

    plain = said("a,b\n1,x\n", dtypes={"a": "int8"})
    assert plain.startswith("csv, 8 bytes, dict, 1 samples, field 'a' i1 (), field 'b' i8 (2,)")
    others = {
        plain,
        said("a,b\n1,y\n", dtypes={"a": "int8"}),
        said("a,b\n1,x\r\n", dtypes={"a": "int8"}),
        said("a,b\n2,x\n", dtypes={"a": "int8"}),
        said("a,b\n1,x\n", dtypes={"a": "int16"}),
        said("a,b\n1,x\n", dtypes={"a": "int8"}, missing={"a": 3}),
    }
    assert 6 == len(others)
    assert plain == said("a,b\n1,x\n", dtypes={"a": "int8"})


def test_the_fingerprint_tells_where_the_rows_of_several_files_are_cut(tmp_path):
    """In as many characters for any number of files: it stands in each state."""
    told = set()
    for cut in (1, 2):
        for name, rows in (("1", "123"[:cut]), ("2", "123"[cut:])):
            write(tmp_path, "\n".join(["a", *rows, ""]), f"{name}.csv")
        told.add(fingerprint(open_csv({"path": "[12].csv", "dtypes": {"a": "int8"}}, tmp_path)))
    assert 2 == len(told)
    assert {True} == {it.startswith("csv, 2 files of 10 bytes, dict, 3 samples") for it in told}


def test_memory_holds_texts_without_an_object_for_each(tmp_path):
    """20,000 rows of 2 texts and 2 numbers: 16 bytes a text, its own bytes, 4 a number."""
    row = "ab,cd,1,2\n"
    path = write(tmp_path, "a,b,x,y\n" + row * 20_000)
    tracemalloc.start()
    source = CsvSource([path], CsvOptions(dtypes={"x": "float32", "y": "int32"}), _chunk=1 << 14)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(source) == 20_000
    assert held < 20_000 * (2 * 18 + 8) * 1.2
    assert peak < 3 * held


def test_sixteen_threads_read_what_one_reads(tmp_path):
    path = write(tmp_path, "i,t\n" + "".join(f"{i},{'é' * (i % 40)}\n" for i in range(2000)))
    source = opened(path, dtypes={"i": "int64"})
    expected = rows_of(source)

    def mine(seed):
        order = random.Random(seed).sample(range(2000), 500)
        batch = source.take(order)
        same = [{"i": i, "t": t} for i, t in zip(batch["i"].tolist(), batch["t"], strict=True)]
        return same == [expected[i] for i in order] == [dict(source[i]) for i in order]

    with ThreadPoolExecutor(16) as pool:
        assert [True] * 16 == list(pool.map(mine, range(16)))


def test_no_file_is_open_after_an_error(tmp_path):
    """As conftest.py sees; here a row in the middle is wrong."""
    refused(write(tmp_path, "a\n1\nx\n"), dtypes={"a": "int8"})


def test_no_file_may_lie_outside_of_the_root(tmp_path):
    write(tmp_path, SAMPLE)
    (tmp_path / "in").mkdir()
    with pytest.raises(SourceError, match='inside the folder "root"'):
        open_csv({"path": "data.csv"}, tmp_path, tmp_path / "in")


def test_a_long_opening_tells_how_far_it_is(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    path = write(tmp_path, SAMPLE)
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(path)
    assert [f"{path}: read rows in 0 of 0 MiB"] == caplog.messages


@pytest.mark.parametrize("short", [0, 3000])
def test_texts_count_where_small_batches_are_made_together(tmp_path, short):
    """A job of batches of long texts stays within `max_bytes`, but for a batch a worker."""
    path = write(tmp_path, "t\n" + "x\n" * short + ("x" * 1000 + "\n") * (4096 - short))
    source = opened(path)
    assert 1000 <= source.sample_bytes <= 1100
    config = {"batch_size": 32, "num_workers": 2, "shuffle": False, "max_bytes": "1MiB"}
    with Loader({**config, "num_epochs": 1}, source) as batches:
        assert 128 == len(list(batches))
        assert batches.stats().peak_bytes <= (1 << 20) + 2 * 32 * 1100


def test_closed_it_refuses_reads(tmp_path):
    (tmp_path / "a.csv").write_text("x,name\n1,a\n")
    spec = {"type": "csv", "path": "a.csv", "dtypes": {"x": "int64", "name": "str"}}
    source = open_csv(spec, tmp_path)
    source.close()
    for read in (lambda: source[0], lambda: source.take([0])):
        with pytest.raises(ClosedError, match=r"a\.csv: expected an open source"):
            read()
