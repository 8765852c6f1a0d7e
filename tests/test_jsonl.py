"""The jsonl source: a JSON value a line, exactly as it stands there, or an error that names it."""

import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opened_sources import close_at

from threadloader.collate import make_collate
from threadloader.errors import ConfigError, SourceError
from threadloader.sources import fingerprint
from threadloader.sources.jsonl import open_jsonl

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)

ROWS = [
    {"text": "a b", "label": 1, "ids": [3, 1, 2], "w": 0.5, "ok": True},
    {"text": 'ünï "q" \\ \u2028', "label": 0, "ids": [], "w": -1e-3, "ok": False},
    {"text": "", "label": 12, "ids": [40], "w": 2.0, "ok": True},
]
SAMPLE = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def write(folder, data, name="data.jsonl"):
    path = Path(folder) / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(path, **options):
    """Give every sample."""
    source = open_jsonl({"path": str(path), **options}, Path())
    try:
        return [source[i] for i in range(len(source))]
    finally:
        source.close()


def refused(path, **options):
    """Give the error of the first sample that has one."""
    with pytest.raises(SourceError) as caught:
        read(path, **options)
    assert str(path) == caught.value.path
    return caught.value


def strict(text):
    """Give the value of a strict JSON text, the plain way; an exception if it is none."""

    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def none(text):
        raise ValueError(text)

    def finite(text):
        assert math.isfinite(float(text))
        return float(text)

    return json.loads(text, object_pairs_hook=once, parse_constant=none, parse_float=finite)


# What comes out


@given(st.lists(values, max_size=5), st.booleans(), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_values_come_back_as_they_were_written(tmp_path_factory, rows, ascii_only, last, end):
    text = end.join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    path = write(tmp_path_factory.getbasetemp(), text + end * (last and bool(rows)))
    assert repr(rows) == repr(read(path))


@given(
    st.lists(st.sampled_from(list(b'{}[]":,\\/u0129.eE+-truefalsn \t\r\n\x00\xc3\xbc')), max_size=8)
)
@example(list(b"1e400"))
@example(list(b'{"":1,"":1}'))
@example(list(b"\r\n1"))
def test_a_line_is_what_strict_json_says_or_an_error(tmp_path_factory, characters):
    data = bytes(characters)
    path = write(tmp_path_factory.getbasetemp(), data)
    parts = data.split(b"\n")
    lines = [part.removesuffix(b"\r") for part in parts[:-1]] + parts[-1:] * bool(parts[-1])
    source = open_jsonl({"path": str(path)}, Path())
    assert len(lines) == len(source)
    for number, line in enumerate(lines):
        try:
            expected = strict(line.decode())
        except Exception:
            with pytest.raises(SourceError) as caught:
                source[number]
            assert caught.value.place.startswith(f"line {number + 1}, byte ")
        else:
            assert repr(expected) == repr(source[number])
    source.close()


def test_every_truncation_and_every_deleted_byte_gives_an_error_or_what_strict_json_says(tmp_path):
    """Fewer lines come out only where the file has fewer."""
    damaged = [SAMPLE[:cut] for cut in range(len(SAMPLE))]
    damaged += [SAMPLE[:i] + SAMPLE[i + 1 :] for i in range(len(SAMPLE))]
    refusals = 0
    for data in damaged:
        path = write(tmp_path, data)
        lines = data.split(b"\n")
        lines = lines if lines[-1] else lines[:-1]
        source = open_jsonl({"path": str(path)}, Path())
        assert len(lines) == len(source)
        for number, line in enumerate(lines):
            try:
                expected = strict(line.decode())
            except Exception:
                refusals += 1
                with pytest.raises(SourceError, match=f"line {number + 1}, byte "):
                    source[number]
            else:
                assert expected == source[number]
        source.close()
    assert refusals > len(SAMPLE)


def test_half_a_last_line_is_an_error_that_says_that_the_file_was_cut(tmp_path):
    path = write(tmp_path, SAMPLE[:-20])
    assert len(open_and_close(path)) == 3
    error = refused(path)
    assert error.place.startswith("line 3, byte ")
    assert error.message.endswith("the file ends in this line: was it cut? copy it again")


def open_and_close(path):
    source = open_jsonl({"path": str(path)}, Path())
    source.close()
    return source


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_value_over_several_lines_is_said_to_be_one_whichever_is_read(tmp_path, end):
    text = json.dumps([{"a": 1}, {"a": 2}], indent=1) + end
    source = open_jsonl({"path": str(write(tmp_path, text, "whole.json"))}, Path())
    with closing(source):
        for row in range(len(source)):
            with pytest.raises(SourceError) as caught:
                source[row]
            assert "write one value a line, without line ends inside" in caught.value.message


MANY = "{" + "".join(f'"{i}": 0, ' for i in range(100_000)) + '"99999": 0}'


@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        ("{'a': 1}", 1, "got \"'a': 1}\"; strings and keys stand in double quotes"),
        ('{"ü" 1}', 6, "expected JSON (Expecting ':' delimiter), got '1}'; correct the line"),
        ('{"a": }', 6, "expected JSON (Expecting value), got '}'; correct the line"),
        ('{"a": 1} {"a": 2}', 9, "expected JSON (Extra data), got '{\"a\": 2}'; write one value"),
        ('{"a": 1', 7, "got the end of the line; write one value a line"),
        ('{"a": 1, "a": 1}', 0, "expected strict JSON, got the key 'a' twice in one object"),
        ('[{"a": 1, "a": 2}]', 0, "the key 'a' twice"),
        # Among so many, comparing each with each would take minutes.
        pytest.param(MANY, 0, "the key '99999' twice", id="many keys"),
        ("[NaN]", 0, "expected strict JSON, got NaN, which JSON does not have"),
        ("-Infinity", 0, "got -Infinity, which JSON does not have"),
        ("[1e999]", 0, "expected strict JSON, got 1e999, too large for a float"),
        ("[-" + "9" * 400 + ".0]", 0, "too large for a float"),
        (
            "9" * 5000,
            0,
            "expected JSON, got an integer of more digits than Python reads; write it as a text",
        ),
        ("[" * 200_000, 0, "expected JSON, got lists and objects nested too deeply"),
        ("", 0, 'expected a JSON value, got a blank line; "skip_blank": true leaves blank'),
        (" \t", 0, "expected a JSON value, got a blank line"),
        ('"a\tb"', 2, "expected JSON (Invalid control character at)"),
        ('"\\x"', 1, "expected JSON (Invalid \\escape"),
        ("01", 1, "expected JSON (Extra data)"),
        ("\ufeff1", 0, "expected JSON (Expecting value)"),
    ],
)
def test_what_is_no_strict_json_names_file_line_and_byte(tmp_path, line, place, message):
    path = write(tmp_path, f"1\n{line}\n2\n")
    error = refused(path)
    assert f"line 2, byte {2 + place}" == error.place
    assert message in error.message


def test_a_line_that_is_not_utf8_names_the_byte(tmp_path):
    error = refused(write(tmp_path, b'1\n"a\xff"\n'))
    assert ("line 2, byte 4", True) == (error.place, "expected UTF-8" in error.message)


def test_the_error_of_one_line_leaves_the_others_readable(tmp_path):
    source = open_jsonl({"path": str(write(tmp_path, "1\nx\n3"))}, Path())
    with pytest.raises(SourceError):
        source[1]
    assert [1, 3] == [source[0], source[2]]
    source.close()


def test_blank_lines_are_left_out_on_demand(tmp_path):
    path = write(tmp_path, "\n1\n \t\r\n\u3000\n2\n\n")
    assert [1, 2] == read(path, skip_blank=True)
    assert "line 1, byte 0" == refused(path).place


def test_a_byte_order_mark_at_the_start_is_left_out(tmp_path):
    assert [1, 2] == read(write(tmp_path, b"\xef\xbb\xbf1\n2"))


def test_several_files_follow_one_another(tmp_path):
    write(tmp_path, "1\n2", "b.jsonl")
    write(tmp_path, "3\n", "a.jsonl")
    assert [3, 1, 2] == read(tmp_path / "*.jsonl")
    source = open_jsonl({"path": ["b.jsonl", "a.jsonl"]}, tmp_path)
    assert ([1, 2, 3], f"{tmp_path / 'a.jsonl'}:1") == (
        list(map(source.__getitem__, range(3))),
        source.locate(2),
    )
    source.close()


# Fields


def test_fields_are_chosen_named_and_ordered(tmp_path):
    path = write(tmp_path, SAMPLE)
    first = read(path, fields=["label", "text"])[0]
    assert [("label", 1), ("text", "a b")] == list(first.items())
    assert {"y": 1, "x": [3, 1, 2]} == read(path, fields={"y": "label", "x": "ids"})[0]
    assert {"a": 1, "b": 1} == read(path, fields={"a": "label", "b": "label"})[0]


def test_a_missing_field_names_the_line_and_the_nearest_field(tmp_path):
    path = write(tmp_path, '{"label": 1}\n{"lable": 2, "x": null}\n')
    error = refused(path, fields=["label"])
    assert "line 2, byte 13" == error.place
    assert (
        "expected an object with 'label', got one without it: there are 'lable', 'x'; "
        "did you mean 'lable'?" == error.message
    )


def test_a_field_that_is_null_is_there(tmp_path):
    assert [{"x": None}] == read(write(tmp_path, '{"x": null, "y": 1}'), fields=["x"])


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("[1]", "an array"),
        ("1", "1"),
        ('"x"', "the text 'x'"),
        ("null", "null"),
        ("true", "true"),
    ],
)
def test_fields_of_what_is_no_object_are_an_error(tmp_path, line, got):
    path = write(tmp_path, line)
    for options in ({"fields": ["x"]}, {"dtypes": {"x": "int8"}}):
        said = f"expected an object, of which fields are taken, got {got}; write one, or leave "
        assert f'{said}"fields" and "dtypes" out' == refused(path, **options).message


@pytest.mark.parametrize(
    ("options", "pointer", "message"),
    [
        ({"fields": ["a", "a"]}, "/source/fields", "expected each field once, got 'a' twice"),
        ({"fields": []}, "/source/fields", "expected at least one field"),
        ({"fields": {}}, "/source/fields", "expected at least one field"),
        ({"fields": ["ids"], "dtypes": {"id": "int8"}}, "/source/dtypes", "did you mean 'ids'?"),
        (
            {"fields": {"x": "a"}, "dtypes": {"a": "int8"}},
            "/source/dtypes",
            "expected the name of a field, got 'a'",
        ),
        ({"dtypes": {"x": "int"}}, "/source/dtypes", "expected one of bool, int8"),
    ],
)
def test_options_that_do_not_fit_are_a_config_error_before_any_file_is_opened(
    options, pointer, message
):
    with pytest.raises(ConfigError) as caught:
        open_jsonl({"path": "no file", **options}, Path())
    (problem,) = caught.value.problems
    assert (pointer, True) == (problem.pointer, message in str(problem))


def test_all_dtypes_of_no_field_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        open_jsonl({"path": "no", "fields": ["a"], "dtypes": {"b": "int8", "c": "int8"}}, Path())
    assert ["'b'", "'c'"] == [problem.got for problem in caught.value.problems]


# Dtypes


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("1", "int8", np.int8(1)),
        ("true", "bool", np.True_),
        ("1", "float32", np.float32(1)),
        ("0.1", "float32", np.float32(0.1)),
        ("18446744073709551615", "uint64", np.uint64(2**64 - 1)),
        ("[]", "int64", np.zeros(0, np.int64)),
        ("[[], []]", "float16", np.zeros((2, 0), np.float16)),
        ("[1, 2.5]", "float64", np.array([1, 2.5])),
        ("[[1, 2], [3, 4], [5, 6]]", "uint8", np.arange(1, 7, dtype=np.uint8).reshape(3, 2)),
        ("[[[true]], [[false]]]", "bool", np.array([True, False]).reshape(2, 1, 1)),
    ],
)  # fmt: skip
def test_numbers_and_lists_become_the_dtype_that_was_asked_for(tmp_path, text, dtype, expected):
    (sample,) = read(write(tmp_path, f'{{"x": {text}}}'), dtypes={"x": dtype})
    assert (expected.dtype, expected.shape) == (sample["x"].dtype, sample["x"].shape)
    assert expected.tolist() == sample["x"].tolist()
    assert isinstance(sample["x"], np.ndarray) == (text[0] == "[")


@pytest.mark.parametrize(("text", "dtype"), [("1e-50", "float32"), ("[1e-40]", "float32")])
def test_what_numpy_raises_in_the_thread_that_reads_makes_no_difference(tmp_path, text, dtype):
    """A worker has settings of its own, so that the caller's hold where there is none."""
    path = write(tmp_path, f'{{"x": {text}}}')
    (expected,) = read(path, dtypes={"x": dtype})
    with np.errstate(all="raise"):
        (sample,) = read(path, dtypes={"x": dtype})
    assert expected["x"].tolist() == sample["x"].tolist()


@pytest.mark.parametrize(
    ("text", "dtype", "message"),
    [
        ("1.5", "int64", "expected an integer of int64, got 1.5"),
        ("1.0", "int64", "expected an integer of int64, got 1.0"),
        ("true", "int64", "expected an integer of int64, got true"),
        ("true", "float32", "expected a number of float32, got true"),
        ("1", "bool", "expected true or false of bool, got 1"),
        ("null", "float32", "expected a number of float32, got null"),
        ('"1"', "int8", "expected an integer of int8, got the text '1'"),
        ('"null"', "int8", "expected an integer of int8, got the text 'null'"),
        ("[1, 128]", "int8", "expected an integer of int8, got 128 at [1]"),
        ("-1", "uint64", "expected an integer of uint64, got -1"),
        ("[0, -1]", "uint64", "expected an integer of uint64, got -1 at [1]"),
        ("9223372036854775808", "int64", "expected an integer of int64, got 9223372036854775808"),
        ("1e39", "float32", "expected a number of float32, got 1e+39"),
        ("1" + "0" * 400, "float64", "expected a number of float64, got an integer of 1329 bits"),
        (f"-{10**400}", "int8", "expected an integer of int8, got a negative integer of 1329 bits"),
        ("[[1, 2], [3]]", "int8", "expected lists of equal length in it, got lengths 2 and 1"),
        ("[[1], 2]", "int8", "expected an integer of int8, got an array at [0]"),
        ("[[1, 2], [3, null]]", "int8", "expected an integer of int8, got null at [1][1]"),
        ('{"a": 1}', "int8", "expected an integer of int8, got an object"),
        ("[" * 40 + "]" * 40, "int8", "expected at most 32 lists in each other, got more"),
    ],
)  # fmt: skip
def test_nothing_is_cast_that_the_dtype_does_not_hold(tmp_path, text, dtype, message):
    path = write(tmp_path, f'{{"x": 0}}\n{{"x": {text}}}')
    source = open_jsonl({"path": str(path), "dtypes": {"x": dtype}}, Path())
    with pytest.raises(SourceError) as caught:
        source[1]
    source.close()
    assert "line 2, byte 9" == caught.value.place
    hint = "correct the line, or choose another dtype"
    if "got null" in message:
        hint = 'leave the field out of "dtypes", and replace None in the transform'
    assert f"field 'x': {message}; {hint}" == caught.value.message


@given(
    st.lists(st.integers(-(2**65), 2**65) | st.integers(-300, 300), max_size=4),
    st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]),
)
def test_an_integer_dtype_holds_each_integer_or_refuses(tmp_path_factory, numbers, dtype):
    path = write(tmp_path_factory.getbasetemp(), json.dumps({"x": numbers}))
    bounds = np.iinfo(dtype)
    if all(bounds.min <= number <= bounds.max for number in numbers):
        (sample,) = read(path, dtypes={"x": dtype})
        assert (numbers, dtype) == (sample["x"].tolist(), str(sample["x"].dtype))
    else:
        refused(path, dtypes={"x": dtype})


def test_a_dtype_of_a_field_that_a_line_has_not_is_an_error(tmp_path):
    path = write(tmp_path, '{"x": 1}\n{"y": 1}')
    assert "line 2, byte 9" == refused(path, dtypes={"x": "int8"}).place


def test_arrays_of_differing_length_can_be_padded_and_numbers_be_stacked(tmp_path):
    samples = read(
        write(tmp_path, SAMPLE), fields=["ids", "label", "text"], dtypes={"ids": "int32"}
    )
    batch = make_collate({"type": "pad", "fields": ["ids"]})(samples)
    assert [[3, 1, 2], [0, 0, 0], [40, 0, 0]] == batch["ids"].tolist()
    assert (np.dtype("int32"), [1, 0, 12]) == (batch["ids"].dtype, batch["label"].tolist())
    assert [row["text"] for row in ROWS] == batch["text"]


# As a source


def test_the_fingerprint_has_lines_sizes_and_the_options_that_change_samples(tmp_path):
    path = write(tmp_path, SAMPLE)
    said = []
    for options in ({}, {"index": "beside"}, {"fields": ["w"]}, {"dtypes": {"w": "float32"}}):
        source = open_jsonl({"path": str(path), **options}, Path())
        said.append(fingerprint(source))
        source.close()
    plain = f"jsonl, 3 lines, {len(SAMPLE)} bytes"
    more = [', fields {"w": "w"}', ', dtypes {"w": "float32"}']
    assert [plain, plain, *(plain + each for each in more)] == said


def test_it_locates_samples_and_refuses_indices_out_of_range(tmp_path):
    path = write(tmp_path, "\n1\n\n2")
    source = open_jsonl({"path": str(path), "skip_blank": True}, Path())
    assert [f"{path}:2", f"{path}:4"] == [source.locate(0), source.locate(1)]
    close_at(source, 2)


def test_sixteen_threads_read_what_one_reads(tmp_path):
    rows = [{"i": i, "x": [i / 7] * (i % 30), "t": "é" * (i % 40)} for i in range(1500)]
    path = write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    source = open_jsonl({"path": str(path)}, Path())

    def mine(seed):
        order = list(range(len(rows)))
        random.Random(seed).shuffle(order)
        return all(rows[i] == source[i] for i in order[:700])

    with ThreadPoolExecutor(16) as pool:
        assert [True] * 16 == list(pool.map(mine, range(16)))
    source.close()


def test_the_order_of_the_dtypes_does_not_count_in_the_fingerprint(tmp_path):
    path = write(tmp_path, '{"a": 1, "b": 2}\n')

    def told(dtypes):
        with closing(open_jsonl({"path": str(path), "dtypes": dtypes}, Path())) as source:
            return source.fingerprint()

    assert told({"a": "int8", "b": "int16"}) == told({"b": "int16", "a": "int8"})
    assert told({"a": "int8", "b": "int16"}) != told({"a": "int16", "b": "int8"})
