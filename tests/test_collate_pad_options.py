"""The value that pads is in the batch exactly; it and the other options are refused where wrong."""

import numpy as np
import pytest
from collated import ragged, refused
from configs import read_config
from dtypes import content
from frameworks import framework
from hypothesis import given
from hypothesis import strategies as st

from threadloader.collate import Pad, make_collate
from threadloader.errors import CollateError, ConfigError


def test_arrays_of_numbers_of_another_package_are_padded():
    """As they are stacked: jax brings bfloat16, and integers of four bits."""
    jax = framework("jax")
    short, tiny = np.dtype(jax.numpy.bfloat16), np.dtype(jax.numpy.int4)
    values, _ = Pad(value=0.5)([np.ones(2, short), np.ones(1, short)])
    assert (short, [[1, 1], [1, 0.5]]) == (values.dtype, values.astype(float).tolist())
    for dtype, value in ((short, 257), (short, 10**400), (tiny, 8), (tiny, 0.5)):
        with pytest.raises(CollateError, match=r'hold the pad value .*; give another "val'):
            Pad(value=value)([np.ones(2, dtype), np.ones(1, dtype)])


def test_a_pad_value_is_looked_at_again_for_another_dtype():
    pad = Pad(value=300)
    for dtype in (np.int16, np.float64, np.int16):
        values, _ = pad([np.zeros(1, dtype), np.zeros(2, dtype)])
        assert (dtype, 300) == (values.dtype, values[0, 1])
    with pytest.raises(CollateError, match="dtype uint8, which cannot hold the pad value int 300"):
        pad([np.zeros(1, np.uint8), np.zeros(2, np.uint8)])


FITS = [
    *(("i1", v) for v in (0, -128, 127, 4.0)),
    *(("u1", v) for v in (255, 0.0)),
    *(("i8", v) for v in (2**63 - 1, -(2**63))),
    *(("f2", v) for v in (0.5, -65504.0, float("inf"), float("nan"))),
    *(("f4", v) for v in (2**24, 1e10, -0.0)),
    *(("f8", v) for v in (0.1, 2**53, 2**70)),
    *(("?", v) for v in (0, 1)),
    *(("F", v) for v in (0.5, 3)),
    *((">i4", v) for v in (-1,)),
]

DOES_NOT_FIT = [
    *(("i1", v) for v in (128, -129, 300, 0.5, float("nan"), float("inf"), 2**70)),
    *(("u1", v) for v in (-1, 256)),
    *(("i8", v) for v in (2**63, 1e19)),
    *(("i4", v) for v in (0.5,)),
    *(("f2", v) for v in (65505, 1e9, 2**70, 10**400)),
    *(("f4", v) for v in (2**24 + 1, 1e39)),
    *(("f8", v) for v in (2**53 + 1, 10**400)),
    *(("?", v) for v in (2, -1, 0.5)),
    *(("U1", v) for v in (0,)),
    *(("S1", v) for v in (0,)),
    *(("M8[s]", v) for v in (0,)),
    *(("m8[s]", v) for v in (0,)),
    *(("V2", v) for v in (0,)),
]


@pytest.mark.parametrize(("dtype", "value"), FITS)
def test_a_pad_value_that_the_dtype_holds_is_there_exactly(dtype, value):
    values, _ = Pad(value=value)([np.zeros(0, dtype), np.zeros(1, dtype)])
    there = values[0, 0].item()
    assert np.dtype(dtype) == values.dtype
    assert there == value or (there != there and value != value)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_a_fraction_that_pads_is_rounded_to_the_dtype(dtype):
    """As 0.1 is already when it is written down; a whole number never is."""
    values, _ = Pad(value=0.1)([np.zeros(0, dtype), np.zeros(1, dtype)])
    assert np.dtype(dtype).type(0.1) == values[0, 0]


@pytest.mark.parametrize(("dtype", "value"), DOES_NOT_FIT)
def test_a_pad_value_that_the_dtype_does_not_hold_is_refused(dtype, value):
    error = refused(Pad(value=value), [{"x": np.zeros(1, dtype)}])
    assert error.message.startswith(f"field 'x': row 0 has dtype {np.dtype(dtype)}, which cannot")
    assert "the pad value" in error.message


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "U3", "S3", "V3", [("a", "i4")]], ids=str)
def test_what_is_no_number_is_told_to_be_converted(dtype):
    """There is no other "value" to give, since that is a number, too."""
    error = refused(Pad(), [{"x": np.zeros(1, dtype)}, {"x": np.zeros(2, dtype)}])
    assert "; padding takes numbers only: convert it in the transform, or name" in error.message
    assert 'give another "value"' not in error.message
    assert 'give another "value"' in refused(Pad(value=300), [np.zeros(1, "u1")]).message
    error = refused(Pad(fields=["x"]), [{"x": np.zeros(1, dtype)}])
    assert 'in the transform, or leave it out of "fields", if all are alike' in error.message


@pytest.mark.parametrize(("fields", "told"), [(None, True), (["x"], False)])
def test_fields_are_not_asked_for_where_they_are_given(fields, told):
    message = refused(Pad(fields=fields, value=300), [{"x": np.zeros(1, "u1")}]).message
    assert told == ('or the "fields" to pad' in message)


def test_a_pad_value_too_long_to_be_written_is_refused():
    error = refused(Pad(value=10**5000), [np.zeros(1)])
    assert "cannot hold the pad value an int of 16610 bits" in error.message


# A pad value for each field


def test_each_field_has_its_pad_value_and_others_have_0():
    samples = [{"x": np.arange(n), "y": np.ones(n), "z": np.ones(n, "u1")} for n in (1, 2)]
    batch = Pad(value={"x": -100, "y": 0.5})(samples)
    assert [[0, -100], [0, 1]] == batch["x"].tolist()
    assert [[1, 0.5], [1, 1]] == batch["y"].tolist()
    assert [[1, 0], [1, 1]] == batch["z"].tolist()
    assert [samples[0][name].dtype for name in "xyz"] == [batch[name].dtype for name in "xyz"]


@pytest.mark.parametrize("name", [1, "1"])
def test_a_pad_value_by_position_may_be_written_as_json_has_to(name):
    samples = [(np.zeros(n), np.zeros(n)) for n in (0, 1)]
    x, y, *_ = Pad(value={name: -100})(samples)
    assert ([[0], [0]], [[-100], [0]]) == (x.tolist(), y.tolist())
    assert Pad(value={1: -100}) == make_collate({"type": "pad", "value": {"1": -100}})


@given(ragged, st.integers(-128, 127))
def test_a_pad_value_by_name_is_that_value_for_all(arrays, value):
    """For int8 data, of any lengths, in one field."""
    samples = [{"x": np.zeros(len(array), np.int8)} for array in arrays]
    expected, got = Pad(value=value)(samples), Pad(value={"x": value})(samples)
    assert content(expected["x"]) == content(got["x"])


@pytest.mark.parametrize(
    ("pad", "sample", "said"),
    [
        (Pad(value={"z": 1}), {"x": np.ones(1)}, "no field 'z' is padded; in \"value\", name only"),
        (Pad(value={"n": 1}), {"x": np.ones(1), "n": 1}, "where no field 'n' is padded"),
        (Pad(value={"2": 1}), (np.ones(1), np.ones(1)), "where no field '2' is padded"),
        (Pad(value={"0": 1}), np.ones(1), "and shape (1,), where no field '0' is padded"),
        (Pad(value={"x": 0.5}), {"x": np.ones(1, "i4")}, "field 'x': row 0 has dtype int32, which"),
    ],
)
def test_a_pad_value_for_what_is_not_padded_is_refused(pad, sample, said):
    error = refused(pad, [sample])
    assert said in error.message
    assert (0,) == error.rows


def test_the_pad_values_are_those_of_the_time_when_pad_was_made():
    values = {"x": 1}
    pad = Pad(value=values)
    values["x"] = 2
    assert [[0, 1], [0, 0]] == pad([{"x": np.zeros(n)} for n in (1, 2)])["x"].tolist()


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"value": {}}, "/collate/value"),
        ({"value": {-1: 0}}, "/collate/value"),
        ({"value": {1: 0, "1": 0}}, "/collate/value"),
        ({"value": {"x": None}}, "/collate/value/x"),
        ({"value": {"x": True}}, "/collate/value/x"),
        ({"value": {"x": 0}, "fields": ["y"]}, "/collate/value/x"),
        ({"fields": []}, "/collate/fields"),
        ({"fields": ["x", "x"]}, "/collate/fields"),
        ({"fields": "x"}, "/collate/fields"),
        ({"fields": [-1]}, "/collate/fields"),
        ({"fields": [True]}, "/collate/fields"),
        ({"fields": 3}, "/collate/fields"),
        ({"length": 0}, "/collate/length"),
        ({"length": True}, "/collate/length"),
        ({"length": 2.5}, "/collate/length"),
        ({"length": 10**5000}, "/collate/length"),
        ({"length": 10, "multiple_of": 8}, "/collate/length"),
        ({"multiple_of": 0}, "/collate/multiple_of"),
        ({"multiple_of": None}, "/collate/multiple_of"),
        ({"value": "0"}, "/collate/value"),
        ({"value": True}, "/collate/value"),
        ({"truncate": 1}, "/collate/truncate"),
        ({"truncate": True}, "/collate/truncate"),
        ({"truncate": np.True_}, "/collate/truncate"),
        ({"length": 2**31}, "/collate/length"),
        ({"multiple_of": 2**31}, "/collate/multiple_of"),
        ({"length": np.True_}, "/collate/length"),
        ({"length": np.timedelta64(4, "s")}, "/collate/length"),
        ({"fields": [np.int64(-1)]}, "/collate/fields"),
        ({"value": np.True_}, "/collate/value"),
        ({"value": {"x": np.datetime64(4, "s")}}, "/collate/value/x"),
    ],
)
def test_options_out_of_bounds_are_config_errors(options, pointer):
    with pytest.raises(ConfigError) as caught:
        Pad(**options)
    assert [pointer] == [problem.pointer for problem in caught.value.problems]
    with pytest.raises(ConfigError):
        make_collate({"type": "pad", **options})


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"length": np.int64(4)}, {"length": 4}),
        ({"length": np.uint8(4), "truncate": np.True_}, {"length": 4, "truncate": True}),
        ({"multiple_of": np.int32(8)}, {"multiple_of": 8}),
        ({"fields": [np.int64(0), np.str_("x")]}, {"fields": [0, "x"]}),
        ({"value": np.int64(-100)}, {"value": -100}),
        ({"value": np.float32(0.5)}, {"value": 0.5}),
        ({"value": {"x": np.int8(3)}}, {"value": {"x": 3}}),
    ],
    ids=str,
)
def test_numbers_of_numpy_are_options(options, plain):
    """In code as in a config, where they are those of Python."""
    assert repr(Pad(**plain)) == repr(Pad(**options))
    config, _ = read_config({"collate": {"type": "pad", **options}}, source_in_code=True)
    assert Pad(**plain) == make_collate(config.collate)


def test_all_wrong_options_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        Pad(fields=[], length=-1, multiple_of=-1, value=None, truncate=None)
    assert 5 == len(caught.value.problems)


def test_a_pad_can_be_a_key_as_long_as_its_value_can():
    assert {Pad(length=3): "three"}[Pad(length=3)] == "three"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Pad(value={"x": 1}))
