"""The rows of a csv file are those that a strict reader sees; whatever is no row is an error."""

import csv
import gzip
import io

import numpy as np
import pytest
from csv_files import DTYPES, SAMPLE, opened, read, refused, rows_of, write
from hypothesis import example, given
from hypothesis import strategies as st

from threadloader.errors import SourceError
from threadloader.sources._csv_options import CsvOptions
from threadloader.sources.csv_file import CsvSource

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


def texts(path, chunk=1 << 20, **options):
    """Give every row, without a header, as texts."""
    source = CsvSource([path], CsvOptions(header=False, **options), _chunk=chunk)
    return [list(source[i].values()) for i in range(len(source))]


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
        (b'a,"b"\r1,2\r', "line 1", "got a CR alone; convert the line ends"),
        (b"\na,b\n1,3\n", "line 2", 'got 2; the first row is blank: remove it, or set "skip_bl'),
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


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"PK\x03\x04", "a zip file, as .xlsx and .npz are; save what is in it as text"),
        (b"SQLite format 3\0", 'an SQLite database; take {"type": "sqlite"}'),
        (b"PAR1", "a Parquet file; save what is in it as text"),
    ],
)
def test_a_file_that_is_no_text_is_told_what_it_is(tmp_path, begin, kind):
    error = refused(write(tmp_path, begin + b"\xff\n"))
    assert f"expected text in UTF-8, got {kind}" == error.message


def test_quotes_of_a_file_with_another_delimiter_are_told_so(tmp_path):
    error = refused(write(tmp_path, b'a,b\n1,"x"\n'), delimiter=";")
    assert error.message.endswith("""or what "delimiter" the file has, if not ';'""")


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


def test_where_quotes_mean_nothing_none_are_proposed(tmp_path):
    error = refused(write(tmp_path, "a,b\n1\r,2\n"), quote=None)
    assert error.message.endswith("got a CR alone; convert the line ends")
