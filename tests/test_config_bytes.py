"""Numbers of bytes are read as they are written, or refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader.config._bytes import bytes_of

POWERS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


@given(st.decimals(1, 8000, places=3), st.sampled_from(sorted(POWERS)), st.booleans())
def test_a_number_and_a_unit_are_exact(number, unit, space):
    """Not by floating point."""
    factor = (1024 if "i" in unit else 1000) ** POWERS[unit]
    assert int(Fraction(number) * factor) == bytes_of(f"{number}{' ' * space}{unit}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GiB", 2 << 30),
        ("512MiB", 512 << 20),
        ("100MB", 100_000_000),
        ("1kb", 1000),
        ("7 b", 7),
        (1, 1),
        (2**53 - 1, 2**53 - 1),
    ],
)
def test_examples(text, expected):
    assert expected == bytes_of(text)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "2",
        "GiB",
        "-1GiB",
        "0B",
        "0.5B",
        "2 GiB ",
        "2  GiB",
        "2gigabytes",
        "1e3MB",
        "1_000MB",
        "٣MB",
        "1,5GB",
        ".5GB",
        "5.GB",
        "2PB",
        "2Gi",
        "999999999999999TiB",
        "1" * 500 + "B",
        0,
        -1,
        2**53,
        True,
        1.5,
        None,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_anything_else_is_refused_with_what_came(value):
    with pytest.raises(ValueError, match="expected a number of bytes") as caught:
        bytes_of(value)
    assert f"got {value!r:.40}" in str(caught.value)
