"""What is hidden in many samples at once: each as if it were alone, and as often as it is said.

What is counted becomes scores (scores.py says how), each of which is standard normal for
independent choices. None may be beyond `LIMIT`, 4.5, which one passes by chance once in
147,000, both sides taken together; there are fewer than 200. The keys are fixed: nothing
flickers.
"""

import itertools
import math
from collections import OrderedDict, UserDict
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masks import KEPT, MASK, ORDINARY, SPECIAL, VOCABULARY, masked
from scores import counted, of_counts

from threadloader import SourceError
from threadloader.collate import Pad
from threadloader.masking import IGNORED, MaskTokens, mlm

LIMIT = 4.5

tokens_of = st.lists(st.integers(0, VOCABULARY - 1), max_size=40)
samples_of = st.lists(tokens_of, min_size=1, max_size=6)
keys = st.integers(0, 2**128 - 1)
positions = st.integers(0, 2**62)
chances = st.sampled_from([0, 1e-3, 0.15, 0.5, 0.97, 1 - 2**-9, 1])


def arrays(samples, dtype=np.int32):
    return [np.array(tokens, dtype) for tokens in samples]


def transform(probability=0.15, **options):
    return mlm(VOCABULARY, MASK, special=SPECIAL, probability=probability, **options)


def pairs(sample):
    """Lists (token, label) of a masked sample."""
    return list(zip(sample["tokens"].tolist(), sample["labels"].tolist(), strict=True))


@given(samples_of, keys, positions, chances)
def test_each_sample_is_masked_by_key_position_and_place_alone(samples, key, position, chance):
    """Against the arithmetic in Python's own integers, token by token."""
    places = np.arange(position, position + len(samples))
    made = transform(chance).many(arrays(samples), key, places)
    expected = [masked(tokens, key, position + at, chance) for at, tokens in enumerate(samples)]
    assert expected == [pairs(sample) for sample in made]


# What stands in the chosen places of two samples: made once, never to change.
GOLDEN = {
    0.15: [{30: 32, 39: 3}, {0: 4}],
    0.7: [
        {
            **dict.fromkeys([2, 3, 5, 7, 8, 10, 12, 13, 16, 17, 18, 19, 21, 22, 23, 27], 3),
            **dict.fromkeys([31, 32, 35, 37, 38], 3),
            30: 32,
            39: 43,  # a random token; the original
        },
        {0: 40, **dict.fromkeys([1, 2, 4, 5, 6, 8, 9], 3)},
    ],
}


@pytest.mark.parametrize("chance", GOLDEN)
def test_the_same_key_hides_the_same_tokens_for_ever(chance):
    tokens = np.arange(4, 44)
    samples = [tokens, tokens[:11]]
    made = transform(chance).many(samples, 7 << 64 | 9, np.array([3, 10**12]))
    places = [np.flatnonzero(sample["labels"] != IGNORED) for sample in made]
    assert GOLDEN[chance] == [
        dict(zip(at.tolist(), sample["tokens"][at].tolist(), strict=True))
        for at, sample in zip(places, made, strict=True)
    ]


@given(samples_of, keys, st.randoms(use_true_random=False))
def test_what_comes_of_a_sample_does_not_depend_on_the_others(samples, key, random):
    """Nor on their order, nor on how many there are."""
    order = random.sample(range(len(samples)), random.randint(1, len(samples)))
    hide = transform(0.5).many
    together = hide(arrays(samples), key, np.arange(len(samples)))
    some = hide([arrays(samples)[at] for at in order], key, np.array(order))
    assert [pairs(together[at]) for at in order] == [pairs(sample) for sample in some]


@given(samples_of, keys, st.sampled_from(["u1", ">u4", "i1", "u8", ">i8"]))
def test_samples_at_once_may_be_of_any_dtype_and_of_several(samples, key, dtype):
    """They stay as they are; what is made is int64 and may be written to."""
    mixed = arrays(samples, dtype)
    mixed[0] = mixed[0].astype(np.int16)
    for array in mixed:
        array.flags.writeable = False
    at = np.arange(len(samples))
    made = transform(0.5).many(mixed, key, at)
    expected = transform(0.5).many(arrays(samples, np.int64), key, at)
    assert [pairs(sample) for sample in expected] == [pairs(sample) for sample in made]
    assert samples == [array.tolist() for array in mixed]
    for sample in made:
        for array in sample.values():
            assert np.dtype(np.int64) == array.dtype
            assert array.flags.writeable
            assert array.flags.c_contiguous


@given(keys, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=4))
def test_tokens_in_rows_are_masked_like_all_of_them_in_one_row(key, shapes):
    """Alone and beside others, in any order of memory, for a collate and for `Pad`."""
    samples = [np.asfortranarray(np.arange(10, 10 + a * b).reshape(a, b)) for a, b in shapes]
    at = np.arange(len(samples))
    hide = transform(0.5)
    flat = hide.many([sample.reshape(-1) for sample in samples], key, at)
    for made in (hide.many(samples, key, at), hide.columns(samples, key, at)):
        assert shapes == [sample["labels"].shape for sample in made]
        for sample, one in zip(made, flat, strict=True):
            assert one["tokens"].tolist() == sample["tokens"].reshape(-1).tolist()
            assert one["labels"].tolist() == sample["labels"].reshape(-1).tolist()


# While they are padded

pads = st.fixed_dictionaries(
    {
        "value": st.one_of(
            st.sampled_from([0, -1, 59, 1000]),
            st.fixed_dictionaries({"labels": st.sampled_from([IGNORED, 0, 7])}),
        ),
        "multiple_of": st.sampled_from([1, 4, 8]),
    },
    optional={"length": st.sampled_from([8, 16, 40]), "truncate": st.just(True)},
)


def lists(batch):
    return {
        name: (value.dtype, value.shape, value.tolist()) if hasattr(value, "tolist") else value
        for name, value in batch.items()
    }


def usable(options):
    return {**options, "truncate": "length" in options}


@given(samples_of, keys, chances, pads)
def test_masked_while_padded_is_masked_and_then_padded(samples, key, chance, options):
    pad, hide, at = Pad(**usable(options)), transform(chance), np.arange(len(samples))
    expected = pad(hide.many(arrays(samples), key, at))
    assert lists(expected) == lists(pad(hide.columns(arrays(samples), key, at)))


@given(samples_of, keys, pads, st.sampled_from([None, "x"]), st.booleans())
def test_so_are_dicts_with_other_fields(samples, key, options, name, named):
    """Whatever the masked tokens are called, and if the fields to pad are named."""
    dicts = [
        {"a": at, "ids": tokens, "b": tokens.astype(np.float32), "c": "text"}
        for at, tokens in enumerate(arrays(samples))
    ]
    fields = [name or "ids", "labels", "b"] if named else None
    pad, at = Pad(**usable(options), fields=fields), np.arange(len(samples))
    hide = transform(0.5, field="ids", tokens=name)
    expected = pad(hide.many(dicts, key, at))
    got = pad(hide.columns(dicts, key, at))
    assert list(expected) == list(got)
    assert lists(expected) == lists(got)
    assert ["a", "ids", "b", "c"] == list(dicts[0])


def test_samples_may_be_mappings_of_any_kind():
    dicts = [{"ids": tokens, "a": 1} for tokens in arrays([[5, 6, 7], [8]])]
    hide, pad, at = transform(0.5, field="ids"), Pad(), np.arange(2)
    expected = lists(pad(hide.many(dicts, 1, at)))
    for kind in (MappingProxyType, OrderedDict, UserDict):
        samples = [kind(one) for one in dicts]
        assert expected == lists(pad(hide.many(samples, 1, at)))
        assert expected == lists(pad(hide.columns(samples, 1, at)))


def test_a_batch_that_is_padded_has_arrays_of_its_own():
    """One is nobody's view, so it can be changed without the others."""
    hide, pad = transform(0.5), Pad()
    batch = pad(hide.columns(arrays([[5, 6, 7], [8]]), 1, np.arange(2)))
    for one, other in itertools.combinations(batch.values(), 2):
        assert not np.shares_memory(one, other)
    assert all(array.flags.writeable and array.flags.c_contiguous for array in batch.values())


@pytest.mark.parametrize("options", [{}, {"length": 2, "truncate": True}, {"value": -1}])
def test_a_token_outside_of_the_vocabulary_is_refused_where_it_is_padded(options):
    """Also where it is cut off, and where the pad value is none of the vocabulary either."""
    for wrong in (60, -1):
        columns = transform().columns(arrays([[5], [5, 6, wrong]]), 1, np.arange(2))
        with pytest.raises(SourceError, match=f"position 2: mlm: expected .*, got {wrong}"):
            Pad(**options)(columns)


def test_a_sample_that_is_no_array_is_refused_among_others():
    with pytest.raises(SourceError, match="expected an array of integers, got None"):
        transform(field="ids").many([{"ids": np.arange(5)}, {"ids": None}], 1, np.arange(2))
    with pytest.raises(SourceError, match="expected a dict with 'ids', got a dict of no fields"):
        transform(field="ids").many([{"ids": np.arange(5)}, {}], 1, np.arange(2))
    masked = {"ids": np.ma.array([1, 2], np.int64, mask=[0, 1])}
    with pytest.raises(SourceError, match="got a MaskedArray of dtype int64"):
        transform(field="ids").many([masked, masked], 1, np.arange(2))
    taken = {"ids": np.arange(5), "labels": 1}
    with pytest.raises(SourceError, match="expected no field 'labels' of its own"):
        transform(field="ids").columns([{"ids": np.arange(5)}, taken], 1, np.arange(2))


# As often as it is said

ROWS, SIZE = 2000, 203  # 25 words of 8 tokens, and one of 3
N = ROWS * SIZE


def labels_of(key: int, first: int = 0) -> np.ndarray:
    """Which tokens of samples at adjacent positions are chosen: bool, (ROWS, SIZE)."""
    tokens = np.full(SIZE, 9)
    made = mlm(VOCABULARY, MASK).many([tokens] * ROWS, key, np.arange(first, first + ROWS))
    return np.stack([sample["labels"] for sample in made]) != IGNORED


def score(chosen: np.ndarray) -> float:
    """How far the share of chosen tokens is from 15%, in standard deviations."""
    return float((chosen.sum() - 0.15 * chosen.size) / math.sqrt(0.15 * 0.85 * chosen.size))


def together(one: np.ndarray, other: np.ndarray) -> float:
    """The score of a table of two by two: whether choices at two places know of each other."""
    both = of_pairs(one, other)
    expected = one.size * np.outer([0.85, 0.15], [0.85, 0.15])
    return of_counts(both, expected, 3)


def of_pairs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return counted(2 * one.astype(np.int8) + other, 4).reshape(2, 2)


@pytest.fixture(scope="module")
def chosen():
    return labels_of(key=5 << 64 | 7)


def test_15_of_100_tokens_are_chosen(chosen):
    assert abs(score(chosen)) < LIMIT


def test_they_are_chosen_alike_at_each_place_and_in_each_sample(chosen):
    """By the spread of counts, which are binomial: 203 places, 2000 samples."""
    for axis in (0, 1):
        counts = chosen.sum(axis=axis)
        size = chosen.shape[axis]
        tables = np.stack([counts, size - counts])
        expected = size * np.array([[0.15], [0.85]])
        assert abs(of_counts(tables, expected, len(counts))) < LIMIT


@pytest.mark.parametrize("apart", range(1, 17))
def test_a_choice_knows_nothing_of_the_places_beside_it(chosen, apart):
    """Up to 16 apart: in the same word, and in the next ones."""
    assert abs(together(chosen[:, :-apart], chosen[:, apart:])) < LIMIT


@pytest.mark.parametrize("bits", list(itertools.combinations(range(8), 2)))
def test_the_8_tokens_of_a_word_know_nothing_of_each_other(chosen, bits):
    words = chosen[:, :200].reshape(-1, 8)
    assert abs(together(words[:, bits[0]], words[:, bits[1]])) < LIMIT


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 5, 8, 16, 64, 128, 512])
def test_a_sample_knows_nothing_of_the_samples_at_positions_beside_it(chosen, apart):
    assert abs(together(chosen[:-apart], chosen[apart:])) < LIMIT


@pytest.mark.parametrize(
    "key", [5 << 64 | 8, 5 << 64 | 6, 6 << 64 | 7, 4 << 64 | 7, 7 << 64 | 5, 0, 2**128 - 1]
)
def test_an_epoch_knows_nothing_of_another(chosen, key):
    """Keys are hashes. Not even those that are close to each other, or mirrored, show."""
    other = labels_of(key)
    assert abs(score(other)) < LIMIT
    assert abs(together(chosen, other)) < LIMIT


@pytest.mark.parametrize("probability", [1e-3, 0.15, 0.3, 0.5, 0.9, 0.999])
def test_any_probability_is_the_share_of_what_is_chosen(probability):
    """Also where a byte alone decides for hardly any token, or for nearly all."""
    tokens = np.full(SIZE, 9)
    made = mlm(VOCABULARY, MASK, probability=probability).many([tokens] * ROWS, 3, np.arange(ROWS))
    count = sum(int((sample["labels"] != IGNORED).sum()) for sample in made)
    spread = math.sqrt(probability * (1 - probability) * N)
    assert abs(count - probability * N) < LIMIT * spread


@pytest.fixture(scope="module")
def many():
    """Ordinary tokens, each as often as the others: original, masked, labels, of 400,000."""
    tokens = np.resize(ORDINARY, (1000, 400))
    made = transform().many(list(tokens), 11, np.arange(1000))
    return tokens, *(np.stack([s[name] for s in made]) for name in ("tokens", "labels"))


def test_every_token_is_chosen_alike(many):
    tokens, _, labels = many
    counts = counted(labels[labels != IGNORED], VOCABULARY)[4:]
    shares = counted(tokens, VOCABULARY)[4:] / tokens.size
    assert abs(of_counts(counts, shares * counts.sum(), len(ORDINARY) - 1)) < LIMIT


def test_of_the_chosen_80_are_hidden_10_random_and_10_kept(many):
    """A random token is the original once in as many times as there are ordinary ones."""
    tokens, masked, labels = many
    chosen = labels != IGNORED
    hidden = int((masked[chosen] == MASK).sum())
    same = int((masked[chosen] == tokens[chosen]).sum())
    total, by_chance = int(chosen.sum()), 0.1 / len(ORDINARY)
    expected = np.array([0.8, 0.1 + by_chance, 0.1 - by_chance]) * total
    assert abs(of_counts(np.array([hidden, same, total - hidden - same]), expected, 2)) < LIMIT


def test_what_becomes_of_a_token_knows_nothing_of_its_place(many):
    """The 8 tokens of a word are hidden, made random and kept alike."""
    tokens, masked, labels = many
    kinds = np.where(masked == MASK, 0, np.where(masked == tokens, 1, 2))
    for lane in range(8):
        of_lane = kinds[:, lane::8][(labels != IGNORED)[:, lane::8]]
        by_chance = 0.1 / len(ORDINARY)
        expected = np.array([0.8, 0.1 + by_chance, 0.1 - by_chance]) * of_lane.size
        assert abs(of_counts(counted(of_lane, 3), expected, 2)) < LIMIT


def test_random_tokens_are_drawn_alike_and_never_special(many):
    tokens, masked, _ = many
    counts = counted(masked[(masked != tokens) & (masked != MASK)], VOCABULARY)
    assert [0] * len(KEPT) == counts[: len(KEPT)].tolist()
    counts = counts[len(KEPT) :]
    assert abs(of_counts(counts, counts.mean(), len(ORDINARY) - 1)) < LIMIT


def test_with_two_tokens_the_other_is_never_drawn():
    """The one that is ordinary takes its own place."""
    made = MaskTokens(2, 0, probability=1).many([np.ones(1000, np.int64)], 1, np.arange(1))
    assert [1] * 1000 == made[0]["labels"].tolist()
    assert {0, 1} == set(made[0]["tokens"].tolist())
