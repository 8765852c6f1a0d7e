"""Fields are the columns that were chosen, by name or position; an error says how to choose."""

import difflib

import numpy as np
import pytest
from csv_files import SAMPLE, opened, read, refused, write

from threadloader.errors import ConfigError
from threadloader.sources import ArraySource
from threadloader.sources._csv_options import CsvOptions


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
        ({"delimiter": "\0"}, "/source/delimiter", "expected one character, neither NUL"),
        ({"quote": ","}, "/source/quote", "expected another character than the delimiter"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_a_config_error(tmp_path, options, pointer, message):
    with pytest.raises(ConfigError) as caught:
        opened(write(tmp_path, "a,b\n"), **options)
    (problem,) = caught.value.problems
    assert (pointer, True) == (problem.pointer, message in str(problem))


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


def test_a_field_that_the_header_has_not_is_told_with_the_file(tmp_path):
    """The config may be right and the header damaged."""
    (tmp_path / "a.csv").write_bytes(b"x,y\x05\n1,2\n")
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path / "a.csv", dtypes={"y": "int64"})
    assert str(caught.value).endswith(f"did you mean 'y\\x05'?; see {tmp_path / 'a.csv'}")
