"""A state says where a run stands, and is refused when it is damaged or another run's."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader.errors import StateError
from threadloader.state import NOTHING, Cursor, Excluded, dump, load
from threadloader.state._state import checksum

RUN = {"source": "x", "seed": 2**64 - 1, "shuffle": True, "order": 1}
WORLD = {"batch_size": 4, "shard_count": 2}
counts = st.integers(0, 2**62)
skips = st.lists(st.tuples(counts, counts, st.integers(0, 2**124)), max_size=3).map(tuple)
hashes = st.just("") | st.binary(min_size=16, max_size=16).map(bytes.hex)
cursors = st.builds(Cursor, counts, counts, counts, counts, counts, skips, hashes, counts)
lists = st.sampled_from([NOTHING, Excluded.of("3 7-9")])


@given(cursor=cursors, excluded=lists)
def test_what_is_dumped_is_loaded_through_json(cursor, excluded):
    state = json.loads(json.dumps(dump(cursor, RUN, WORLD, 1, excluded), allow_nan=False))
    assert (cursor, excluded) == load(state, RUN, WORLD, 1)


def test_the_world_part_is_the_same_on_every_shard():
    one = dump(Cursor(1, 8, 1, 5, 20), RUN, WORLD, 0)
    other = dump(Cursor(1, 8, 1, 5, 17), RUN, WORLD, 1)
    assert (one["run"], one["world"]) == (other["run"], other["world"])
    assert one["shard"] != other["shard"]


@pytest.mark.parametrize(
    "world", [{"batch_size": 5, "shard_count": 2}, {"batch_size": 4, "shard_count": 3}]
)
def test_another_world_goes_on_from_the_position_and_counts_steps_from_the_cut(world):
    state = dump(Cursor(3, 16, 2, 9, 30), RUN, WORLD, 0)
    assert Cursor(3, 16, 0, 0, 0) == load(state, RUN, world, 0)[0]


def test_another_shard_of_the_same_world_goes_on_without_the_counts_of_the_first():
    state = dump(Cursor(3, 16, 2, 9, 30), RUN, WORLD, 0)
    assert Cursor(3, 16, 2, 0, 0) == load(state, RUN, WORLD, 1)[0]


@pytest.mark.parametrize(
    ("field", "value"), [("source", "y"), ("seed", 0), ("shuffle", False), ("order", 2)]
)
def test_a_state_of_another_run_is_refused_by_the_field_that_differs(field, value):
    state = dump(Cursor(), {**RUN, field: value}, WORLD, 0)
    with pytest.raises(StateError, match=f"{field}: the state has {json.dumps(value)}") as caught:
        load(state, RUN, WORLD, 0)
    assert (field,) == caught.value.fields


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("seed", True, "seed: the state has true, this run 1;"),
        ("seed", 1.0, "seed: the state has 1.0, this run 1;"),
        ("shuffle", 1, "shuffle: the state has 1, this run true;"),
        ("sampler", ..., "sampler: the state has nothing, this run null;"),
        ("more", None, "more: the state has null, this run nothing;"),
    ],
)
def test_a_value_that_only_python_takes_for_the_same_is_another(field, value, told):
    run = {"source": "x", "seed": 1, "shuffle": True, "sampler": None}
    saved = {**run, field: value}
    if value is ...:
        del saved[field]
    with pytest.raises(StateError, match=told) as caught:
        load(dump(Cursor(), saved, WORLD, 0), run, WORLD, 0)
    assert (field,) == caught.value.fields


def test_of_a_long_field_the_beginning_is_told():
    """A source's fingerprint may be as long as it likes."""
    state = dump(Cursor(), {**RUN, "source": "x" * 10**6}, WORLD, 0)
    with pytest.raises(StateError, match="x" * 400) as caught:
        load(state, {**RUN, "source": "y" * 10**6}, WORLD, 0)
    assert len(str(caught.value)) < 2000


def test_every_differing_field_is_named():
    state = dump(Cursor(), {"source": "y", "seed": 1, "shuffle": True, "order": 1}, WORLD, 0)
    with pytest.raises(StateError) as caught:
        load(state, RUN, WORLD, 0)
    assert ("source", "seed") == caught.value.fields


def test_a_newer_version_is_refused_as_such():
    with pytest.raises(StateError, match="expected version 1, got 2"):
        load({**dump(Cursor(), RUN, WORLD, 0), "version": 2}, RUN, WORLD, 0)


COUNT = f"an integer from 0 to {2**63 - 1}"
SIZE = f"an integer from 1 to {2**63 - 1}"


def walk(value, path=()):
    """Lists the places of all leaves."""
    if isinstance(value, dict):
        return [place for name, item in value.items() for place in walk(item, (*path, name))]
    return [path]


STATE = dump(Cursor(1, 8, 2, 5, 20, ((0, 3, 2),), "f0" * 16), RUN, WORLD, 0, Excluded.of("4-6"))


@pytest.mark.parametrize("path", walk(STATE), ids=".".join)
@given(
    value=st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.just({}), st.just([]))
)
def test_any_changed_value_is_refused(path, value):
    """Whatever stands in the place of any leaf, the state is refused and never read as empty."""
    state = json.loads(json.dumps(STATE))
    *outer, last = path
    place = state
    for name in outer:
        place = place[name]
    if place[last] == value and type(place[last]) is type(value):
        return
    place[last] = value
    with pytest.raises(StateError):
        load(state, RUN, WORLD, 0)


@pytest.mark.parametrize("path", walk(STATE), ids=".".join)
def test_any_missing_value_is_refused(path):
    state = json.loads(json.dumps(STATE))
    place = state
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    with pytest.raises(StateError):
        load(state, RUN, WORLD, 0)


@pytest.mark.parametrize(
    ("section", "value", "told"),
    [
        ("world", [8], "world: expected an object, got"),
        ("world", {**STATE["world"], "step": -1}, f"world.step: expected {COUNT}, got -1"),
        ("world", {**STATE["world"], "skips": [[1, 2]]}, "world.skips: expected a list of"),
        ("shard", {**STATE["shard"], "samples": True}, f"shard.samples: expected {COUNT}, got T"),
        *(
            (section, {**STATE[section], name: value}, f"{section}.{name}: expected {expected}")
            for section, name, value, expected in (
                ("world", "epoch", 2**62 + 1, f"an integer from 0 to {2**62}, got {2**62 + 1}"),
                ("world", "position", 2**63, f"{COUNT}, got {2**63}"),
                ("world", "batch_size", 0, f"{SIZE}, got 0"),
                ("world", "batch_size", 2**63, f"{SIZE}, got {2**63}"),
                ("world", "shard_count", 0, f"{SIZE}, got 0"),
                ("world", "skips", [[2**62 + 1, 0, 1]], f"epochs up to {2**62} and steps up to"),
                ("world", "skips", [[0, 2**63, 1]], f"epochs up to {2**62} and steps up to"),
                ("shard", "batches", 2**63, f"{COUNT}, got {2**63}"),
                ("shard", "skipped", 2**63, f"{COUNT}, got {2**63}"),
            )
        ),
        *(
            (
                "shard",
                {**STATE["shard"], "fingerprint": value},
                f'shard.fingerprint: expected 32 hexadecimal digits or "", got {value!r}',
            )
            for value in (None, 5, "None", "f" * 31, "F" * 32, "f" * 32 + "\n", "é" * 32)
        ),
        ("run", [], "run: expected an object, got"),
    ],
)
def test_values_of_another_kind_are_refused_under_a_fitting_checksum(section, value, told):
    state = {**STATE, section: value}
    state["checksum"] = checksum(state, Excluded.of(state["exclude"]))
    with pytest.raises(StateError, match=re.escape(told)):
        load(state, RUN, WORLD, 0)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("state", "got"),
    [
        ({}, "an object without it"),
        ({"format": None}, "None"),
        ({"format": "x"}, "'x'"),
        ([], "'list'"),
    ],
)
def test_what_is_no_state_is_told_by_what_it_is(state, got):
    """That it has no format is not that its format is None."""
    with pytest.raises(StateError, match=f'an object with "format": "[^"]+", got {got}; pass'):
        load(state, RUN, WORLD, 0)


@pytest.mark.parametrize("field", ["format", "version", "checksum"])
@pytest.mark.parametrize("value", [10**5000, nested(10**5)], ids=["huge", "deep"])
def test_what_cannot_be_printed_is_told_by_its_type(field, value):
    with pytest.raises(StateError, match=f"got a value of type {type(value).__name__}"):
        load({**STATE, field: value}, RUN, WORLD, 0)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x"])
def test_what_json_does_not_write_is_refused_as_damaged(value):
    with pytest.raises(StateError, match="checksum: expected plain JSON values"):
        load({**STATE, "run": value}, RUN, WORLD, 0)


@given(
    state=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_anything_else_is_refused(state):
    with pytest.raises(StateError):
        load(state, RUN, WORLD, 0)


def test_nothing_excluded_has_the_checksum_of_an_empty_text():
    assert Excluded.of("") == NOTHING


def test_what_another_format_has_made_of_a_state_is_told_how_to_keep_it():
    state = dump(Cursor(), RUN, WORLD, 0)
    turned = {**state["world"], "skips": tuple(state["world"]["skips"])}
    inner = {**state["world"], "step": np.int64(0)}
    for other in (
        *({"version": np.int64(1)}, {"version": np.array(1)}, {"version": 1.0}),
        *({"world": turned}, {"world": inner}),
    ):
        with pytest.raises(StateError, match=r"; keep json\.dumps\(state\) instead\Z"):
            load({**state, **other}, RUN, WORLD, 0)
    with pytest.raises(StateError, match=r"; use an older one, or begin the run anew\Z"):
        load({**state, "version": None}, RUN, WORLD, 0)
