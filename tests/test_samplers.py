"""Each kind of sampler gives what it says, under a name of its own, the same for ever."""

import numpy as np
import pytest
from draws import fits
from made_samplers import GOLDENS, kept_of, made, told, whole
from scores import counted

from threadloader import ConfigError
from threadloader import samplers as room
from threadloader.samplers import checked
from threadloader.samplers._classes import classes


class TestBalanced:
    @pytest.mark.parametrize(
        "labels",
        [
            [0, 1, 1, 2, 2, 2, 2],
            ["b", "a", "b", "b", "c", "b", "b"],
            [True, False, True, True, True, True, True],
            np.array([-(2**63), 5, 5, 2**63 - 1, 5, 5, 5]),
            np.array(["x", "y", "y", "x", "y", "zz", "y"]),
            np.array([7, 7, 7, 7, 7, 7, 7], np.uint64),
            [np.int8(1), 0, np.uint64(1), np.array(0), 2, 2, 2],
        ],
        ids=str,
    )
    def test_classes_come_equally_often_and_their_samples_likewise(self, labels):
        spec = {"type": "balanced", "labels": labels, "num_samples": 60_000}
        counts = counted(whole(made(spec, 7, seed=5)), 7)
        plain = [str(label) for label in labels]
        expected = [1 / plain.count(label) for label in plain]
        assert fits(counts, expected)

    def test_a_class_that_is_left_with_nothing_is_none(self):
        spec = {"type": "balanced", "labels": [0, 1, 1, 2, 2], "num_samples": 30_000}
        counts = counted(whole(made(spec, 5, excluded=[0, 4])), 5)
        assert [0, 0] == counts[[0, 4]].tolist()
        assert fits(counts[1:4], [1, 1, 2])

    @pytest.mark.parametrize(
        ("labels", "expected", "got"),
        [
            ([1, "1", 1], "integers alone, as the first label is", "'1' of sample 1"),
            ([1, 2, True], "integers alone, as the first label is", "True of sample 2"),
            ([False, 0, 1], "bools alone, as the first label is", "0 of sample 1"),
            ([0.0, 1.0, 2.0], "integers, texts or bools", "0.0 of sample 0"),
            (["a", None, "b"], "texts alone, as the first label is", "None of sample 1"),
            ([[1], [2], [3]], "integers, texts or bools", "[1] of sample 0"),
            (3, "an array or a list of labels", "3"),
            ([1, 2], "a label for each of the 3 samples", "2 of them"),
            (
                np.array([0.5, 1.0, 2.0]),
                "an integer, text or bool for each of the 3 samples",
                "float64 of shape (3,)",
            ),
            (
                np.array([[0], [1], [2]], np.int64),
                "an integer, text or bool for each of the 3 samples",
                "int64 of shape (3, 1)",
            ),
        ],
        ids=str,
    )
    def test_labels_of_two_kinds_or_of_none_are_refused(self, labels, expected, got):
        """numpy would make one kind of them."""
        with pytest.raises(ConfigError) as caught:
            made({"type": "balanced", "labels": labels}, 3)
        assert ("/sampler/labels", expected, got) == told(caught)
        with pytest.raises(ConfigError) as caught:
            made({"type": "balanced", "labels": labels, "field": "y"}, 3)
        assert "/sampler/field" == told(caught)[0]

    def test_a_label_that_cannot_be_written_is_refused_as_any_other(self):
        spec = {"type": "balanced", "labels": ["a", 10**5000, "b"]}
        with pytest.raises(ConfigError, match="got a value of type int of sample 1"):
            made(spec, 3)

    def test_labels_that_numpy_takes_for_equal_are_two_classes(self):
        """Texts that differ in a zero character at the end; a long one costs its length once."""
        spec = {"type": "balanced", "labels": ["a", "a\0", "b" * 10**7]}
        assert made(spec, 3).name.startswith("balanced, 3 classes, ")

    @pytest.mark.parametrize("n", [0, 3])
    def test_no_sample_at_all_is_an_error(self, n):
        with pytest.raises(ConfigError, match="/sampler/labels: expected a sample that is kept"):
            made({"type": "balanced", "labels": list(range(n))}, n, excluded=range(n))


class TestName:
    """What goes into the state tells one sampler from another, and nothing else."""

    def test_samplers_that_differ_have_different_names(self):
        specs = [
            {"type": kind, option: values, **more}
            for kind, option in (
                ("weighted", "weights"),
                ("weighted_without_replacement", "weights"),
                ("balanced", "labels"),
                ("subset", "indices"),
            )
            for values in ([0, 1, 2, 1], [0, 1, 2, 2], [0, 2, 1, 1])
            for more in ({}, {"num_samples": 2}, {"num_samples": 3}, {"shuffle": True})
            if (kind == "subset") == ("shuffle" in more) or not more
        ]
        # Three lists with two or three variants of each of four kinds.
        names = {made(spec, 4).name for spec in specs}
        assert 3 * (3 + 3 + 3 + 2) == len(specs) == len(names)

    @pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced"])
    def test_it_does_not_depend_on_what_is_excluded(self, kind):
        """Which may change while a run goes on."""
        values = [1, 2, 0, 3, 3]
        spec = {"type": kind, "weights": values, "labels": values}
        names = {made(spec, 5, excluded=gone).name for gone in ([], [0], [3, 4], [1, 2])}
        assert 1 == len(names)


SPECS = [
    {"type": "weighted", "weights": [1, 0, 2, 3, 0.5, 4], "num_samples": 40},
    {"type": "weighted_without_replacement", "weights": [1, 0, 2, 3, 0.5, 4]},
    {"type": "balanced", "labels": [0, 1, 1, 2, 1, 1], "num_samples": 40},
    {"type": "subset", "indices": [5, 3, 3, 0, 3]},
    {"type": "subset", "indices": [5, 3, 3, 0, 3], "shuffle": True},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("excluded", [[], [3], [0, 5]], ids=str)
def test_find_gives_the_places_at_which_a_sample_comes(spec, excluded):
    """For every sample, the excluded ones too, ascending."""
    sampler = made(spec, 6, 11, excluded)
    for epoch in range(5):
        indices = whole(sampler, epoch)
        for index in range(6):
            expected = np.flatnonzero(indices == index)
            assert expected.tolist() == sampler.order(epoch).find(index).tolist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("excluded", [[], [0], [2, 3, 9], range(10)], ids=str)
def test_a_plain_order_leaves_out_what_is_excluded(shuffle, excluded):
    """Each other sample comes once; without shuffle in the order of the source."""
    sampler = room.Plain(3, shuffle, kept_of(10, excluded))
    left = [index for index in range(10) if index not in excluded]
    assert sampler.length == len(left)
    indices = whole(sampler, 1).tolist()
    assert left == (sorted(indices) if shuffle else indices)
    assert [[indices.index(it)] if it in left else [] for it in range(10)] == [
        sampler.order(1).find(it).tolist() for it in range(10)
    ]


@pytest.mark.parametrize("golden", GOLDENS["orders"], ids=lambda g: g["name"][:40])
def test_an_order_is_the_one_it_was_when_it_was_written_down(golden):
    """For ever, on every platform, Python and numpy version; and so is its name in a state."""
    sampler = made(golden["sampler"], golden["n"], golden["seed"], golden["exclude"])
    order = sampler.order(golden["epoch"])
    assert (golden["name"], golden["length"]) == (sampler.name, order.n)
    assert golden["indices"] == order.at(np.array(golden["positions"])).tolist()


def test_a_mask_is_never_lost_without_a_word():
    """What somebody has masked out is not to be loaded, and no class of its own."""
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(ConfigError, match="a masked array, whose mask would be lost"):
        checked(masked, 10, "/sampler")
    with pytest.raises(ConfigError, match="expected labels without a mask"):
        classes(masked, 3, "/sampler/field", kept_of(3))


@pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced"])
def test_too_few_labels_or_weights_are_an_error_however_many_samples_there_are(kind):
    """Nothing takes memory for each sample before they are counted."""
    spec = {"type": kind, "labels": [0, 1], "weights": [0, 1]}
    with pytest.raises(ConfigError, match=f"for each of the {10**13} samples"):
        room.configured(spec, 10**13, 0, kept_of(10**13))


@pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced", "subset"])
def test_indices_are_int64_where_places_in_an_array_are_not(monkeypatch, kind):
    """As on a system of 32 bits; what is drawn is the same there."""
    spec = {"type": kind, "labels": [0, 1, 0, 1], "weights": [1, 2, 3, 4], "indices": [3, 1, 0]}

    def orders():
        sampler = room.configured(spec, 4, 0, kept_of(4))
        found = [sampler.order(0).find(index) for index in range(4)]
        return whole(sampler), np.concatenate(found)

    wide = orders()
    for name in ("flatnonzero", "argsort", "lexsort"):
        monkeypatch.setattr(np, name, narrowed(getattr(np, name)))
    narrow = orders()
    assert [it.tolist() for it in wide] == [it.tolist() for it in narrow]
    assert {np.dtype(np.int64)} == {it.dtype for it in (*wide, *narrow)}


def narrowed(function):
    return lambda *args, **options: function(*args, **options).astype(np.int32)
