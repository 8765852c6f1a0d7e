"""The csv source: every row that a strict reader sees, as the dtypes that were asked for."""

import csv
import difflib
import gzip
import io
import logging
import math
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import ArraySource, _progress, as_source, fingerprint
from threadloader.sources._csv_columns import filler
from threadloader.sources._csv_options import CsvOptions
from threadloader.sources._dtypes import UnfitError
from threadloader.sources.csv_file import CsvSource, open_csv

SAMPLE = (
    b"id,note,width,kind\r\n"
    b'1,"a, ""b""",0.5,oak\r\n'
    b'2,"two\r\nlines",-1e3,elm\r\n'
    b'3,,7,"oak"\r\n'
    b"4,plain,0.25,elm\r\n"
)
DTYPES = {"id": "int16", "width": "float32"}
WANTED = [
    {"id": 1, "note": 'a, "b"', "width": 0.5, "kind": "oak"},
    {"id": 2, "note": "two\r\nlines", "width": -1000.0, "kind": "elm"},
    {"id": 3, "note": "", "width": 7.0, "kind": "oak"},
    {"id": 4, "note": "plain", "width": 0.25, "kind": "elm"},
]

cells = st.text(
    st.sampled_from('a,;"\n\r\t é1') | st.characters(exclude_categories=["Cs"]), max_size=5
)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=6)
)  # fmt: skip


def write(folder, data, name="data.csv"):
    path = Path(folder) / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def opened(path, **options):
    return open_csv({"type": "csv", "path": str(path), **options}, Path())


def rows_of(source):
    """Give the samples with plain values."""
    samples = [source[i] for i in range(len(source))]
    return [
        {name: value if isinstance(value, str) else value.item() for name, value in sample.items()}
        for sample in samples
    ]


def read(path, **options):
    """Give every sample, with plain values."""
    return rows_of(opened(path, **options))


def texts(path, chunk=1 << 20, **options):
    """Give every row, without a header, as texts."""
    source = CsvSource([path], CsvOptions(header=False, **options), _chunk=chunk)
    return [list(source[i].values()) for i in range(len(source))]


def refused(path, **options):
    with pytest.raises(SourceError) as caught:
        opened(path, **options)
    assert str(path) == caught.value.path
    return caught.value


def plain_reader(text, delimiter=",", quote='"'):
    """Give the rows by the rules, character by character; None where they are broken."""
    rows, row, field, state = [], [], "", "start"  # or: plain, quoted, closed
    at = 0
    while at <= len(text):
        char = text[at] if at < len(text) else ""
        at += 1
        if state == "quoted":
            if not char:
                return None
            if char != quote:
                field += char
            elif text[at : at + 1] == quote:
                field, at = field + quote, at + 1
            else:
                state = "closed"
            continue
        if char == "\r" and text[at : at + 1] == "\n":
            continue
        if char in (delimiter, "\n", ""):
            if not char and state == "start" and not row:
                break
            row, field, state = [*row, field], "", "start"
            if char != delimiter:
                rows, row = [*rows, row], []
        elif char == "\r" or state == "closed" or (char == quote and state == "plain"):
            return None
        elif char == quote and quote:
            state = "quoted"
        else:
            field, state = field + char, "plain"
    return rows if len({len(row) for row in rows}) <= 1 else None


def strict_rows(text, delimiter=",", quote='"'):
    """Give the rows that the standard library's strict reader gives; None for an error."""
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    lines = io.StringIO(text, newline="")
    try:
        return [
            row or [""] for row in csv.reader(lines, delimiter=delimiter, strict=True, **quoting)
        ]
    except csv.Error:
        return None


# Rows


@given(tables, st.integers(1, 30), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_what_a_writer_wrote_comes_back_whatever_the_blocks(
    tmp_path_factory, table, chunk, end, quote_all, cut_last
):
    # The writer of Python 3.11 leaves a CR without quotes where lines end with LF alone.
    quoting = csv.QUOTE_ALL if quote_all or end == "\n" else csv.QUOTE_MINIMAL
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator=end, quoting=quoting).writerows(table)
    text = stream.getvalue().removesuffix(end) if cut_last else stream.getvalue()
    assert table == texts(write(tmp_path_factory.getbasetemp(), text), chunk)


@given(
    st.text(st.sampled_from('ab,;"\n\r \0é'), max_size=14),
    st.integers(1, 8),
    st.sampled_from([(",", '"'), (";", '"'), (",", ""), (" ", '"'), ("a", "b"), (",", ";")]),
)
@example('"a', 1, (",", '"'))
@example("a\r", 1, (",", '"'))
@example("a\r\r\n", 1, (",", '"'))
@example("\n\n", 1, (",", '"'))
@example('a"b\n', 1, (",", '"'))
@example('"a"b\n', 1, (",", '"'))
@example('"\n","\n"', 1, (",", '"'))
def test_the_rows_are_those_of_a_plain_reader_or_an_error(tmp_path_factory, text, chunk, marks):
    """And the standard library's strict reader sees the same wherever there are rows."""
    path = write(tmp_path_factory.getbasetemp(), text)
    options = dict(zip(("delimiter", "quote"), marks, strict=True))
    expected = plain_reader(text, *marks)
    if not expected:
        with pytest.raises(SourceError) as caught:
            texts(path, chunk, **options)
        assert text == "" or caught.value.place.startswith("line ")
        return
    assert expected == texts(path, chunk, **options)
    if not (marks[1] == "" and "\0" in text):
        assert expected == strict_rows(text, *marks)


def test_every_truncation_and_every_deleted_byte_gives_an_error_or_what_a_strict_reader_gives(
    tmp_path,
):
    damaged = [SAMPLE[:cut] for cut in range(len(SAMPLE))]
    damaged += [SAMPLE[:i] + SAMPLE[i + 1 :] for i in range(len(SAMPLE))]
    refusals = 0
    for data in damaged:
        path = write(tmp_path, data)
        try:
            found = read(path)
        except SourceError:
            refusals += 1
            continue
        header, *rows = strict_rows(data.decode())
        assert [dict(zip(header, row, strict=True)) for row in rows] == found
    assert refusals > len(SAMPLE) // 2


def test_every_flipped_bit_of_numbers_gives_an_error_or_what_a_plain_reader_gives(tmp_path):
    data = b"a,b\n1,2.5\n-3,4e1\n"
    for at in range(8 * len(data)):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        path = write(tmp_path, bytes(changed))
        try:
            found = read(path, dtypes={"*": "float64"})
        except SourceError:
            continue
        header, *rows = plain_reader(changed.decode())
        assert [dict(zip(header, map(float, row), strict=True)) for row in rows] == found


def test_the_sample_is_read_as_it_says(tmp_path):
    source = opened(write(tmp_path, SAMPLE), dtypes=DTYPES)
    assert rows_of(source) == WANTED
    assert [np.int16, str, np.float32, str] == [type(value) for value in source[0].values()]


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a,b\n1,2\n", [["1", "2"]]),
        (b"a,b\r\n1,2", [["1", "2"]]),
        (b"\xef\xbb\xbfa,b\n1,2\n", [["1", "2"]]),
        (b'\xef\xbb\xbf"a",b\n1,2\n', [["1", "2"]]),
        (b'a,b\n" 1", 2 \n', [[" 1", " 2 "]]),
        (b'a,b\n"x""y","\n"\n', [['x"y', "\n"]]),
        (b'a,b\n"",""""\n', [["", '"']]),
        (b"a,b\n,\n", [["", ""]]),
        (b"a,b\n\0,x\0y\n", [["\0", "x\0y"]]),
        (b"a,b\n", []),
        (b"a,b", []),
        ("a,b\n\u2028,\x85\x0c\n".encode(), [["\u2028", "\x85\x0c"]]),
    ],
)
def test_the_rules_for_rows(tmp_path, data, rows):
    assert rows == [list(row.values()) for row in read(write(tmp_path, data))]
    assert all(["a", "b"] == list(row) for row in read(write(tmp_path, data)))


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"a,b\n1,2\n3\n", "line 3", "expected 2 fields, as in the first row, got 1; correct"),
        (b"a,b\n1,2\n3,4,5\n", "line 3", "expected 2 fields, as in the first row, got 3"),
        (b'a,b\n"1\n\n",2\n3\n', "line 5", "expected 2 fields"),
        (b"a,b\n1,2\n,,\n", "line 3", "got 3, all blank; remove it"),
        (b"a,b\n1,2\n\n", "line 3", 'got 1, all blank; "skip_blank": true leaves blank lines out'),
        (b'a,b\n1,2\n3,"x\ny,z\n1,2\n', "line 3", "a closing"),
        (b'a,b\n1,"x\n2,"y"\n', "line 2", "expected ',' or the end of the line after a field in"),
        (b'a,b\n1,2\n3,5" pipe\n', "line 3", "expected a field without quotes, or one with quotes"),
        (b"a,b\n1,2\r3,4\r", "line 2", "expected LF or CR LF at the end of a line, got a CR alone"),
        (b"a,b\r\n1,2\r", "line 2", "got a CR alone"),
        (b"a,b\n1,2\na,b\n3,4\n", "line 3", "got the names of the columns again; remove this line"),
        (b'a,b\n1,"2"\n"a",b\n3,4\n', "line 3", "got the names of the columns again"),
        (b"a,b\n1,2\n3,\xff\n", "line 3", "expected UTF-8, got the byte 0xff"),
        (b"", "", "expected a header, got an empty file; leave it out"),
        (b"a,a\n1,2\n", "column 'a'", "one column of this name, got 2, at"),
    ],
)  # fmt: skip
def test_what_is_no_row_names_file_and_line(tmp_path, data, place, message):
    error = refused(write(tmp_path, data))
    assert place == error.place
    assert message in error.message


def test_a_file_of_gzip_is_told_to_be_unpacked(tmp_path):
    error = refused(write(tmp_path, gzip.compress(b"a,b\n1,2\n")))
    assert "line 1" == error.place
    assert "expected text in UTF-8, got a file compressed by gzip; unpack it first" == error.message


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 3_000_000])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_field_may_be_as_long_as_it_likes(tmp_path, size, quoted):
    limit = csv.field_size_limit()
    text = ("x\n,".ljust(size, "y") + '"') if quoted else "x" * size
    body = '"' + text.replace('"', '""') + '"' if quoted else text
    path = write(tmp_path, f"a,b\n1,{body}\n2,z\n")
    found = CsvSource([path], _chunk=4096)
    assert (2, text, "z") == (len(found), found[0]["b"], found[1]["b"])
    assert limit == csv.field_size_limit()


def test_blank_lines_are_left_out_on_demand_but_not_inside_a_field(tmp_path):
    data = b'\n \t\na,b\n\n1,"x\n\ny"\n\r\n2,\n   \n'
    path = write(tmp_path, data)
    source = opened(path, skip_blank=True)
    assert [{"a": "1", "b": "x\n\ny"}, {"a": "2", "b": ""}] == rows_of(source)
    assert [f"{path}:5", f"{path}:9"] == [source.locate(0), source.locate(1)]


def test_in_one_column_an_empty_line_is_an_empty_field(tmp_path):
    path = write(tmp_path, "word\n\na\n\n")
    assert ["", "a", ""] == [row["word"] for row in read(path)]
    assert ["a"] == [row["word"] for row in read(path, skip_blank=True)]


def test_in_one_column_the_name_of_the_column_may_be_a_value(tmp_path):
    assert [{"word": "word"}] == read(write(tmp_path, "word\nword\n"))


def test_tabs_that_divide_fields_are_no_blank_line(tmp_path):
    path = write(tmp_path, "a\tb\n\t\n\n")
    assert [{"a": "", "b": ""}] == read(path, delimiter="\t", skip_blank=True)


def test_without_quotes_a_quote_is_a_character(tmp_path):
    path = write(tmp_path, 'a;b\n"x;5" pipe\n')
    assert [{"a": '"x', "b": '5" pipe'}] == read(path, delimiter=";", quote=None)


# Fields


def test_fields_are_chosen_named_and_ordered(tmp_path):
    path = write(tmp_path, SAMPLE)
    assert [("kind", "oak"), ("id", "1")] == list(read(path, fields=["kind", 0])[0].items())
    chosen = {"y": "kind", "x": 2, "z": "kind"}
    assert {"y": "oak", "x": 0.5, "z": "oak"} == read(path, fields=chosen, dtypes={"x": "float16"})[
        0
    ]


def test_without_a_header_columns_are_called_by_their_positions(tmp_path):
    path = write(tmp_path, "1,2,3\n1,2,3\n")
    assert [{"0": "1", "1": "2", "2": "3"}] * 2 == read(path, header=False)
    assert [{"2": 3, "0": "1"}] * 2 == read(
        path, header=False, fields=[2, "0"], dtypes={"2": "int8"}
    )


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        (["heigth"], "column 'heigth'", "there are 'id', 'height'; did you mean 'height'?"),
        ({"x": 2}, "column 2", "expected a position from 0 to 1, got 2; there are 'id', 'height'"),
    ],
)
def test_a_column_that_is_not_there_is_an_error_that_lists_them(tmp_path, fields, place, message):
    error = refused(write(tmp_path, "id,height\n"), fields=fields)
    assert (place, True) == (error.place, message in error.message)


def test_all_columns_that_are_not_there_are_told_at_once(tmp_path):
    path = write(tmp_path, "id,height,a,a\n")
    error = refused(path, fields={"x": "heigth", "y": "id", "z": 9, "u": "a", "v": 9})
    assert str(error) == (
        f"{path}: columns 'heigth', 9, 'a': expected columns that are there once, "
        "got 'heigth' (did you mean 'height'?), 9, 'a' (2 times); "
        "there are 'id', 'height', 'a', 'a'"
    )


def test_all_options_that_name_no_field_are_told_at_once(tmp_path):
    options = {"dtypes": {"p": "int8", "a": "int8", "q": "int8"}, "categories": {"r": ["x"]}}
    with pytest.raises(ConfigError) as caught:
        opened(write(tmp_path, "a,b\n"), **options, missing={"s": 1})
    assert [("dtypes", "'p'"), ("dtypes", "'q'"), ("categories", "'r'"), ("missing", "'s'")] == [
        (problem.pointer.removeprefix("/source/"), problem.got) for problem in caught.value.problems
    ]


def test_all_that_is_wrong_with_the_options_alone_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        CsvOptions(
            quote="xx", dtypes={"a": "int", "b": "real", "c": "str"}, categories={"c": ["x"]}
        )
    assert ["'xx'", "'int' for 'a'", "'real' for 'b'", "'c'"] == [
        problem.got for problem in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("fields", "option"),
    [(None, ""), (["b", "a"], "/fields"), ({"x": "a"}, "/fields")],
)
def test_a_name_of_several_columns_is_an_error_that_says_how_to_choose(tmp_path, fields, option):
    path = write(tmp_path, "a,a,b,a\n")
    error = refused(path, fields=fields)
    assert option == error.option
    assert str(error) == (
        f"{path}: column 'a': expected one column of this name, got 3, at positions 0, 1, 3; "
        'choose each by its position, as in "fields": {"x": 0, "y": 1}'
    )


def test_columns_of_one_name_are_chosen_as_the_error_says(tmp_path):
    path = write(tmp_path, "a,a,b,a\n1,2,3,4\n")
    assert [{"x": "1", "y": "2"}] == read(path, fields={"x": 0, "y": 1})


def test_positions_of_one_name_are_an_error_that_says_how_to_name_them(tmp_path):
    with pytest.raises(ConfigError) as caught:
        opened(write(tmp_path, "b,a,a\n"), fields=[0, 2, 1])
    assert str(caught.value) == (
        "/source/fields: expected each field once, got columns 2 and 1, both called 'a'; "
        'give each a name of its own, as in {"x": 2, "y": 1}'
    )


@pytest.mark.parametrize(
    ("options", "pointer", "message"),
    [
        ({"fields": ["a", "a"]}, "/source/fields", "expected each field once"),
        ({"fields": ["a", 0]}, "/source/fields", "each field once, got 'a' twice; name it once"),
        ({"fields": [1, "a", "b"]}, "/source/fields", "each field once, got 'b' twice; name it"),
        ({"fields": []}, "/source/fields", "expected at least one field"),
        ({"dtypes": {"A": "int8"}}, "/source/dtypes", "expected the name of a field, got 'A'"),
        ({"dtypes": {"a": "int"}}, "/source/dtypes", "expected one of str, bool"),
        ({"fields": {"x": "a"}, "dtypes": {"a": "int8"}}, "/source/dtypes", "got 'a'"),
        ({"categories": {"*": ["x"]}}, "/source/categories", "expected the name of a field"),
        ({"categories": {"a": ["x"]}, "dtypes": {"a": "int8"}}, "/source/dtypes", "choose one"),
        ({"missing": {"c": 1}}, "/source/missing", "expected the name of a field, got 'c'"),
        ({"missing": {"a": 1}}, "/source/missing", "expected a field of numbers"),
        ({"missing": {"a": None}, "dtypes": {"a": "int8"}}, "/source/missing", "of int8"),
        ({"missing": {"a": 300}, "dtypes": {"a": "uint8"}}, "/source/missing", "got 300 for 'a'"),
        ({"missing": {"a": 2}, "dtypes": {"a": "bool"}}, "/source/missing", "of bool"),
        ({"missing": {"a": None}, "dtypes": {"a": "int8"}}, "/source/missing", "got null for 'a'"),
        ({"missing": {"a": 0.5}, "categories": {"a": ["x"]}}, "/source/missing", "an integer"),
        ({"delimiter": ",,"}, "/source/delimiter", "expected one character"),
        ({"delimiter": "\n"}, "/source/delimiter", "expected one character"),
        ({"quote": "\r"}, "/source/quote", "expected one character"),
        ({"quote": ","}, "/source/quote", "expected another character than the delimiter"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_a_config_error(tmp_path, options, pointer, message):
    with pytest.raises(ConfigError) as caught:
        opened(write(tmp_path, "a,b\n"), **options)
    (problem,) = caught.value.problems
    assert (pointer, True) == (problem.pointer, message in str(problem))


# Numbers


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("7", "int8", 7),
        (" +007\t", "int64", 7),
        ("-9223372036854775808", "int64", -(2**63)),
        ("18446744073709551615", "uint64", 2**64 - 1),
        ("-.5e1", "float64", -5.0),
        ("1.", "float16", 1.0),
        ("7", "float32", 7.0),
        ("1e-999", "float64", 0.0),
        ("True", "bool", True),
        ("0", "bool", False),
        (" true\t", "bool", True),
    ],
)
def test_a_text_becomes_the_number_that_it_says(tmp_path, text, dtype, value):
    source = opened(write(tmp_path, f"a,b\n{text},\n"), dtypes={"a": dtype})
    assert (dtype, value) == (str(source[0]["a"].dtype), source[0]["a"].item())


@pytest.mark.parametrize(
    ("text", "dtype", "message"),
    [
        ("1.5", "int64", "expected an integer, got '1.5'"),
        ("1.0", "int64", "expected an integer, got '1.0'"),
        ("1e3", "int64", "expected an integer, got '1e3'"),
        ("", "int64", "expected an integer, got an empty field"),
        ("128", "int8", "expected an integer of int8, got '128'"),
        ("-1", "uint64", "expected an integer of uint64, got '-1'"),
        ("9" * 5000, "int64", f"expected an integer, got '{'9' * 40}'..."),
        ("1_000", "int64", "expected an integer, got '1_000'"),
        ("1_000", "float64", "expected a number, got '1_000'"),
        ("\u0661", "int64", "expected an integer, got '\u0661'"),
        ("\u00a01", "float32", "expected a number, got '\\xa01'"),
        ("nan", "float32", "expected a number, got 'nan'"),
        ("inf", "float32", "expected a number, got 'inf'"),
        ("1e39", "float32", "expected a number of float32, got '1e39'"),
        ("1e999", "float64", "expected a number of float64, got '1e999'"),
        ("0x1p3", "float64", "expected a number, got '0x1p3'"),
        ("1 2", "float64", "expected a number, got '1 2'"),
        ('"1\n"', "float64", "expected a number, got '1\\n'"),
        ('"1\n2"', "int8", "expected an integer, got '1\\n2'"),
        ("yes", "bool", "expected true, false, 1 or 0, got 'yes'"),
    ],
)  # fmt: skip
def test_nothing_is_cast_that_the_dtype_does_not_hold(tmp_path, text, dtype, message):
    error = refused(write(tmp_path, f"a,b\n0,\n0,\n{text},\n0,\n"), dtypes={"a": dtype})
    assert "line 4, column 'a'" == error.place
    hint = 'say by "missing" and "missing_text" what a missing value is, or take the dtype "str"'
    hint += " for the field and convert it in the transform"
    if not text:
        hint = 'say what it means with "dtypes" and "missing"'
    assert f"{message}; correct the line, or {hint}" == error.message


def test_of_a_text_among_integers_it_is_said_that_classes_can_be_numbered(tmp_path):
    error = refused(write(tmp_path, "kind,b\n1,\noak,\n"), dtypes={"kind": "int64"})
    hint = 'list the texts in "categories", not the dtype, if they name classes'
    assert f"expected an integer, got 'oak'; correct the line, or {hint}, say by" in error.message


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


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6), st.integers(1, 40))
def test_floats_come_back_to_the_last_bit(tmp_path_factory, numbers, chunk):
    path = write(tmp_path_factory.getbasetemp(), "x\n" + "".join(f"{x!r}\n" for x in numbers))
    source = CsvSource([path], CsvOptions(dtypes={"x": "float64"}), _chunk=chunk)
    assert [x.hex() for x in numbers] == [source[i]["x"].item().hex() for i in range(len(source))]


@given(
    st.lists(st.integers(-(2**65), 2**65) | st.integers(-300, 300), min_size=1, max_size=4),
    st.sampled_from(["int8", "int32", "int64", "uint8", "uint64"]),
)
def test_an_integer_dtype_holds_each_integer_or_refuses(tmp_path_factory, numbers, dtype):
    path = write(tmp_path_factory.getbasetemp(), "x\n" + "".join(f"{x}\n" for x in numbers))
    bounds = np.iinfo(dtype)
    wrong = [i for i, x in enumerate(numbers) if not bounds.min <= x <= bounds.max]
    if not wrong:
        assert numbers == [row["x"] for row in read(path, dtypes={"x": dtype})]
    else:
        assert f"line {wrong[0] + 2}, column 'x'" == refused(path, dtypes={"x": dtype}).place


def test_a_star_is_every_field_that_is_not_named(tmp_path):
    path = write(tmp_path, "a,b,c\n1,2,3\n")
    source = opened(path, dtypes={"*": "float32", "b": "str"})
    assert ["float32", "str", "float32"] == [
        str(getattr(value, "dtype", "str")) for value in source[0].values()
    ]


def test_categories_are_places_in_a_list(tmp_path):
    path = write(tmp_path, SAMPLE)
    source = opened(path, fields=["kind"], categories={"kind": ["elm", "oak"]})
    assert [1, 0, 1, 0] == source.take(range(4))["kind"].tolist()
    assert np.int64 == source.take([0])["kind"].dtype
    error = refused(path, fields=["kind"], categories={"kind": ["oak", "ash"]})
    assert "line 3, column 'kind'" == error.place
    hint = 'correct the line, or name it in "categories" or "missing"'
    assert f"expected one of 'oak', 'ash', got 'elm'; {hint}" == error.message


# Missing values


def test_a_missing_value_is_the_number_that_was_said(tmp_path):
    path = write(tmp_path, "f,i,k,t\n1,NA,,NA\n,2,x,\nNA,,NA,z\n")
    source = opened(
        path,
        dtypes={"f": "float32", "i": "int8"},
        categories={"k": ["x"]},
        missing={"*": None, "i": -1, "k": -100},
        missing_text=["", "NA"],
    )
    batch = source.take(np.arange(3))
    assert [1.0, True, True] == [x if x == x else True for x in batch["f"].tolist()]
    assert math.isnan(batch["f"][1])
    assert ([-1, 2, -1], [-100, 0, -100]) == (batch["i"].tolist(), batch["k"].tolist())
    assert ["NA", "", "z"] == batch["t"]


@pytest.mark.parametrize("number", [0, 1, 1.0])
def test_a_missing_bool_is_zero_or_one(tmp_path, number):
    path = write(tmp_path, "a,b\ntrue,\n,\n")
    values = [row["a"] for row in read(path, dtypes={"a": "bool"}, missing={"a": number})]
    assert [True, bool(number)] == values
    with pytest.raises(ConfigError, match="expected 0 or 1 of bool, got 2 for 'a'"):
        opened(path, dtypes={"a": "bool"}, missing={"a": 2})


def test_where_quotes_mean_nothing_none_are_proposed(tmp_path):
    error = refused(write(tmp_path, "a,b\n1\r,2\n"), quote=None)
    assert error.message.endswith("got a CR alone; convert the line ends")


def test_a_star_for_missing_values_is_for_fields_that_can_hold_it(tmp_path):
    path = write(tmp_path, "f,i,b\n,1,true\n")
    assert math.isnan(
        read(path, dtypes={"f": "float16", "i": "int8", "b": "bool"}, missing={"*": None})[0]["f"]
    )
    path = write(tmp_path, "f,i\n1,\n")
    error = refused(path, dtypes={"f": "float16", "i": "int8"}, missing={"*": None})
    assert "line 2, column 'i'" == error.place
    hint = 'say what it means with "dtypes" and "missing", whose number for "*" int8 does not hold'
    assert error.message.endswith(hint)
    error = refused(path, dtypes={"*": "float16"}, missing={"*": -9999})
    assert error.message.endswith('"missing", whose number for "*" float16 does not hold')
    options = {"categories": {"i": ["x"]}, "dtypes": {"*": "float32"}, "missing": {"*": None}}
    error = refused(path, **options)
    assert error.message.endswith('"missing", whose number for "*" int64 does not hold')


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"dtypes": {"a": "int8"}, "missing": {"*": -1}}, -1),
        ({"categories": {"a": ["x"]}, "missing": {"a": -1}}, -1),
    ],
)
def test_where_missing_values_have_a_number_a_text_that_may_be_one_is_told_so(
    tmp_path, options, number
):
    path = write(tmp_path, "a,b\nNA,\n")
    error = refused(path, **options)
    assert error.message.endswith(
        'or add it to "missing_text" if the value is missing, or take the dtype "str" for the '
        "field and convert it in the transform"
    )
    assert number == opened(path, **options, missing_text=["", "NA"])[0]["a"]


def test_a_text_that_is_a_category_is_not_missing(tmp_path):
    path = write(tmp_path, "k,i\nNA,1\n-,-\nx,NA\n")
    options = {"missing": {"k": -100, "i": 0}, "missing_text": ["-", "NA"]}
    batch = opened(
        path, dtypes={"i": "int8"}, categories={"k": ["x", "NA"]}, **options
    ).take(np.arange(3))  # fmt: skip
    assert ([1, -100, 0], [1, 0, 0]) == (batch["k"].tolist(), batch["i"].tolist())


@pytest.mark.parametrize(
    ("fill", "dtype", "said"),
    [
        (-9999, "float16", "a number that float16 holds exactly, got -9999 for 'a'"),
        (-9999.0, "float16", "a number that float16 holds exactly, got -9999.0 for 'a'"),
        (16777217, "float32", "a number that float32 holds exactly, got 16777217 for 'a'"),
        (1e39, "float32", "a number of float32, got 1e+39 for 'a'"),
    ],
)
def test_a_whole_number_for_what_is_missing_is_held_exactly_or_refused(tmp_path, fill, dtype, said):
    path = write(tmp_path, "a\n\n")
    with pytest.raises(ConfigError) as caught:
        opened(path, dtypes={"a": dtype}, missing={"a": fill})
    assert str(caught.value).endswith(f"/source/missing: expected {said}")


@given(
    st.integers(-(2**70), 2**70) | st.integers(-70_000, 70_000),
    st.sampled_from(["float16", "float32", "float64"]),
)
@example(2**53 + 1, "float64")
@example(65520, "float16")
def test_a_float_dtype_holds_a_whole_number_to_its_last_digit_or_refuses(number, dtype):
    held = np.finfo(dtype)
    digits = abs(number // (number & -number or 1)).bit_length()  # from the first to the last 1
    if digits <= held.nmant + 1 and abs(number) <= int(held.max):
        assert number == int(filler(number, np.dtype(dtype)))
    else:
        with pytest.raises(UnfitError):
            filler(number, np.dtype(dtype))


def test_a_fraction_for_what_is_missing_is_the_nearest_one(tmp_path):
    path = write(tmp_path, "a\nNA\n")
    source = opened(path, dtypes={"a": "float32"}, missing={"a": 0.1}, missing_text=["NA"])
    assert np.float32(0.1) == source[0]["a"]


def test_an_error_behind_missing_values_names_its_own_line(tmp_path):
    path = write(tmp_path, "x\nNA\n1\nNA\nwrong\n")
    error = refused(path, dtypes={"x": "int8"}, missing={"x": 0}, missing_text=["NA"])
    assert "line 5, column 'x'" == error.place


# Several files


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
        "expected a row, got an empty file; give one with rows"
        == refused(path, header=False).message
    )


# As a source


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


class Name(str):
    """Counts how often names are compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_columns_are_found_without_a_look_at_each_of_the_others():
    """A table of 20,000 columns took ten seconds to open."""
    count = 300
    names = [Name(f"c{at}") for at in range(count)]
    listed = [f"c{at}" for at in reversed(range(count))]
    Name.compared = 0
    columns = CsvOptions(fields=listed).columns_of(names)
    source = ArraySource(dict.fromkeys(names, np.zeros(1)))
    assert all(source.column(name) is not None for name in listed)
    assert list(columns.values()) == list(reversed(range(count)))
    assert Name.compared < 10 * count


def test_the_nearest_name_is_looked_for_a_few_times_only(tmp_path, monkeypatch):
    """Among thousands of columns each look takes a while; every wrong name is told."""
    looks = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda name, *_, n: looks.append(name) or [])
    dtypes = {f"wrong{at}": "float32" for at in range(50)}
    with pytest.raises(ConfigError) as caught:
        opened(write(tmp_path, "a,b\n1,2\n"), dtypes=dtypes)
    assert 50 == len(caught.value.problems)
    assert 0 < len(looks) <= 10


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


def test_a_field_that_the_header_has_not_is_told_with_the_file(tmp_path):
    """The config may be right and the header damaged."""
    (tmp_path / "a.csv").write_bytes(b"x,y\x05\n1,2\n")
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path / "a.csv", dtypes={"y": "int64"})
    assert str(caught.value).endswith(f"did you mean 'y\\x05'?; see {tmp_path / 'a.csv'}")


def test_a_whole_number_written_as_a_float_fills_integers():
    filled = filler(2.0**53, np.dtype(np.int64))
    assert (2**53, np.int64) == (filled, type(filled))


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
