"""The reader of JSON with comments: what it accepts, what it refuses, and where."""

import json
import re
import sys
from pathlib import Path

import pytest
from configs import problems
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloader.config import _text
from threadloader.config._text import parse
from threadloader.errors import ConfigError

texts = st.text(max_size=8) | st.sampled_from(["", "a/b", "~", "é", "😀", '"', "\\", "\x7f"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
blanks = st.lists(
    st.sampled_from(
        [" ", "\t", "\n", "\r\n", "\r", "// x\n", "//\r", "/**/", "/* \n * /**/", "/***/"]
    ),
    max_size=2,
).map("".join)


@st.composite
def written(draw):
    """Draws a value and a text of it, blanks and comments between all its tokens."""
    value = draw(values)

    def write(value):
        if isinstance(value, dict):
            items = (f"{write(key)}{draw(blanks)}:{write(item)}" for key, item in value.items())
            text = "{" + (",".join(items) or draw(blanks)) + "}"
        elif isinstance(value, list):
            text = "[" + (",".join(map(write, value)) or draw(blanks)) + "]"
        else:
            text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        return draw(blanks) + text + draw(blanks)

    return value, write(value)


@settings(max_examples=300, deadline=None)
@given(written())
def test_what_was_written_is_read(case):
    value, text = case
    for form in (text, text.encode(), "\ufeff" + text, b"\xef\xbb\xbf" + text.encode()):
        document = parse(form)
        assert (value, []) == (document.value, document.problems)
        assert json.dumps(value) == json.dumps(document.value)  # 1 is not 1.0, nor true


def paths(value, path=()):
    """Lists every path into a value, and what stands there."""
    yield path, value
    items = value.items() if isinstance(value, dict) else ()
    for name, item in enumerate(value) if isinstance(value, list) else items:
        yield from paths(item, (*path, name))


def offset(text, line, column):
    """Finds a place in a text of which each line ends with LF."""
    return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column - 1


@settings(max_examples=100, deadline=None)
@given(values, st.sampled_from([None, 0, 2]))
def test_at_the_place_of_a_path_stands_its_value_and_its_key(value, indent):
    text = json.dumps(value, indent=indent)
    document = parse(text)
    read = json.JSONDecoder().raw_decode
    for path, item in paths(value):
        assert item == read(text, offset(text, *document.place(path)))[0]
        if path and isinstance(path[-1], str):
            assert path[-1] == read(text, offset(text, *document.place(path, at_key=True)))[0]


def test_what_does_not_exist_stands_where_what_should_contain_it_begins():
    document = parse('{"a": [1],\n "b": 2}')
    assert (1, 7) == document.place(("a", 5, "x"))
    assert (1, 7) == document.place(("a", "x"), at_key=True)
    assert (2, 7) == document.place(("b", "x"))
    assert (1, 1) == document.place(("c",))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_ends_with_any_of_the_three_line_ends(end):
    text = f'{{{end}// a comment ends there too{end}"a": 1,{end} "é😀": NaN}}'
    assert [(4, 8, "/é😀", "expected a finite number, got NaN")] == problems(text)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "1:1 ", "expected a JSON value, got the end of the text"),
        (" // nothing", "1:12 ", "expected a JSON value, got the end of the text"),
        ("1 2", "1:3 ", 'expected the end of the text, got "2"'),
        ("{} {}", "1:4 ", 'expected the end of the text, got "{"'),
        ("[1,]", "1:3 ", 'expected another item after the comma, got "]"'),
        ('{"a":1,}', "1:7 ", 'expected another item after the comma, got "}"'),
        ("[,1]", "1:2 /0", 'expected a JSON value, got ","'),
        ("[1 2]", "1:4 ", 'expected "," or "]", got "2"'),
        ("[1", "1:3 ", 'expected "," or "]", got the end of the text'),
        ("{", "1:2 ", 'expected a key in double quotes or "}", got the end of the text'),
        ("{,}", "1:2 ", 'expected a key in double quotes or "}", got ","'),
        ("{a:1}", "1:2 ", 'expected a key in double quotes or "}", got "a"'),
        ("{'a':1}", "1:2 ", 'expected a key in double quotes or "}", got "\'"'),
        ('{"a" 1}', "1:6 /a", 'expected ":" after the key, got "1"'),
        ('{"a":}', "1:6 /a", 'expected a JSON value, got "}"'),
        ('{"a":1 "b":2}', "1:8 ", 'expected "," or "}", got "\\""'),
        ('{"a":1,"\\u0061":2}', "1:8 /a", 'expected each key once, got "a" again'),
        ('[{"é":1,"\\u00e9":2}]', "1:9 /0/é", 'expected each key once, got "é" again'),
        ("NaN", "1:1 ", "expected a finite number, got NaN"),
        ("[Infinity]", "1:2 /0", "expected a finite number, got Infinity"),
        ("-Infinity", "1:1 ", "expected a finite number, got -Infinity"),
        ("1e400", "1:1 ", 'expected a number that fits a float, to 1.8e308, got "1e400"'),
        ("-1e400", "1:1 ", 'expected a number that fits a float, to 1.8e308, got "-1e400"'),
        ("9" * 5000, "1:1 ", "expected an integer of at most 4300 digits, got one of 5000"),
        ("-" + "9" * 4301, "1:1 ", "expected an integer of at most 4300 digits, got one of 4301"),
        ("01", "1:1 ", 'expected a JSON value, got "01"'),
        ("1.", "1:1 ", 'expected a JSON value, got "1."'),
        (".5", "1:1 ", 'expected a JSON value, got ".5"'),
        ("+1", "1:1 ", 'expected a JSON value, got "+1"'),
        ("1_000", "1:1 ", 'expected a JSON value, got "1_000"'),
        ("0x10", "1:1 ", 'expected a JSON value, got "0x10"'),
        ("1e", "1:1 ", 'expected a JSON value, got "1e"'),
        ("٣", "1:1 ", 'expected a JSON value, got "٣"'),
        ("True", "1:1 ", 'expected a JSON value, got "True"'),
        ("nullx", "1:1 ", 'expected a JSON value, got "nullx"'),
        ("'a'", "1:1 ", 'expected a JSON value, got "\'"'),
        ("# a", "1:1 ", 'expected a JSON value, got "#"'),
        ("/", "1:1 ", 'expected a JSON value, got "/"'),
        ("1 /* a", "1:3 ", "expected a comment that ends, got the end of the text"),
        ("/*/ 1", "1:1 ", "expected a comment that ends, got the end of the text"),
        ("\u00a01", "1:1 ", 'expected a JSON value, got "\\u00a0"'),
        ("\x0c1", "1:1 ", 'expected a JSON value, got "\\f"'),
        ("1\ufeff", "1:2 ", 'expected the end of the text, got "\\ufeff"'),
        ('"a', "1:1 ", 'expected a string that ends on its line, got "a"'),
        ('["a\nb"]', "1:2 /0", 'expected a string that ends on its line, got "a"'),
        ('"a\tb"', "1:3 ", 'expected no control character in a string, got "\\t"'),
        ('"a\0"', "1:3 ", 'expected no control character in a string, got "\\u0000"'),
        (
            '"\\x41"',
            "1:2 ",
            'expected one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, got "\\\\x41\\""',
        ),
        (
            '"\\u12"',
            "1:2 ",
            'expected one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, got "\\\\u12\\""',
        ),
        ('"\\', "1:2 ", 'expected one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, got "\\\\"'),
        ('"\\ud800"', "1:1 ", 'expected whole characters, got the lone surrogate "\\ud800"'),
        ('"\\udc00\\ud800"', "1:1 ", 'expected whole characters, got the lone surrogate "\\udc00"'),
        ('"\ud800"', "1:1 ", 'expected whole characters, got the lone surrogate "\\ud800"'),
        (b"\xff\xfe{\0}\0", "1:1 ", "expected text in UTF-8, got the byte 0xff"),
        (b'{"a":\n"\xc3\xa9\xe9"}', "2:3 ", "expected text in UTF-8, got the byte 0xe9"),
        (b'\xef\xbb\xbf"\xe9"', "1:2 ", "expected text in UTF-8, got the byte 0xe9"),
        (b'"\xed\xa0\x80"', "1:2 ", "expected text in UTF-8, got the byte 0xed"),
        ("{\0", "1:2 ", 'expected a key in double quotes or "}", got "\\u0000"'),
        (
            "[" * 100_000,
            "1:65 " + "/0" * 64,
            "expected at most 64 arrays and objects in one another, got one more",
        ),
        (
            '{"a":' * 65,
            "1:321 " + "/a" * 64,
            "expected at most 64 arrays and objects in one another, got one more",
        ),
        (" " * (4 << 20) + "1", "1:1 ", "expected at most 4194304 bytes, got more"),
    ],
    ids=lambda it: repr(it)[:40],
)
def test_what_is_no_json_is_refused_at_its_place(text, place, said):
    ((line, column, pointer, expected),) = problems(text)
    assert (place, said) == (f"{line}:{column} {pointer}", expected)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"a": 1,\n "a": 2}', "the first stands at 1:2"),
        ("{'a': 1}", "strings stand in double quotes"),
        ("[True]", "write true"),
        ("# a", "comments begin with // or stand between /* and */"),
        ("/* a", "close it with */"),
        ("[[1\n", '"[" at 1:2 is not closed'),
        ("[1,]", "take the comma away"),
        ("1 1", "one value is all that a file holds"),
        (b"\xff", "save the file as UTF-8"),
        (b"\xff\xfe{\0}\0", "save the file as UTF-8"),
        (
            b"PK\x03\x04\x14\0\xe9",
            'this is no text; a config names data: {"source": {"type": "npz", "path": "x.npz"}}',
        ),
        ('"\x1b"', 'write it as "\\u001b"'),
    ],
)
def test_a_hint_says_what_to_do(text, hint):
    with pytest.raises(ConfigError) as caught:
        raise ConfigError(parse(text).problems)
    assert [hint] == [problem.hint for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0", 0),
        ("1e-400", 0.0),
        ("9" * 4300, int("9" * 4300)),
        ("-" + "9" * 4300, -int("9" * 4300)),
        ("1.7976931348623157e308", sys.float_info.max),
        ('"\\ud83d\\ude00\\u00e9\\/\\b"', "😀é/\b"),
        ('"// no /* comment"', "// no /* comment"),
        ("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64)),
        ("1//", 1),
        ("/**/1/*//*/", 1),
        (" " * ((4 << 20) - 1) + "1", 1),
    ],
    ids=lambda it: repr(it)[:40],
)
def test_what_stands_at_the_edge_is_accepted(text, value):
    assert (value, []) == (parse(text).value, parse(text).problems)


def test_everything_that_can_be_told_at_once_is():
    text = '{"a": NaN, "b": [1e999, 2,], "a": "\\ud800", "\\udfff": 1}'
    assert ["/a", "/b/0", "/b", "/a", "/a", "/\udfff"] == [it[2] for it in problems(text)]
    assert {("a",), ("b", 0), ("\udfff",)} == parse(text).refused
    assert {"a": None, "b": [None, 2], "\udfff": 1} == parse(text).value


def test_reading_stops_behind_a_hundred_problems_and_says_so():
    *found, last = problems("[" + "NaN," * 100_000 + "1]")
    assert 100 == len(found)
    assert (1, 402, "", "expected at most 100 problems of the text, got more") == (
        *last[:3],
        last[3].partition(";")[0],
    )


def test_a_hundred_problems_are_all_there_are_where_nothing_is_said_of_more():
    found = problems("[" + "NaN," * 100 + "1]")
    assert [f"/{number}" for number in range(100)] == [place for _, _, place, _ in found]


def test_a_pointer_longer_than_a_screen_is_cut():
    (found,) = problems('{"' + "k" * 100_000 + '": NaN}')
    assert "/" + "k" * 1999 + "..." == found[2]


def test_a_shorter_limit_of_the_process_for_integers_holds():
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)
        expected = "expected an integer of at most 640 digits, got one of 641"
        assert [(1, 1, "", expected)] == problems("1" * 641)
        sys.set_int_max_str_digits(0)
        assert 4301 == len("1" * 4301)
        assert 1 == len(problems("1" * 4301))
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize(
    "text",
    [
        "/**/" * (1 << 18) + "1",
        "/*" + "*" * (1 << 20),
        '"' + "\\n" * (1 << 19),
        "[" + "1," * (1 << 17) + "1]",
        "\n" * (1 << 20) + "}",
        "1." + "1" * (1 << 20),
        "1e" + "9" * (1 << 20),
        '{"' + "k" * (1 << 20) + '":[' + "NaN," * 1000 + "1]}",
        "//\n" * (1 << 20) + "1",
        "/*" + "/ *" * (1 << 20),
        "/*/" * (1 << 20),
        "/**/" * (1 << 19) + "/*" + "* /" * (1 << 19),
        "/" * (1 << 20),
        '"' + "\\u12" * (1 << 19),
        '"' + "\\u1234" * (1 << 19),
        '"' + "\\" * (1 << 21),
        '"' + "a\\n" * (1 << 20) + "\\",
    ],
    ids=lambda it: it[:8],
)
def test_a_text_made_to_be_slow_is_read_all_the_same(text):
    """Each takes well under a second; in a time that is not linear, none would end."""
    assert len(problems(text)) in (0, 1, 101)


def test_no_pattern_repeats_a_group_possessively():
    """CPython before 3.11.5 loses its place in one (gh-106052), and then reads no comment."""
    source = Path(_text.__file__).read_text(encoding="utf-8")
    assert [] == re.findall(r"\)(?:[*+?]|\{[\d,]+\})\+", source)
