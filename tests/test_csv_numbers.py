"""A field becomes the number that it says, or that was said for it, if its dtype holds it."""

import math

import numpy as np
import pytest
from csv_files import SAMPLE, opened, read, refused, write
from hypothesis import example, given
from hypothesis import strategies as st

from threadloader.errors import ConfigError
from threadloader.sources._csv_columns import filler
from threadloader.sources._csv_options import CsvOptions
from threadloader.sources._dtypes import UnfitError
from threadloader.sources.csv_file import CsvSource

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
        ("9" * 4301, "int64", f"expected an integer of int64, got '{'9' * 40}'..."),
        ("-" * 4300, "int64", f"expected an integer, got '{'-' * 40}'..."),
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


AS_TEXT = 'or take the dtype "str" for the field and convert it in the transform'


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (
            {"dtypes": {"a": "int8"}, "missing": {"*": -1}},
            f'if they name classes, add it to "missing_text" if the value is missing, {AS_TEXT}',
        ),
        (
            {"categories": {"a": ["x"]}, "missing": {"a": -1}},
            'or name it in "categories", or in "missing_text" if the value is missing',
        ),
    ],
)
def test_where_missing_values_have_a_number_a_text_that_may_be_one_is_told_so(
    tmp_path, options, hint
):
    path = write(tmp_path, "a,b\nNA,\n")
    assert refused(path, **options).message.endswith(hint)
    assert opened(path, **options, missing_text=["", "NA"])[0]["a"] == -1


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


def test_a_whole_number_written_as_a_float_fills_integers():
    filled = filler(2.0**53, np.dtype(np.int64))
    assert (2**53, np.int64) == (filled, type(filled))
