"""`LoaderConfig` and the schema: one truth; and what is said about options that are wrong."""

import copy
import dataclasses
import enum
import pickle
from pathlib import Path

import numpy as np
import pytest
from configs import OPTIONS, SCHEMA, SOURCE, read_config, told

from threadloader.config import LoaderConfig, _check
from threadloader.errors import ConfigError


def test_the_fields_are_the_options_of_the_schema_in_its_order():
    assert OPTIONS == [field.name for field in dataclasses.fields(LoaderConfig)]


def test_the_defaults_are_those_of_the_schema():
    expected = {name: SCHEMA["properties"][name]["default"] for name in OPTIONS}
    assert expected == {name: getattr(LoaderConfig(), name) for name in OPTIONS}
    assert expected == LoaderConfig().as_dict()


TYPES = {
    "string": "str",
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "array": "Sequence[int]",
    "null": "None",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_type_of_a_field_is_that_of_the_schema(name):
    kinds = SCHEMA["properties"][name].get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    annotation = LoaderConfig.__dataclass_fields__[name].type
    if kinds:
        assert " | ".join(TYPES[kind] for kind in kinds) == annotation
    elif "enum" in SCHEMA["properties"][name]:
        values = SCHEMA["properties"][name]["enum"]
        assert f"Literal[{', '.join(map(repr, values))}]" == annotation
    elif name == "switch_interval":  # the one option of which a branch is a plain number
        assert "float | Literal['auto'] | None" == annotation.replace('"', "'")
    else:
        assert annotation.startswith("Mapping[str, Any]")


def test_the_bounds_are_those_of_the_schema():
    for name, option in SCHEMA["properties"].items():
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in option:
                assert option[bound] == getattr(LoaderConfig(**{name: option[bound]}), name)
                with pytest.raises(ConfigError, match=f"^/{name}: expected "):
                    LoaderConfig(**{name: option[bound] + step})


def test_a_config_does_not_change():
    config = LoaderConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.batch_size = 3
    with pytest.raises((AttributeError, TypeError)):
        config.batchsize = 3


def test_what_was_given_is_copied():
    given = {"type": "npz", "path": "a", "fields": ["x"]}
    config = LoaderConfig(source=given)
    copied, _ = read_config(config)
    given["fields"].append("y")
    config.source["path"] = "b"
    assert ("a", ["x"]) == (copied.source["path"], copied.source["fields"])
    copied.as_dict()["source"]["path"] = "c"
    assert "a" == copied.source["path"]


def test_defaults_of_nested_objects_are_filled_in():
    config = LoaderConfig(source=SOURCE, collate={"type": "pad"}, shard={"remainder": "drop"})
    assert {**SOURCE, "fields": None} == config.source
    assert {"index": 0, "count": 1, "remainder": "drop"} == config.shard
    assert (1, None, False) == tuple(
        config.collate[k] for k in ("multiple_of", "length", "truncate")
    )


def test_configs_that_say_the_same_are_equal():
    assert LoaderConfig(shard={"index": 0.0, "count": 1.0}) == LoaderConfig()
    assert hash(LoaderConfig(batch_size=4.0)) == hash(LoaderConfig(batch_size=4))
    assert LoaderConfig(seed=1) != LoaderConfig()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, dataclasses.replace])
def test_a_config_can_be_copied(again):
    config = LoaderConfig(source=SOURCE, batch_size=7)
    assert config == again(config) == pickle.loads(pickle.dumps(config))


def test_a_replaced_option_is_checked():
    with pytest.raises(ConfigError, match="/shard/index: expected less than the count, 2, got 2"):
        dataclasses.replace(LoaderConfig(), shard={"index": 2, "count": 2})


class Size(enum.IntEnum):
    BIG = 64


class Word(str, enum.Enum):  # noqa: UP042 - its str() is not the word
    AUTO = "auto"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("batch_size", 4.0, 4),
        ("batch_size", np.int16(4), 4),
        ("batch_size", np.float32(4), 4),
        ("batch_size", Size.BIG, 64),
        ("seed", np.uint64(2**64 - 1), 2**64 - 1),
        ("shuffle", np.bool_(False), False),
        ("close_timeout", np.float64(0.5), 0.5),
        ("shard", Word.AUTO, "auto"),
        ("shard", np.str_("auto"), "auto"),
    ],
)
def test_values_of_numpy_and_enums_become_plain_ones(name, given, expected):
    got = getattr(LoaderConfig(**{name: given}), name)
    assert (expected, type(expected)) == (got, type(got))


def test_paths_and_tuples_become_plain_ones():
    source = {"type": "text", "path": (Path("a"), "b")}
    assert ["a", "b"] == LoaderConfig(source=source).source["path"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch_size": True}, ["/batch_size: expected an integer from 1 to 2147483647, got true"]),
        ({"batch_size": "4"}, ['/batch_size: expected an integer from 1 to 2147483647, got "4"']),
        ({"seed": float("inf")}, ["/seed: expected a finite number, got Infinity"]),
        (
            {"seed": 10**5000},
            [f"/seed: expected an integer from 0 to {2**64 - 1}, got an integer of 16610 bits"],
        ),
        ({"seed": {1}}, ["/seed: expected a JSON value, got a Python set"]),
        (
            {"batch_size": np.timedelta64(5, "ns"), "seed": np.datetime64(5, "ns")},
            [
                "/batch_size: expected a JSON value, got a Python timedelta64",
                "/seed: expected a JSON value, got a Python datetime64",
            ],
        ),
        (
            {"source": {**SOURCE, "path": b"a"}},
            ["/source/path: expected a JSON value, got a Python bytes"],
        ),
        (
            {"source": {**SOURCE, "path": "\udcff"}},
            ['/source/path: expected text without lone surrogates, got "\\udcff"'],
        ),
        ({"source": {**SOURCE, 1: 2}}, ["/source: expected keys that are text, got 1"]),
        (
            {"shuffle": None, "seed": -1},
            [
                "/shuffle: expected true or false, got null",
                f"/seed: expected an integer from 0 to {2**64 - 1}, got -1",
            ],
        ),
        (
            {"shard": {"index": 4, "count": 4}},
            ["/shard/index: expected less than the count, 4, got 4"],
        ),
        (
            {"shard": {"count": 4}},
            ['/shard: expected the key "index" beside "count", got an object without it'],
        ),
        (
            {"cache": {"max_bytes": None}},
            ["/cache: expected a max_bytes, a max_samples or a folder, got none of them"],
        ),
        (
            {"cache": {"max_bytes": float("nan")}},
            ["/cache/max_bytes: expected a finite number, got NaN"],
        ),
        (
            {"cache": {"folder": b"a"}},
            ["/cache/folder: expected a JSON value, got a Python bytes"],
        ),
        (
            {"collate": {"type": "pad", "length": 10, "multiple_of": 4}},
            ["/collate/length: expected a multiple of multiple_of, 4, got 10"],
        ),
        (
            {"collate": {"type": "pad", "truncate": True}},
            ['/collate/truncate: expected false, or a "length" to cut to, got true'],
        ),
        (
            {"source": {**SOURCE, "path": "a\0"}},
            ['/source/path: expected a path without NUL characters, got "a\\u0000"'],
        ),
        (
            {"source": {"type": "text", "path": ["a", "\0"]}},
            ['/source/path/1: expected a path without NUL characters, got "\\u0000"'],
        ),
        (
            {"source": {"type": "text", "path": "a", "index": {"folder": "b\0"}}},
            ['/source/index/folder: expected a path without NUL characters, got "b\\u0000"'],
        ),
        (
            {"source": {"type": "files", "folder": "a\0", "pattern": "*\0"}},
            [
                '/source/folder: expected a path without NUL characters, got "a\\u0000"',
                '/source/pattern: expected a path without NUL characters, got "*\\u0000"',
            ],
        ),
        *(
            (config, [f'{place}: expected a path without NUL characters, got "a\\u0000"'])
            for place, config in {
                "/root": {"root": "a\0"},
                "/exclude": {"exclude": "a\0"},
                "/cache/folder": {"cache": {"folder": "a\0"}},
                "/on_error/quarantine": {"on_error": {"skip": 1, "quarantine": "a\0"}},
                "/sampler/weights": {"sampler": {"type": "weighted", "weights": "a\0"}},
                "/sampler/indices": {"sampler": {"type": "subset", "indices": "a\0"}},
                "/sampler/labels": {"sampler": {"type": "balanced", "labels": "a\0"}},
                "/source/fields/x": {"source": {"type": "npy", "fields": {"x": "a\0"}}},
                "/source/fields/x/1": {"source": {"type": "npy", "fields": {"x": ["b", "a\0"]}}},
                "/source/label/csv": {
                    "source": {
                        "type": "files",
                        "folder": "f",
                        "label": {"csv": "a\0", "file": "f", "label": "l"},
                    }
                },
            }.items()
        ),
    ],
    ids=lambda it: str(it)[:40] if "seed" not in it else None,
)
def test_what_is_wrong_is_said_at_its_pointer(given, said):
    assert said == told(given)
    with pytest.raises(ConfigError) as caught:
        LoaderConfig(**given)
    assert said == str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"source": {"type": "text", "path": {"k": "a\0"}}}, "/source/path"),
        ({"source": {"type": "files", "folder": ["a\0"]}}, "/source/folder"),
        ({"source": {"type": "tar", "path": "x", "index": {"folder": "a\0"}}}, "/source/index"),
        ({"source": {"type": "npy", "fields": ["a\0"]}}, "/source/fields"),
        ({"source": {"type": "text", "path": "x", "folder": "a\0"}}, "/source/folder"),
        ({"collate": {"type": "stack", "truncate": True}}, "/collate/truncate"),
        ({"cache": {"folder": "x", "max_samples": 0}}, "/cache/max_samples"),
    ],
)
def test_of_what_is_wrong_alone_no_more_is_told_nor_of_what_is_in_it(given, pointer):
    (said,) = told(given)
    assert said.startswith(f"{pointer}: expected ")


def test_a_key_that_is_missing_hides_nothing_of_the_others():
    missing, nul = told({"source": {"type": "tokens", "path": "a\0"}})
    assert '/source: expected the key "window"' in missing
    assert nul.startswith("/source/path: expected a path without NUL characters")


def test_a_name_that_is_no_path_may_have_any_character():
    assert [] == told({"source": {**SOURCE, "fields": {"x": "a\0"}}})


def test_values_inside_themselves_or_one_another_many_times_are_refused(monkeypatch):
    monkeypatch.setattr(_check, "_MOST_VALUES", 20_000)  # of two millions, for which it takes long
    inside = []
    inside.append(inside)
    assert "/source" + "/0" * 64 in told({"source": inside})[0]
    many = []
    for _ in range(40):
        many = [many] * 10
    assert ["/source: expected at most 20000 values, got more"] == told({"source": many})


def test_a_broken_installation_names_the_file_that_is_missing(tmp_path, monkeypatch):
    """The package alone, without the schema in it or beside it."""
    monkeypatch.setattr(_check, "__file__", str(tmp_path / "package" / "config" / "_check.py"))
    with pytest.raises(FileNotFoundError, match=r"config_schema\.json: install threadl") as caught:
        _check.schema.__wrapped__()
    # Of a bundle too, where both would be missing: README.md has the line.
    options = str(caught.value).partition("; in a bundle of PyInstaller, ")[2]
    readme = Path(__file__).resolve().parent.parent / "README.md"
    assert f"`pyinstaller {options} app.py`" in readme.read_text(encoding="utf-8")


def test_the_schema_inside_the_package_is_taken_before_the_one_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(_check, "__file__", str(tmp_path / "package" / "config" / "_check.py"))
    (tmp_path / "package").mkdir()
    (tmp_path / "config_schema.json").write_text('{"type": "null"}', encoding="utf-8")
    assert [] == _check.schema.__wrapped__().check(None)
    (tmp_path / "package" / "config_schema.json").write_text('{"type": "string"}', encoding="utf-8")
    assert [] == _check.schema.__wrapped__().check("inside")
