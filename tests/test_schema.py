"""The checker against `jsonschema`, and the schema of the config against what it promises."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloader._schema import Schema, pointer, show

FILE = Path(__file__).parent.parent / "config_schema.json"
OURS = json.loads(FILE.read_text(encoding="utf-8"))

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 2**53, 1e300]),
    st.sampled_from(["", "a", "b", "ab", "type", "é", "😀"]),
)
names = st.sampled_from(["a", "b", "type"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


@st.composite
def schemas(draw, depth=3):
    """Draws a schema of the keywords that are built."""
    inner = schemas(depth - 1) if depth else st.just({})
    shape = draw(st.sampled_from(["type", "type", "type", "enum", "const", "anyOf", "any"]))
    if shape == "enum":
        return {"enum": draw(st.lists(scalars, min_size=1, max_size=3))}
    if shape == "const":
        return {"const": draw(scalars)}
    if shape == "anyOf":
        return {"anyOf": draw(st.lists(inner, min_size=1, max_size=3))}
    if shape == "any":
        return {"title": "anything"}
    several = draw(st.lists(kinds, min_size=1, max_size=3, unique=True))
    schema = {"type": several if len(several) > 1 or draw(st.booleans()) else several[0]}
    options = {
        "string": {"minLength": st.integers(0, 2)},
        "array": {"items": inner, "minItems": st.integers(0, 2)},
        "object": {
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.just(False) | inner,
            "minProperties": st.integers(0, 2),
            "dependentRequired": st.dictionaries(names, st.lists(names, unique=True), max_size=2),
        },
    }
    for kind in ("integer", "number"):
        options[kind] = {"minimum": st.integers(-2, 2), "maximum": st.sampled_from([0, 1.5, 3])}
    for kind in several:
        for keyword, drawn in options.get(kind, {}).items():
            if draw(st.booleans()):
                schema[keyword] = draw(drawn)
    if "array" in several and draw(st.booleans()):
        schema["items"] = {"type": draw(st.sampled_from(["integer", ["string", "number"]]))}
        schema["uniqueItems"] = draw(st.booleans())
    return schema


@settings(max_examples=600, deadline=None)
@given(schemas(), values)
def test_every_verdict_is_that_of_jsonschema(schema, value):
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert expected == (not Schema(schema).check(value))


@settings(max_examples=100, deadline=None)
@given(schemas(), values)
def test_every_mismatch_stands_at_a_value_or_key_that_exists(schema, value):
    for found in Schema(schema).check(value):
        at = value
        for name in found.path:
            at = {"type": None, **at}[name] if isinstance(at, dict) else at[name]
        assert found.expected
        assert found.got


def test_the_schema_of_the_config_is_a_valid_schema():
    jsonschema.Draft202012Validator.check_schema(OURS)
    assert "https://json-schema.org/draft/2020-12/schema" == OURS["$schema"]


def subschemas(schema, path=()):
    """Lists every schema in a schema, with its path."""
    yield path, schema
    for keyword in ("properties",):
        for name, child in schema.get(keyword, {}).items():
            yield from subschemas(child, (*path, keyword, name))
    for number, child in enumerate(schema.get("anyOf", [])):
        yield from subschemas(child, (*path, "anyOf", number))
    for keyword in ("items", "additionalProperties"):
        if schema.get(keyword):
            yield from subschemas(schema[keyword], (*path, keyword))


def kinds_of(schema):
    kinds = schema.get("type", [])
    return {kinds} if isinstance(kinds, str) else {*kinds}


# The keywords that are built, by the first type they speak about ("" for all).
ABOUT = {
    "": {"$schema", "title", "description", "default", "type", "enum", "const", "anyOf"},
    "number": {"minimum", "maximum"},
    "string": {"minLength"},
    "array": {"items", "minItems", "uniqueItems"},
    "object": {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "dependentRequired",
    },
}
SCALARS = {"null", "boolean", "integer", "number", "string"}


def not_built(schema):
    """Gives the keywords of a schema, not of its parts, that `Schema` would pass over."""
    if not isinstance(schema, dict):
        yield "a schema that is no object"
        return
    types, words = kinds_of(schema), schema.get("enum", [schema.get("const")])
    about = {"", *types, "number" if "integer" in types else ""}
    yield from schema.keys() - set().union(*(ABOUT.get(kind, ()) for kind in about))
    if not types <= SCALARS | {"array", "object"}:
        yield "type"
    if "anyOf" in schema and (not schema["anyOf"] or schema.keys() & {"type", "enum", "const"}):
        yield "anyOf"
    if not words or {"enum", "const"} <= schema.keys():
        yield "enum"
    if any(isinstance(word, (list, dict)) for word in words):  # their equality is not built
        yield "enum"
    inner = kinds_of(schema["items"]) if isinstance(schema.get("items"), dict) else set()
    if schema.get("uniqueItems") and not (inner and inner <= SCALARS):
        yield "uniqueItems"


def test_the_schema_of_the_config_has_nothing_that_is_not_built():
    """Of keywords that are built, but have no effect, the package does not look for that."""
    assert [] == [(path, [*not_built(it)]) for path, it in subschemas(OURS) if [*not_built(it)]]


def test_the_keywords_that_are_built_are_those_that_the_schema_uses():
    used = {keyword for _, schema in subschemas(OURS) for keyword in schema}
    assert set().union(*ABOUT.values()) == used


@pytest.mark.parametrize("keyword", ["pattern", "oneOf", "not", "$ref", "maxLength", "format"])
def test_any_other_keyword_is_refused(keyword):
    """It would be passed over in silence otherwise. A part is looked at when a value reaches it."""
    said = rf"^expected keywords that are built, got {re.escape(keyword)}$"
    with pytest.raises(ValueError, match=said):
        Schema({"type": "string", keyword: "x"})
    outer = Schema({"type": "object", "properties": {"a": {"type": "string", keyword: "x"}}})
    with pytest.raises(ValueError, match=said):
        outer.check({"a": "y"})


@pytest.mark.parametrize("value", [True, {"type": "integer", "maxLength": 3}])
def test_other_properties_of_any_kind_are_not_built(value):
    with pytest.raises(ValueError, match=r"that are built, got (True|maxLength)$"):
        Schema({"type": "object", "additionalProperties": value}).check({"a": 1})


def test_everything_has_a_title_and_one_sentence():
    for path, schema in subschemas(OURS):
        assert schema["title"], path
        sentences = schema["description"].replace("...", "").split(". ")
        assert (path, 1, ".") == (path, len(sentences), sentences[-1][-1])


def test_every_option_has_a_default_unless_it_has_to_be_given():
    without = {
        (pointer(path), name)
        for path, schema in subschemas(OURS)
        for name, child in schema.get("properties", {}).items()
        if "default" not in child and name not in schema.get("required", [])
    }
    assert {("", "$schema")} == without


def test_every_default_is_valid():
    wrong = [
        path
        for path, schema in subschemas(OURS)
        if "default" in schema and Schema(schema).check(schema["default"])
    ]
    assert [] == wrong


def test_every_object_of_the_schema_is_closed():
    """All but those whose keys are the user's: fields, columns, extensions."""
    open_ones = {
        path[-1]
        for path, schema in subschemas(OURS)
        if "object" in schema.get("type", ()) and schema.get("additionalProperties") is not False
    }
    assert {"fields", "dtypes", "categories", "missing", "decode", "value"} == open_ones


def test_every_number_has_a_lower_bound_but_those_that_stand_for_data():
    """What pads, and what is put in the place of a missing number."""
    unbounded = {
        next(name for name in reversed(path) if name != "additionalProperties")
        for path, schema in subschemas(OURS)
        if "minimum" not in schema and {"integer", "number"} & kinds_of(schema)
    }
    assert {"missing", "value"} == unbounded


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{}]},
        {"$ref": "#"},
        {"pattern": "a"},
        {"minimum": 1},
        {"type": "string", "minimum": 1},
        {"type": "integer", "properties": {}},
        {"properties": {"a": {"format": "date"}}, "type": "object"},
        {"type": "array", "items": {"multipleOf": 2}},
        {"type": "array", "items": True},
        {"type": "array", "uniqueItems": True},
        {"type": "array", "uniqueItems": True, "items": {"type": "array"}},
        {"type": "object", "additionalProperties": True},
        {"type": "whole"},
        {"type": "integer", "anyOf": [{}]},
        {"anyOf": []},
        {"enum": []},
        {"enum": [[1]]},
        {"const": {}},
        {"const": 1, "enum": [1]},
        True,
        None,
    ],
    ids=str,
)
def test_what_is_not_built_is_found(schema):
    assert any(any(not_built(part)) for _, part in subschemas(schema))


def test_a_value_nested_deeply_is_checked_without_following_it():
    value = []
    for _ in range(100_000):
        value = [value]
    assert [] == Schema({"type": "array", "items": {"type": "array"}}).check([value])
    (found,) = Schema(OURS).check({"source": value})
    assert ("null or an object", "an array of 1") == (found.expected, found.got)
    while value:  # taken apart by hand: the interpreter would do it recursively
        value = value.pop()


KINDS = 'one of "npz", "npy", "csv", "jsonl", "text", "tokens", "files", "tar", "sqlite"'


def told(schema, value):
    """Lists what a check says: pointer, expected, got."""
    return [(pointer(it.path), it.expected, it.got) for it in Schema(schema).check(value)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"batch_size": True}, [("/batch_size", "an integer from 1 to 2147483647", "true")]),
        ({"batch_size": 4.5}, [("/batch_size", "an integer from 1 to 2147483647", "4.5")]),
        ({"batch_size": "4"}, [("/batch_size", "an integer from 1 to 2147483647", '"4"')]),
        ({"seed": 2**64}, [("/seed", f"an integer from 0 to {2**64 - 1}", str(2**64))]),
        ({"num_epochs": 0}, [("/num_epochs", f"an integer from 1 to {2**53 - 1} or null", "0")]),
        ({"shuffle": 1}, [("/shuffle", "true or false", "1")]),
        ({"close_timeout": -0.5}, [("/close_timeout", "a number from 0 to 86400", "-0.5")]),
        ({"shard": "atuo"}, [("/shard", '"auto" or an object', '"atuo"')]),
        (
            {"shard": {"count": 2}},
            [("/shard", 'the key "index" beside "count"', "an object without it")],
        ),
        (
            {"collate": {}},
            [("/collate", 'the key "type", one of "stack", "pad"', "an object without it")],
        ),
        ({"source": {"type": "npx"}}, [("/source/type", KINDS, '"npx"')]),
        ({"source": {"type": 3}}, [("/source/type", KINDS, "3")]),
        ({"source": 5}, [("/source", "null or an object", "5")]),
        (
            {"source": {"type": "text", "path": [], "skip": 1}},
            [
                ("/source/path", "a non-empty string or a non-empty array", "an empty array"),
                ("/source/skip", "a known key", '"skip"'),
            ],
        ),
        (
            {"source": {"type": "npz", "fields": ["a", 1, "a"]}},
            [
                ("/source", 'the key "path"', "an object without it"),
                ("/source/fields/1", "a non-empty string", "1"),
                ("/source/fields/2", "each item once", '"a" again'),
            ],
        ),
    ],
    ids=str,
)
def test_a_mismatch_is_told_in_one_phrase_at_its_own_place(value, expected):
    assert expected == told(OURS, value)


def test_branches_that_are_told_apart_by_a_number_have_no_name():
    """Those that have one are what is expected."""
    schema = {
        "anyOf": [{"type": "object", "properties": {"type": {"const": it}}} for it in (1, "a")]
    }
    assert [("/type", 'one of "a"', '"b"')] == told(schema, {"type": "b"})


def test_items_that_are_equal_in_json_and_not_in_python_are_the_same_item():
    schema = {"type": "array", "items": {"type": ["number", "boolean"]}, "uniqueItems": True}
    assert [] == told(schema, [1, True, 0, False])
    assert [("/1", "each item once", "1.0 again")] == told(schema, [1, 1.0])


def test_of_a_long_array_the_first_hundred_wrong_items_are_told_and_that_there_are_more():
    schema = {"type": "array", "items": {"type": "integer"}}
    wrong = [(f"/{number}", "an integer", "true") for number in range(101)]
    assert wrong[:100] == told(schema, [True] * 100)
    last = ("/100", "at most 100 wrong items", "more")
    assert [*wrong[:100], last] == told(schema, [True] * 1000)


def test_an_unknown_key_comes_with_the_known_ones():
    (found,) = Schema(OURS).check({"shard": {"rank": 1}})
    assert (("index", "count", "remainder"), True) == (found.known, found.at_key)


def test_a_filled_value_has_every_default_and_whole_numbers():
    filled = Schema(OURS).fill({"collate": {"type": "pad", "fields": [0.0]}, "batch_size": 4.0})
    assert [*OURS["properties"]][1:] == [*filled]
    assert (4, int) == (filled["batch_size"], type(filled["batch_size"]))
    assert {
        "type": "pad",
        "fields": [0],
        "length": None,
        "multiple_of": 1,
        "value": 0,
        "truncate": False,
    } == filled["collate"]
    assert [] == Schema(OURS).check(filled)


@settings(max_examples=200, deadline=None)
@given(schemas(), values)
def test_filling_twice_is_filling_once(schema, value):
    compiled = Schema(schema)
    if not compiled.check(value):
        assert compiled.fill(value) == compiled.fill(compiled.fill(value)) == value


def test_filling_copies():
    value = {"source": {"type": "npz", "path": "a", "fields": {"x": "y"}}}
    filled = Schema(OURS).fill(value)
    filled["source"]["fields"]["x"] = filled["shard"]["index"] = "changed"
    assert "y" == value["source"]["fields"]["x"]
    assert 0 == Schema(OURS).fill({})["shard"]["index"]


@given(st.text() | st.integers() | st.floats() | st.binary() | values)
def test_what_is_shown_is_short_and_fits_on_a_line(value):
    shown = show(value)
    assert shown.isprintable()
    assert len(shown) < 500


def test_an_integer_too_long_to_print_is_shown_by_its_size_and_sign():
    assert "an integer of 33220 bits" == show(10**10_000)
    assert "a negative integer of 33220 bits" == show(-(10**10_000))


def test_an_epoch_that_is_drawn_may_be_as_long_as_an_order():
    kinds = [kind.get("properties", {}) for kind in OURS["properties"]["sampler"]["anyOf"]]
    assert [2**62] * 3 == [it["num_samples"]["maximum"] for it in kinds if "num_samples" in it]
