"""A loader with a cache gives the same batches as one without, only sooner."""

import os

import numpy as np
import pytest
from links import make_link

from threadloader import Loader, per_thread
from threadloader.errors import ConfigError
from threadloader.loader import _caching
from threadloader.sources import ArraySource

CACHES = [{"max_bytes": "1MiB"}, {"max_samples": 7}, {"folder": "kept"}]


def lines(folder, count=20):
    text = "".join(f"{'word ' * (i % 4)}{i}\n" for i in range(count))
    (folder / "lines.txt").write_text(text, encoding="utf-8")


def config(**options):
    source = {"type": "text", "path": "lines.txt"}
    return {"source": source, "collate": {"type": "pad"}, "batch_size": 3, "seed": 5, **options}


def steady(line):
    return np.frombuffer(line.encode(), np.uint8)


def random(line, rng):
    return steady(line) ^ rng.integers(0, 2, dtype=np.uint8)


def run(options, transform, epochs=3):
    with Loader(options, transform=transform) as batches:
        given = [
            (x.shape, x.tobytes(), mask.tobytes())
            for epoch in batches.epochs(epochs)
            for x, mask in epoch
        ]
        return given, batches.stats()


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path)


@pytest.mark.parametrize("cache", CACHES, ids=str)
@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("transform", [steady, random])
def test_the_batches_are_the_same(cache, workers, transform):
    """Also those of a random transform, which is done to what the cache gives out."""
    expected, _ = run(config(num_workers=workers), transform)
    found, stats = run(config(num_workers=workers, cache=cache), transform)
    assert expected == found
    assert 60 == stats.cache_hits + stats.cache_misses
    assert min(cache.get("max_samples", 20), 20) == stats.cache_samples


def test_the_next_run_prepares_nothing():
    prepared = []

    class Encode:
        def fingerprint(self):
            return "1"

        def __call__(self, line):
            prepared.append(line)
            return steady(line)

    for _ in range(2):
        _, stats = run(config(cache={"folder": "kept"}), Encode(), 1)
        assert 20 == len(prepared)
    assert (20, 0) == (stats.cache_hits, stats.cache_misses)


def test_what_many_makes_is_not_kept():
    """It is made in every epoch: it may depend on key and position, and nothing says so."""
    made = []

    class Twice:
        def __call__(self, row):
            return row * 2

        def many(self, rows, key, positions):
            made.extend(rows)
            return [row * 2 for row in rows]

    options = {"cache": {"max_samples": 9}, "batch_size": 3, "num_workers": 0}
    with Loader(options, np.arange(9), transform=Twice()) as batches:
        for epoch in batches.epochs(2):
            for _ in epoch:
                pass
        assert 9 == batches.stats().cache_hits
    assert 18 == len(made)


@pytest.mark.parametrize("changed", ["time", "option", "transform"])
def test_a_change_begins_anew(changed):
    run(config(cache={"folder": "kept"}), steady, 1)
    options, transform = config(cache={"folder": "kept"}), steady
    if changed == "time":
        os.utime("lines.txt", ns=(0, 0))
    elif changed == "option":
        options["source"]["skip_blank"] = True
    else:

        def transform(line):
            return steady(line.upper())

    expected, _ = run({**options, "cache": None}, transform, 1)
    found, stats = run(options, transform, 1)
    assert expected == found
    assert 0 == stats.cache_hits


def test_a_whole_batch_does_not_go_round_the_cache():
    with Loader({"cache": {"max_samples": 9}, "batch_size": 3}, np.arange(9)) as batches:
        assert [0, 1, 2, 3, 4, 5, 6, 7, 8] == sorted(np.concatenate(list(batches)).tolist())
        assert 9 == batches.stats().cache_samples


def test_samples_of_a_list_cannot_be_kept_for_the_next_run():
    """Nothing tells them from others."""
    with pytest.raises(ConfigError, match="/cache/folder: expected a source that says"):
        Loader({"cache": {"folder": "kept"}}, [1, 2]).__enter__()


class Doubled(ArraySource):
    """Has samples of its own, of which its base class knows nothing."""

    def __getitem__(self, index):
        return 2 * super().__getitem__(index)


def test_what_a_class_makes_of_arrays_is_kept_if_the_class_says_what_it_is():
    """The fingerprint of its base class is of the arrays, and of 64 rows of them."""
    rows = np.arange(600.0).reshape(300, 2)
    expected = "got Doubled without a fingerprint\\(\\) of its own; write a method"
    with pytest.raises(ConfigError, match=expected):
        kept(Doubled(rows))
    said = type("Said", (Doubled,), {"fingerprint": lambda self: "twice"})
    assert [0, 300] == [kept(said(rows))[1] for _ in range(2)]


def test_a_list_beside_a_source_in_the_config_cannot_be_kept_either():
    """It is not what the config names, whose options and files say nothing of it."""
    with pytest.raises(ConfigError, match="/cache/folder: expected a source that says"):
        Loader(config(cache={"folder": "kept"}), ["a", "b"]).__enter__()


def test_a_source_of_the_config_that_is_not_used_need_not_be_there():
    """A source in code takes its place; nothing looks for its files."""

    class Said(list):
        def fingerprint(self):
            return "1"

    options = config(cache={"folder": "kept"})
    options["source"]["path"] = "none*.txt"
    for before in (0, 2):
        with Loader(options, Said(["a", "b"]), transform=steady) as batches:
            assert before == batches.stats().cache_samples
            assert 1 == len(list(batches))


def kept(source):
    """Gives the samples of a source in code, in order, and how many of them were kept before."""
    options = {"cache": {"folder": "kept"}, "batch_size": 1, "shuffle": False}
    with Loader(options, source, collate=lambda samples: samples[0]) as batches:
        before = batches.stats().cache_samples
        return list(batches), before


SHAPES = {
    "array": lambda x, y: x,
    "tuple": lambda x, y: (y, x),
    "dict": lambda x, y: {"y": y, 3: x},
    "by columns": lambda x, y: np.asfortranarray(x),
    "for each thread": lambda x, y: per_thread(lambda: x),
    "a class of mine": lambda x, y: Mine({"x": x}),
}


class Mine(ArraySource):
    """Has a length for its samples."""

    def __len__(self):
        return super().__len__() - 1


@pytest.mark.parametrize("shape", SHAPES)
def test_every_value_of_an_array_in_code_counts(shape):
    """Also those between the rows that its fingerprint reads: nothing old is given out."""
    x, y = np.arange(600.0).reshape(300, 2), np.arange(300)
    _, before = kept(SHAPES[shape](x, y))
    assert 0 == before
    samples, before = kept(SHAPES[shape](x.copy(), y))
    assert len(samples) == before
    changed = x.copy()
    changed[1, 1] = -1
    samples, before = kept(SHAPES[shape](changed, y))
    assert 0 == before
    sample = samples[1]
    if shape in ("tuple", "dict"):
        sample = sample[1 if shape == "tuple" else 3]
    assert [2.0, -1.0] == (sample["x"] if isinstance(sample, dict) else sample).tolist()


@pytest.mark.parametrize("at_once", [1, 100, 1 << 20])
def test_an_array_is_summed_up_in_pieces(at_once, monkeypatch):
    monkeypatch.setattr(_caching, "_BYTES_AT_ONCE", at_once)
    rows = np.zeros((50, 3))
    assert [0, 50] == [kept(rows)[1] for _ in range(2)]
    rows[-1, -1] = 1
    assert 0 == kept(rows)[1]


def test_arrays_of_another_byte_order_or_of_nothing_are_others():
    """The samples have the byte order, though the values are the same."""
    order = [np.zeros(3, dtype) for dtype in ("<i4", ">i4")]
    for rows in (*order, np.zeros((3, 0)), np.zeros((3, 0, 2)), np.zeros((3, 0), "f4")):
        samples, before = kept(rows)
        assert 0 == before
        assert [(rows.dtype, rows.shape[1:])] * 3 == [(it.dtype, it.shape) for it in samples]
    assert ([], 0) == kept(np.zeros((0, 4)))


def test_a_root_that_is_made_with_the_folder_need_not_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with Loader({"root": "run", "cache": {"folder": "run/kept"}}, np.arange(40)) as batches:
            assert 40 == sum(map(len, batches))
    assert (tmp_path / "run" / "kept").is_dir()


def test_the_folder_may_not_leave_the_root(tmp_path):
    with pytest.raises(
        ConfigError, match='/cache/folder: expected a path inside the folder "root"'
    ):
        Loader(config(root=".", cache={"folder": "../kept"})).__enter__()


def test_the_folder_may_not_leave_the_root_by_a_link(tmp_path):
    inside = tmp_path / "inside"
    (tmp_path / "outside").mkdir()
    inside.mkdir()
    make_link(link := inside / "kept", tmp_path / "outside")
    with pytest.raises(ConfigError) as caught:
        Loader({"root": str(inside), "cache": {"folder": str(link)}}, np.arange(4)).__enter__()
    real = os.path.realpath(tmp_path / "outside")
    assert [f"{link}, which is {real}"] == [it.got for it in caught.value.problems]


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ({"max_bytes": "2 apples"}, "/cache/max_bytes: expected a number of bytes from 1"),
        ({"max_samples": None}, "/cache: expected a max_bytes, a max_samples or a folder"),
        ({"folder": "a", "max_samples": 3}, "/cache/max_samples: expected null or nothing"),
        ({"max_size": 3}, "/cache/max_size: expected a known key"),
    ],
)
def test_options_that_make_no_cache_are_refused(cache, message):
    with pytest.raises(ConfigError, match=message):
        Loader(config(cache=cache))


class Narrow(list):
    """Gives by `[]` other dtypes than by several at once, as datasets of Hugging Face do."""

    def __getitem__(self, index):
        return np.float64(super().__getitem__(index))

    def __getitems__(self, indices):
        return [np.float32(self[index]) for index in indices]


@pytest.mark.parametrize("options", [{}, {"cache": {"max_samples": 9}}, {"on_error": {"skip": 1}}])
def test_samples_are_read_by_the_same_method_with_a_cache_and_without(options):
    with Loader({"num_workers": 0, **options}, Narrow(range(4))) as batches:
        made = [batch for epoch in batches.epochs(2) for batch in epoch]
    assert [np.float32] * 2 == [batch.dtype for batch in made]
