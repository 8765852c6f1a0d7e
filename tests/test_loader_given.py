"""What a loader is given, in code or in a config, is used as it is, or refused with its place."""

import json
import sys

import numpy as np
import pytest
from numbered import WORKERS, Numbers, lists, load

from threadloader import CollateError, ConfigError, Loader, SourceError, per_thread


def test_arrays_are_batched_as_wholes():
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    y = np.arange(10, dtype=np.uint8)
    with load({"x": x, "y": y}, batch_size=4) as batches:
        first = next(iter(batches))
    assert (np.float32, np.uint8) == (first["x"].dtype, first["y"].dtype)
    assert np.array_equal(x[:4], first["x"])
    assert np.array_equal(y[:4], first["y"])
    first["x"][:] = -1
    assert 0 == x[0, 0]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_transform_sees_samples_and_its_batches_are_collated(workers):
    x = np.arange(6)
    with load(x, transform=lambda i: {"square": i * i}, num_workers=workers) as batches:
        assert [0, 1, 4, 9, 16, 25] == next(iter(batches))["square"].tolist()


@pytest.mark.parametrize("workers", WORKERS)
def test_a_source_that_reads_many_at_once_is_asked_once_a_batch(workers):
    asked = []

    class Many(Numbers):
        def __getitems__(self, indices):
            asked.append(list(indices))
            return [index * 10 for index in indices]

    with load(Many(5), batch_size=2, num_workers=workers, num_epochs=1) as batches:
        assert [[0, 10], [20, 30], [40]] == lists(batches)
    assert [[0, 1], [2, 3], [4]] == sorted(asked)
    assert all(type(index) is int for part in asked for index in part)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_transform_that_fails_behind_a_read_of_many_is_told_by_its_sample(workers):
    class Many(Numbers):
        def __getitems__(self, indices):
            return list(indices)

    def transform(sample):
        return 1 // (sample - 2)

    with load(Many(4), transform=transform, num_workers=workers) as batches:
        with pytest.raises(ZeroDivisionError) as caught:
            next(iter(batches))
    assert ["threadloader: raised for sample 2 (row 2 of step 0, epoch 0)"] == (
        caught.value.__notes__
    )


def test_a_source_that_gives_another_number_of_samples_is_found_out():
    class Short(Numbers):
        def __getitems__(self, indices):
            return [0]

    with (
        load(Short(4)) as batches,
        pytest.raises(CollateError, match="expected 4 samples, got 1"),
    ):
        next(iter(batches))


@pytest.mark.parametrize("workers", WORKERS)
def test_a_source_may_use_up_the_indices_that_it_is_asked_for(workers):
    class Many(Numbers):
        def __getitems__(self, indices):
            return [indices.pop(0) for _ in range(len(indices))]

    with load(Many(5), batch_size=2, num_workers=workers, num_epochs=1) as batches:
        assert [[0, 1], [2, 3], [4]] == lists(batches)


def test_a_source_is_asked_with_python_integers():
    kinds = set()

    class Kinds(Numbers):
        def __getitem__(self, index):
            kinds.add(type(index))
            return index

    with Loader({}, Kinds(5)) as batches:
        lists(batches)
    assert {int} == kinds


@pytest.mark.parametrize("workers", WORKERS)
def test_a_transform_draws_the_same_at_any_number_of_workers(workers):
    """Seeds, epochs and positions decide; also behind a resume."""

    def noisy(sample, rng):
        return (sample, rng.integers(2**63, dtype=np.int64))

    def run(workers, skip):
        with Loader({"batch_size": 3, "num_workers": workers}, Numbers(10), transform=noisy) as b:
            if skip is not None:
                b.load_state_dict(skip)
            got = []
            state = None
            for _ in range(2):
                for number, batch in enumerate(b):
                    got.append(batch[1].tolist())
                    if number == 1 and state is None:
                        state = b.state_dict()
            return got, state

    expected, state = run(0, None)
    got, _ = run(workers, None)
    assert expected == got
    assert expected[2:] == run(workers, state)[0][: len(expected) - 2]
    assert 20 == len({draw for batch in expected for draw in batch})


@pytest.mark.parametrize("wrong", [5, {1: 2}, (i for i in "ab"), np.zeros(())])
def test_what_cannot_be_a_source_is_refused_on_entering(wrong):
    with pytest.raises(ConfigError, match="source"), load(wrong):
        pass


@pytest.mark.parametrize(
    ("argument", "value"), [("transform", 5), ("collate", "stack"), ("shard", {"index": 3})]
)
def test_wrong_arguments_are_refused_by_name(argument, value):
    with pytest.raises(ConfigError, match=argument):
        Loader({}, Numbers(3), **{argument: value})


def test_the_shard_comes_from_the_launcher(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with load(Numbers(4), batch_size=1, shard="auto") as batches:
        assert [[1], [3]] == lists(batches)


def test_what_is_given_in_code_takes_the_place_of_the_config(tmp_path):
    file = tmp_path / "train.json"
    file.write_text('{"source": {"type": "npz", "path": "none.npz"}, "shuffle": false}')
    with Loader(file, np.arange(3), collate=tuple) as batches:
        assert [(0, 1, 2)] == list(batches)
    with pytest.raises(SourceError, match=r"none\.npz"), Loader(file):
        pass


def test_a_config_that_changes_afterwards_changes_nothing():
    config = {"batch_size": 2, "shuffle": False, "collate": {"type": "stack"}}
    loader = Loader(config, Numbers(4))
    config["batch_size"] = 1
    config["collate"]["type"] = "pad"
    with loader as batches:
        assert [[0, 1], [2, 3]] == lists(batches)


def test_what_is_done_to_the_config_that_it_gives_changes_nothing():
    loader = load(Numbers(4), batch_size=2)
    loader.config.shard.update(index=1, count=2)
    loader.config.collate["type"] = "pad"
    with loader as batches:
        assert [[0, 1], [2, 3]] == lists(batches)


def written(tmp_path, text):
    """Writes a config beside a file of five samples; gives its path."""
    np.savez(tmp_path / "data.npz", x=np.arange(5))
    path = tmp_path / "train.json"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "option",
    ['"exclude": [77]', '"sampler": {"type": "subset", "indices": [5]}', '"exclude": "none.txt"'],
    ids=["list", "subset", "file"],
)
def test_what_is_wrong_at_the_source_is_told_with_its_place_in_the_file(option, tmp_path):
    source = '"source": {"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{"lr": 1, "training": {{{source},\n{option}}}}}')
    name = option.split('"')[1]
    with pytest.raises(ConfigError) as caught, Loader(f"{file}#/training"):
        pass
    (problem,) = caught.value.problems
    assert (file, 2) == (caught.value.file, problem.line)
    assert problem.pointer.startswith(f"/training/{name}")


def test_what_is_wrong_with_a_transform_is_told_with_its_place_in_the_file(tmp_path):
    transform = '{"type": "mlm", "vocabulary": 9,\n"mask_token": 9}'
    source = '{"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{"source": {source}, "transform": {transform}}}')
    with pytest.raises(ConfigError, match=r"train\.json:2:15: /transform/mask_token: expected"):
        Loader(file)


def test_what_is_given_in_code_has_no_place_in_the_file(tmp_path):
    file = written(tmp_path, '{"source": {"type": "npz", "path": "data.npz"}, "batch_size": 2}')
    with pytest.raises(ConfigError) as caught, Loader(file, sampler=[7]):
        pass
    assert [0] == [problem.line for problem in caught.value.problems]


def test_a_shard_that_is_given_in_code_has_no_place_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = '"source": {"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{{source}, "shard": "auto"}}')
    for shard, line in (None, 1), ("auto", 0):
        with pytest.raises(ConfigError) as caught, Loader(file, shard=shard):
            pass
        assert [("/shard", line)] == [(it.pointer, it.line) for it in caught.value.problems]
        assert str(caught.value).startswith(f"{file}:1:" if line else "/shard: ")


def test_of_several_problems_those_that_stand_in_the_file_are_told_with_its_name(tmp_path):
    file = written(tmp_path, '{"exclude": [99]}')
    with pytest.raises(ConfigError) as caught, Loader(file, range(5), sampler=[7]):
        pass
    told = sorted(line.partition(" expected")[0] for line in str(caught.value).splitlines())
    assert sorted([f"{file}:1:13: /exclude:", "sampler:"]) == told


@pytest.mark.parametrize("per", [lambda make: make(), per_thread], ids=["one", "per thread"])
def test_an_error_of_the_code_that_counts_the_samples_passes_as_it_is(per):
    class Source(list):
        def __len__(self):
            raise ValueError("cannot open the database")

    with pytest.raises(ValueError, match=r"^cannot open the database$"):
        Loader({}, per(Source)).__enter__()


def test_an_error_of_a_factory_passes_as_it_is():
    def factory():
        raise ValueError("cannot open the database")

    with pytest.raises(ValueError, match=r"^cannot open the database$"):
        Loader({}, per_thread(factory)).__enter__()


# Of a class whose `take` is another one, the loader uses the rest, through something around it.
@pytest.mark.parametrize("more", [{}, {"take": lambda self, n: None}], ids=["plain", "wrapped"])
@pytest.mark.parametrize("per", [lambda make: make(), per_thread], ids=["one", "per thread"])
@pytest.mark.parametrize("length", [-1, 2**62 + 1, 2**63 - 1, 2**70, 1.5, "3", None])
def test_a_length_that_is_none_is_told(per, length, more):
    has = {"__len__": lambda self: length, "__getitem__": lambda self, i: i, **more}
    kind = type("Source", (), has)
    with pytest.raises(SourceError) as caught:
        Loader({}, per(kind)).__enter__()
    most = min(2**62, sys.maxsize)
    expected = f"expected a source whose len() is an integer from 0 to {most}, got: "
    assert expected == str(caught.value)[: len(expected)]


def test_an_object_is_asked_for_nothing_that_a_source_need_not_have():
    """What it has by names of its own is its own affair, and may raise."""

    class Remote(Numbers):
        @property
        def source(self):
            raise RuntimeError("not connected yet")

    with load(Remote(4), batch_size=2) as batches:
        assert 2 == len(list(batches))


def test_a_class_need_not_say_its_name():
    class Meta(type):
        @property
        def __name__(cls):
            raise RuntimeError("no name")

    class Nameless(Numbers, metaclass=Meta):
        pass

    with load(Nameless(4), batch_size=2) as batches:
        assert 2 == len(list(batches))
    with pytest.raises(ConfigError, match=r"got the class \S*Nameless; give an object of it"):
        load(Nameless).__enter__()


def test_an_option_that_is_set_on_a_loader_is_refused():
    """It would be an attribute that nobody looks at."""

    class Own(Loader):
        pass

    loader = Own({"batch_size": 2}, Numbers(4))
    told = "a Loader does not change; write for another one: "
    replaced, anew = "loader.replace({}=...)", "Loader(..., {}=...)"
    ways = {
        replaced: ("batch_size", "num_workers", "cache"),
        f"{replaced} or {anew}": ("source", "transform", "collate", "sampler", "shard"),
        anew: ("resume", "skip_steps", "unknown"),
    }
    for way, names in ways.items():
        for name in names:
            with pytest.raises(AttributeError) as caught:
                setattr(loader, name, None)
            assert told + way.format(name, name) == str(caught.value)
            assert (name, loader) == (caught.value.name, caught.value.obj)
    with loader.replace(batch_size=4) as batches:
        assert 1 == len(batches)
    loader.name = "what a subclass or its user wants to know"
    assert loader.name.startswith("what")


def test_options_are_replaced_and_all_else_stays(tmp_path, monkeypatch):
    """Relative paths start at the config's folder still, where the current one has such files."""
    for folder, first in (("there", 0), ("here", 100)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "d.npz", x=np.arange(first, first + 4))
    file = tmp_path / "there" / "train.json"
    spec = {"source": {"type": "npz", "path": "d.npz"}, "root": ".", "shuffle": False}
    file.write_text(json.dumps(spec))
    monkeypatch.chdir(tmp_path / "here")
    given = {"transform": lambda sample: sample["x"] * 2, "sampler": [3, 1, 0]}
    loader = Loader(file, **given, shard={"index": 1, "count": 2}, skip_steps=1)
    with loader.replace(batch_size=1, num_workers=0) as batches:
        assert [[6]] == lists(batches)
    with loader.replace(batch_size=1, shard={"index": 0, "count": 2}) as batches:
        assert [[0]] == lists(batches)
    assert (32, 2) == (loader.config.batch_size, loader.config.num_workers)
    with pytest.raises(ConfigError, match="/batch_size"):
        loader.replace(batch_size=0)
