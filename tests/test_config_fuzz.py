"""Configs by the thousand: each is a config or a `ConfigError`, and the verdict is right."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from campaigns import configs
from configs import OPTIONS, SOURCE, problems, read_config, told
from fuzzed_configs import case
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts import Home, is_good

from threadloader import config as package
from threadloader.config import LoaderConfig, examine
from threadloader.config._text import parse
from threadloader.errors import ConfigError

words = st.sampled_from(
    [*OPTIONS, "type", "npz", "text", "pad", "stack", "path", "fields", "auto", "x"]
)
small = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from([2.0, 0.5, 2**64]) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
sources = st.sampled_from(
    [
        SOURCE,
        {**SOURCE, "fields": {"x": "y"}},
        {"type": "text", "path": ["a", "b"], "skip_blank": True},
    ]
)
shards = st.just("auto") | st.fixed_dictionaries(
    {"index": st.integers(0, 2), "count": st.integers(1, 2)}, optional={"remainder": words}
)
pads = st.fixed_dictionaries(
    {"type": st.just("pad")},
    optional={
        "length": st.integers(1, 9),
        "multiple_of": st.integers(1, 3),
        "truncate": st.booleans(),
        "fields": st.lists(words, max_size=2),
        "value": st.floats(allow_nan=False, allow_infinity=False),
    },
)
good = st.fixed_dictionaries(
    {"source": sources},
    optional={
        "batch_size": st.integers(1, 9) | st.just(4.0),
        "shuffle": st.booleans(),
        "shard": shards,
        "collate": st.just({"type": "stack"}) | pads,
        "num_epochs": st.none() | st.integers(1, 3),
        "close_timeout": st.floats(0, 86400),
    },
)


@st.composite
def mutated(draw):
    """Draws a config in which a few values or keys have been changed."""
    config = draw(good)
    config = json.loads(json.dumps(config))
    for _ in range(draw(st.integers(0, 2))):
        at = config
        while True:
            key = draw(st.sampled_from(sorted(at)) if isinstance(at, dict) and at else words)
            inner = at.get(key)
            if not isinstance(inner, dict) or not draw(st.booleans()):
                break
            at = inner
        if draw(st.booleans()):
            at[key] = draw(small)
        else:
            at.pop(key, None)
    return config


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_the_verdict_is_that_of_jsonschema_and_the_rules_beside_it(config):
    expected = is_good(config)
    assert expected == (not told(config, source_in_code=False))
    if expected:
        read, _ = read_config(config)
        assert [] == told(read.as_dict(), source_in_code=False)
        assert json.loads(json.dumps(read.as_dict())) == read.as_dict()
        given = {key: value for key, value in config.items() if not isinstance(value, dict)}
        assert {**read.as_dict(), **given} == read.as_dict()


@settings(max_examples=150, deadline=None)
@given(mutated(), st.sampled_from([None, 1]))
def test_a_file_and_a_mapping_get_the_same_verdict(config, indent):
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "c.json")
        Path(name).write_text(json.dumps(config, indent=indent), encoding="utf-8")
        said = told(name, source_in_code=False)
    places = [line.removeprefix(name).split(": ", 1)[1] for line in said]
    assert sorted(told(config, source_in_code=False)) == sorted(places)


@settings(max_examples=300, deadline=None)
@given(
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | mutated().map(lambda it: json.dumps(it).encode()),
    st.integers(0, 100),
    st.binary(max_size=2),
    st.sampled_from(["", "#", "#/source", "#/0/a"]),
    st.sampled_from(["error", "ignore"]),
)
def test_any_file_is_a_config_or_a_config_error(data, at, damage, fragment, unknown):
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "c.json")
        Path(name).write_bytes(data[:at] + damage + data[at + 1 :])
        try:
            config, base = read_config(name + fragment, unknown=unknown, source_in_code=True)
        except ConfigError as error:
            problems = error.problems
        else:
            problems = ()
            assert (LoaderConfig(**config.as_dict()), Path(folder)) == (config, base)
    assert all(problem.line and problem.column for problem in problems)
    places = [(problem.line, problem.column) for problem in problems]
    assert sorted(places) == places


@given(st.dictionaries(st.text() | st.integers(), st.builds(object) | st.floats() | small))
def test_any_mapping_is_a_config_or_a_config_error(mapping):
    for unknown in ("error", "ignore"):
        report = examine(mapping, unknown=unknown, source_in_code=True)
        assert (report.config is None) == bool(report.problems)


marks = st.sampled_from(
    [*'{}[]:,"\\/*#\n\r \t0123.eE+-', "//", "/*", "*/", '"a"', "true", "NaN", "\\u", "\ufeff"]
)


def plain(text):
    """What `json` reads, or None where the text is not strict; comments it does not know."""

    def once(pairs):
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=once)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return None
    return [value]


@settings(max_examples=500, deadline=None)
@given(st.text() | st.binary() | st.lists(marks, max_size=20).map("".join))
def test_any_text_is_read_or_refused_as_json_does(text):
    found = problems(text)
    assert all(line >= 1 <= column for line, column, *_ in found)
    if plain(text) is not None or (not found and "/" not in str(text)):
        assert (plain(text), []) == ([parse(text).value], found)


def test_whoever_reads_a_config_says_the_same():
    """Check, `Loader`, `__enter__`, `LoaderConfig` and `jsonschema`, of 6,000 configs.

    `tools/campaign configs` does it with as many as one likes.
    """
    part = configs.work(0, range(6_000))
    assert [] == part.failures
    # As many as one should think: neither all right nor all wrong, and hardly one twice.
    assert part.sums["right"] > 1_000
    assert part.sums["right"] > part.sums["entered"] > 750
    assert len(part.distinct) > 5_000


def forgetful(check):
    """A check that forgets the first of what is wrong."""
    return lambda *args: check(*args)[1:]


@pytest.mark.parametrize(
    ("place", "name", "planted", "seen"),
    [
        (package._check, "check", forgetful(package._check.check), AssertionError),
        (package._check, "wrong_together", lambda options, wrong: (), AssertionError),
        (package._check, "one_edit", lambda one, other: False, AssertionError),
        (package, "follow", lambda value, names: (tuple(names), value), TypeError),
    ],
    ids=["forgetful", "rules", "edits", "pointers"],
)
def test_a_reader_with_a_bug_is_seen(place, name, planted, seen, monkeypatch, tmp_path):
    """Within 5,000 configs somebody disagrees, or raises what nobody promised."""
    monkeypatch.setattr(place, name, planted)
    home = Home(tmp_path)

    def look_at_all():
        for number in range(5_000):
            home.look(case(0, number))

    with pytest.raises(seen):
        look_at_all()


def test_a_campaign_replays_one_config(capsys):
    assert 0 == configs.main(["--seed", "3", "--replay", "7"])
    assert capsys.readouterr().out.startswith("Case(data=b")
