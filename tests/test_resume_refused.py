"""What is no state of this run is refused with what differs, or with what to give instead."""

import json

import numpy as np
import pytest
from numbered import Numbers
from stopped import config, cut

from threadloader import ConfigError, Loader, StateError
from threadloader.state import _file


class Named(Numbers):
    """A source that says the same of itself, whatever it holds."""

    def fingerprint(self):
        return "always the same"


BASE = {"shuffle": False, "seed": 1}
ARRAY = np.arange(10)


def differing(source, options, sampler, state):
    """The fields for which a state is refused."""
    loader = Loader(config(**{**BASE, **options}), source, sampler=sampler, resume=state)
    with pytest.raises(StateError) as caught:
        loader.__enter__()
    for field in caught.value.fields:
        assert f"{field}: the state has " in str(caught.value)
    return caught.value.fields


@pytest.mark.parametrize(
    ("source", "options", "sampler", "fields"),
    [
        (ARRAY + 1, {}, None, ("source",)),
        (ARRAY.astype(float), {}, None, ("source",)),
        (ARRAY.tolist(), {}, None, ("source",)),
        (np.arange(11), {}, None, ("source", "samples")),
        (ARRAY, {"seed": 2}, None, ("seed",)),
        (ARRAY, {"shuffle": True}, None, ("shuffle",)),
        (ARRAY, {}, [3, 4], ("sampler",)),
        (ARRAY, {}, lambda epoch, n: [3], ("sampler",)),
        (ARRAY, {"sampler": {"type": "subset", "indices": [3]}}, None, ("sampler",)),
        (ARRAY[:9], {"seed": 2, "shuffle": True}, None, ("source", "samples", "seed", "shuffle")),
    ],
)
def test_a_state_of_another_run_is_refused_with_each_field_that_differs(
    source, options, sampler, fields
):
    assert fields == differing(source, options, sampler, cut(2, ARRAY, **BASE)[1])


WEIGHTED = {"type": "weighted", "weights": [1, 2, 3]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 0], [1, 2, 1]),
        ([1, 2, 0], [1, 2]),
        (WEIGHTED, {**WEIGHTED, "weights": [1, 2, 4]}),
        (WEIGHTED, {**WEIGHTED, "num_samples": 5}),
        (WEIGHTED, {**WEIGHTED, "type": "weighted_without_replacement"}),
        ({"type": "subset", "indices": [1]}, {"type": "subset", "indices": [1], "shuffle": True}),
    ],
)
def test_a_state_of_another_sampler_is_refused(one, other):
    def given(sampler):
        """As options of the config, or in code."""
        return ({"sampler": sampler}, None) if isinstance(sampler, dict) else ({}, sampler)

    options, sampler = given(one)
    with Loader(config(**BASE, **options), np.arange(3), sampler=sampler) as batches:
        state = batches.state_dict()
    assert ("sampler",) == differing(np.arange(3), *given(other), state)


def test_a_state_of_another_version_of_the_order_is_refused(monkeypatch):
    _, state = cut(2, np.arange(10), **BASE)
    monkeypatch.setattr("threadloader.loader._opening.VERSION", 2)
    assert ("order",) == differing(np.arange(10), {}, None, state)


def test_allow_overrides_the_fields_that_it_names_and_no_other():
    """Of three that differ, every choice is tried; all three together go on where the state is."""
    _, state = cut(2, np.arange(10), **BASE)
    fields = ("source", "samples", "seed")
    with Loader(config(seed=2), np.arange(12)) as batches:
        for chosen in range(7):
            allowed = [field for bit, field in enumerate(fields) if chosen >> bit & 1]
            with pytest.raises(StateError) as caught:
                batches.load_state_dict(state, allow=allowed)
            assert tuple(field for field in fields if field not in allowed) == caught.value.fields
            assert 0 == batches.state_dict()["world"]["position"]
        batches.load_state_dict(state, allow=fields)
        assert [4, 5] == next(iter(batches)).tolist()
        now = batches.state_dict()["run"]
    assert (12, 2) == (now["samples"], now["seed"])


@pytest.mark.parametrize(
    "allow",
    [("sauce",), ["source", "epoch"], "source", None, 5, [["seed"]], 10**5000],
    ids=lambda allow: type(allow).__name__,
)
def test_allow_refuses_what_names_no_field(allow):
    """A text, too: its letters are no fields. The message lists those that there are."""
    _, state = cut(2, np.arange(10))
    with Loader(config(), np.arange(10)) as batches:
        with pytest.raises(ConfigError, match=r'allow: expected .*"source", "samples", "seed"'):
            batches.load_state_dict(state, allow=allow)


def test_the_advice_of_a_refusal_can_be_followed():
    """It names what was allowed before as well: else one advice would lead to the other."""
    _, state = cut(2, Named(10))
    for allow in (("source",), ("samples",)):
        with Loader(config(), [*range(11)]) as batches:
            with pytest.raises(StateError) as caught:
                batches.load_state_dict(state, allow=allow)
            assert "allow=('source', 'samples',)" in str(caught.value)
            assert {"source", "samples"} - set(allow) == set(caught.value.fields)
            batches.load_state_dict(state, allow=("source", "samples"))


def test_a_state_behind_the_end_of_the_allowed_source_is_refused():
    _, state = cut(4, Named(10))
    with Loader(config(), Named(6)) as batches:
        with pytest.raises(StateError, match=r"world\.position: expected at most 6, .* got 8"):
            batches.load_state_dict(state, allow=("samples",))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: None, FileNotFoundError, "No such file|cannot find|not found"),
        (lambda path: path.mkdir(), OSError, "directory|denied"),
        (lambda path: path.write_bytes(b""), StateError, "damaged.*0 bytes"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), StateError, "damaged.*3 bytes"),
        (lambda path: path.write_bytes(b"not JSON"), StateError, "damaged.*8 bytes"),
        (lambda path: path.write_bytes(b"[" * 100_000), StateError, "damaged"),
        (lambda path: path.write_bytes(b"1" * 5000), StateError, "damaged"),
        (lambda path: path.write_bytes(b"null\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b"[]\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b"{}\n"), StateError, "damaged"),
        (lambda path: path.write_bytes(b'{\n "format": "x"\n}\n'), StateError, "what save"),
    ],
)
def test_a_path_to_resume_that_holds_no_state_is_an_error(tmp_path, make, error, message):
    """Never the beginning of a new run: not even where there is no file."""
    path = tmp_path / "run.state"
    make(path)
    with pytest.raises(error, match=message) as caught:
        Loader(config(), np.arange(4), resume=path).__enter__()
    assert "run.state" in str(caught.value)


def test_a_file_that_may_not_be_read_is_the_systems_error(tmp_path, monkeypatch):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(4)) as batches:
        batches.save(path)

    def refused(name):
        raise PermissionError(13, "Permission denied", str(name))

    monkeypatch.setattr(_file, "FileIO", refused)
    with pytest.raises(PermissionError, match=r"run\.state"):
        Loader(config(), np.arange(4), resume=path).__enter__()


def test_of_a_file_that_is_no_state_only_the_begin_is_read(tmp_path, monkeypatch):
    """It may be the weights of a model, and larger than the memory."""

    class Large(_file.FileIO):
        def readall(self):
            raise AssertionError("all of it is read")

    monkeypatch.setattr(_file, "FileIO", Large)
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(12345))
    with pytest.raises(StateError, match=r"weights\.bin: the state is damaged: .* got 12345 bytes"):
        Loader(config(), np.arange(4), resume=path).__enter__()


@pytest.mark.parametrize("indent", [None, 1])
def test_of_a_state_that_json_dump_wrote_the_error_says_what_to_give(tmp_path, indent):
    path = tmp_path / "run.json"
    with Loader(config(), np.arange(8)) as batches:
        next(iter(batches))
        path.write_text(json.dumps(batches.state_dict(), indent=indent))
    with pytest.raises(StateError, match=r"if json\.dump wrote it, give what json\.load reads"):
        Loader(config(), np.arange(8), resume=path).__enter__()
    with Loader(config(), np.arange(8), resume=json.loads(path.read_text())) as batches:
        assert batches.state_dict() == json.loads(path.read_text())


@pytest.mark.parametrize("cut", [0, 1, 20, 200, None])
def test_of_a_damaged_file_that_save_wrote_the_error_speaks_of_no_json_dump(tmp_path, cut):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(8)) as batches:
        batches.save(path)
    path.write_bytes(path.read_bytes().replace(b'"epoch": 0', b'"epoch": 1')[:cut])
    with pytest.raises(StateError, match="not; use an older one"):
        Loader(config(), np.arange(8), resume=path).__enter__()


@pytest.mark.parametrize("resume", [3, b"run.state", ["run.state"], True])
def test_what_is_neither_a_state_nor_a_path_is_refused(resume):
    with pytest.raises(ConfigError, match="resume: expected a state, or the path"):
        Loader(config(), np.arange(4), resume=resume)
