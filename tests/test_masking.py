"""Masked-language modelling: what is hidden, what it becomes, and what the labels say.

Which samples and options are refused is here, too. What comes of it through a loader is in
test_masking_loader.py, and many samples at once are in test_hiding.py.
"""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masks import HIDE, KEPT, MASK, SPECIAL, VOCABULARY, replaced

from threadloader import ConfigError, SourceError
from threadloader.masking import IGNORED, MaskTokens, mlm


def generator(key=0):
    return np.random.Generator(np.random.Philox(key=key))


def hide(tokens, key=0, **options):
    """Gives tokens, masked tokens and labels, all flat."""
    transform = mlm(VOCABULARY, MASK, **{"special": SPECIAL, **options})
    sample = transform(np.asarray(tokens), rng=generator(key))
    return np.asarray(tokens), sample["tokens"], sample["labels"]


tokens_of = st.lists(st.integers(0, VOCABULARY - 1), max_size=80)
keys = st.integers(0, 2**128 - 1)
chances = st.sampled_from([0, 0.15, 0.5, 0.9, 1])


@given(tokens_of, keys, chances)
def test_labels_are_the_original_where_chosen_and_the_rest_is_unchanged(tokens, key, chance):
    tokens, masked, labels = hide(np.array(tokens, np.uint16), key, probability=chance)
    chosen = labels != IGNORED
    assert tokens[chosen].tolist() == labels[chosen].tolist()
    assert tokens[~chosen].tolist() == masked[~chosen].tolist()


@given(tokens_of, keys, chances)
def test_special_tokens_are_never_chosen_and_never_drawn(tokens, key, chance):
    tokens, masked, labels = hide(np.array(tokens, np.int32), key, probability=chance)
    assert (labels[np.isin(tokens, KEPT)] == IGNORED).all()
    new = masked[masked != tokens]
    assert not np.isin(new, SPECIAL).any()
    assert ((new >= 0) & (new < VOCABULARY)).all()


@given(tokens_of, keys, st.sampled_from(["u1", "u2", ">u4", "i1", "i4", "u8", ">i8"]))
def test_what_is_hidden_does_not_depend_on_the_dtype(tokens, key, dtype):
    """Both outputs are int64, new and contiguous, and the sample stays as it is."""
    given_tokens = np.array(tokens, dtype)
    given_tokens.flags.writeable = False
    _, masked, labels = hide(given_tokens, key)
    _, expected, expected_labels = hide(np.array(tokens, np.int64), key)
    assert (expected.tolist(), expected_labels.tolist()) == (masked.tolist(), labels.tolist())
    for array in (masked, labels):
        assert np.dtype(np.int64) == array.dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert tokens == given_tokens.tolist()


@given(keys, st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_the_shape_is_that_of_the_tokens(key, shape):
    """Rows of tokens, in any order of memory, are masked like all of them in one row."""
    tokens = np.arange(10, 10 + shape[0] * shape[1]).reshape(shape)
    _, masked, labels = hide(tokens, key, probability=0.5)
    _, flat, flat_labels = hide(tokens.reshape(-1), key, probability=0.5)
    assert (flat.reshape(shape).tolist(), shape) == (masked.tolist(), masked.shape)
    assert (flat_labels.reshape(shape).tolist(), shape) == (labels.tolist(), labels.shape)
    assert masked.tolist() == hide(np.asfortranarray(tokens), key, probability=0.5)[1].tolist()


def test_with_probability_0_nothing_is_chosen_and_with_1_all():
    assert (hide(np.arange(VOCABULARY), probability=0)[2] == IGNORED).all()
    _, _, labels = hide(np.arange(VOCABULARY), probability=1)
    assert [IGNORED] * 4 + list(range(4, VOCABULARY)) == labels.tolist()


# The same for ever

GOLDEN_TOKENS = np.arange(4, 44)
# What stands in the chosen places, by the key 7: made once, never to change.
GOLDEN = {
    0.15: {4: 3, 8: 42, 16: 3, 23: 3, 29: 3, 34: 37, 37: 11},
    0.7: {
        **dict.fromkeys([1, 2, 3, 5, 6, 7, 11, 12, 14, *range(17, 23), 24, 25, 26], 3),
        **dict.fromkeys([28, 30, 31, 33, 36, 38], 3),
        4: 8,
        23: 27,
        34: 37,  # kept: the originals
        8: 42,
        16: 12,
        29: 34,
        37: 11,  # random
    },
}


@pytest.mark.parametrize("chance", GOLDEN)
def test_the_same_bits_hide_the_same_tokens_for_ever(chance):
    _, masked, labels = hide(GOLDEN_TOKENS, key=7, probability=chance)
    places = np.flatnonzero(labels != IGNORED)
    assert GOLDEN[chance] == dict(zip(places.tolist(), masked[places].tolist(), strict=True))
    assert GOLDEN_TOKENS[places].tolist() == labels[places].tolist()


def test_the_choice_is_the_arithmetic_that_is_documented():
    """A raw word for each token, in Python's own integers."""
    tokens = [5, 0, 9, 59, 3, 17] * 20
    bits = generator(11).bit_generator
    numbers = [bits.random_raw() >> 1 for _ in tokens]
    _, masked, labels = hide(tokens, key=11, probability=0.4)
    expected = [replaced(token, number, 0.4) for token, number in zip(tokens, numbers, strict=True)]
    assert expected == list(zip(masked.tolist(), labels.tolist(), strict=True))
    assert len(set(masked.tolist()) - set(tokens))


@pytest.mark.parametrize(
    ("rng", "got"),
    [
        (np.random.Generator(np.random.MT19937(0)), "one over MT19937"),
        (np.random.RandomState(0), "RandomState"),
        (3, "int"),
        (np.random, "module"),
    ],
    ids=["words of 32 bits", "none of the new ones", "a number", "a module"],
)
def test_a_generator_without_words_of_64_bits_is_refused(rng, got):
    """Of half a word each token would be chosen."""
    expected = "rng: expected a numpy.random.Generator whose words have 64 bits, got"
    with pytest.raises(ConfigError, match=f"{expected} {got}"):
        mlm(VOCABULARY, MASK)(np.arange(9), rng=rng)


def test_one_transform_serves_several_threads():
    """Eight of them, begun at once, give what one after the other gives."""
    tokens = np.arange(4, VOCABULARY)
    barrier = threading.Barrier(8)

    def work(key, together=True):
        if together:
            barrier.wait(30)
        return [HIDE({"ids": tokens}, rng=generator(key + n))["ids"].tolist() for n in range(20)]

    with ThreadPoolExecutor(8) as pool:
        assert [work(key, together=False) for key in range(8)] == list(pool.map(work, range(8)))


# Samples and names


def test_a_dict_keeps_its_other_fields_and_their_order():
    sample = {"a": 1, "ids": np.array([9, 9]), "b": "text"}
    got = mlm(VOCABULARY, MASK, field="ids")(sample, rng=generator())
    assert ["a", "ids", "b", "labels"] == list(got)
    assert ["a", "ids", "b"] == list(sample)


def test_the_outputs_are_named_as_asked():
    array = np.array([9, 9])
    for options, sample, expected in (
        ({}, array, ["tokens", "labels"]),
        ({"tokens": "x", "labels": "y"}, array, ["x", "y"]),
        ({"field": "ids", "tokens": "x"}, {"ids": array}, ["x", "labels"]),
        ({"field": "ids", "tokens": "x", "labels": "ids"}, {"ids": array}, ["x", "ids"]),
    ):
        assert expected == list(mlm(VOCABULARY, MASK, **options)(sample, rng=generator()))


@pytest.mark.parametrize(
    ("options", "sample", "said"),
    [
        ({}, "text", "mlm: the sample: expected an array of integers, got str 'text'; make it"),
        ({}, {"ids": 1}, "expected an array of integers, got a dict of 'ids'; name the \"field\""),
        (
            {},
            np.ones(2),
            "got an array of dtype float64 and shape (2,); make it one before, of a dty",
        ),
        ({}, np.ones(2, bool), "got an array of dtype bool"),
        ({}, [1, 2], "got list [1, 2]"),
        (
            {},
            np.ma.array([1, 2], np.int8, mask=[0, 1]),
            "got a MaskedArray of dtype int8 and shape (2,);",
        ),
        ({"field": "ids"}, {"ids": np.ma.array([1])}, "by array.filled(value) of a masked one"),
        (
            {},
            np.zeros(2, "i8").view(np.recarray),
            "got a recarray of dtype int64 and shape (2,); give",
        ),
        ({"field": "ids"}, {"ids": [1, 2]}, '2]; name its dtype in the source ("dtypes"), or'),
        (
            {"field": "ids"},
            np.zeros(3),
            "expected a dict with 'ids', got an array of dtype float64",
        ),
        ({"field": "ids"}, {}, "expected a dict with 'ids', got a dict of no fields"),
        ({"field": "ids"}, {"ids": "x" * 99}, "mlm: field 'ids': expected an array of integers"),
        (
            {"field": "ids"},
            {"ids": np.arange(3), "labels": 1},
            "expected no field 'labels' of its own, got a dict of 'ids', 'labels'; give another",
        ),
        ({"field": "a", "tokens": "b"}, {"a": np.arange(3), "b": 1}, "expected no field 'b' of"),
        ({}, np.array([5, 60]), "position 1: mlm: expected a token, 0 to 59, got 60; give the"),
        ({}, np.array([[5, 5], [-1, 99]]), "position 2: mlm: expected a token, 0 to 59, got -1"),
        ({}, np.array([2**64 - 1], np.uint64), "got 18446744073709551615"),
    ],
)
def test_a_sample_that_cannot_be_masked_is_refused(options, sample, said):
    with pytest.raises(SourceError) as caught:
        mlm(VOCABULARY, MASK, **options)(sample, rng=generator())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# Options


@pytest.mark.parametrize(
    ("options", "pointers"),
    [
        ({"vocabulary": 1}, ["vocabulary"]),
        ({"vocabulary": 2**24 + 1}, ["vocabulary"]),
        ({"vocabulary": True}, ["vocabulary"]),
        ({"vocabulary": 10.5}, ["vocabulary"]),
        ({"mask_token": 60}, ["mask_token"]),
        ({"mask_token": -1}, ["mask_token"]),
        ({"mask_token": None}, ["mask_token"]),
        ({"probability": 1.01}, ["probability"]),
        ({"probability": -0.1}, ["probability"]),
        ({"probability": float("nan")}, ["probability"]),
        ({"probability": True}, ["probability"]),
        ({"probability": "0.15"}, ["probability"]),
        ({"special": 3}, ["special"]),
        ({"special": [5, 60, 7, -1]}, ["special/1", "special/3"]),
        ({"special": [1.5]}, ["special/0"]),
        ({"special": [n for n in range(VOCABULARY) if n != MASK]}, ["special"]),
        ({"field": ""}, ["field"]),
        ({"field": 3}, ["field"]),
        ({"tokens": 3}, ["tokens"]),
        ({"labels": None}, ["labels"]),
        ({"labels": "tokens"}, ["labels"]),
        ({"field": "ids", "labels": "ids"}, ["labels"]),
        (
            {"vocabulary": 0, "mask_token": -1, "special": None},
            ["vocabulary", "mask_token", "spec"],
        ),
    ],
)
def test_options_out_of_bounds_are_config_errors(options, pointers):
    with pytest.raises(ConfigError) as caught:
        mlm(**{"vocabulary": VOCABULARY, "mask_token": MASK, **options})
    found = [problem.pointer for problem in caught.value.problems]
    assert len(pointers) == len(found)
    for pointer, got in zip(pointers, found, strict=True):
        assert got.startswith(f"/transform/{pointer}")


def test_of_many_wrong_tokens_a_hundred_are_told_and_that_there_are_more():
    with pytest.raises(ConfigError) as caught:
        mlm(3, 1, special=[*range(3), *range(3, 5000)])
    *told, more = [str(problem) for problem in caught.value.problems]
    assert 100 == len(told)
    assert told[-1].startswith("/transform/special/102: expected a token")
    assert "/transform/special/103: expected at most 100 wrong items, got more" == more


@pytest.mark.parametrize("option", ["vocabulary", "mask_token", "probability", "special"])
def test_a_number_of_too_many_digits_is_a_config_error(option):
    """Python does not write it."""
    given = [10**5000] if option == "special" else 10**5000
    with pytest.raises(ConfigError, match=f"/{option}.*: expected .*, got a value of type int"):
        MaskTokens(**{"vocabulary": VOCABULARY, "mask_token": MASK, option: given})


def test_numbers_are_as_json_has_them():
    """4.0 is the integer 4 in a config, in MaskTokens itself it is not."""
    assert MaskTokens(50, 3, special=(1, 2)) == mlm(50.0, 3.0, special=[1.0, 2])
    with pytest.raises(ConfigError, match="/transform/vocabulary"):
        MaskTokens(50.0, 3)


def test_a_copy_by_pickle_hides_the_same():
    copy = pickle.loads(pickle.dumps(HIDE))
    sample = {"ids": np.arange(4, 50)}
    assert HIDE == copy
    assert hash(HIDE) == hash(copy)
    assert (
        HIDE(sample, rng=generator())["ids"].tolist()
        == copy(sample, rng=generator())["ids"].tolist()
    )


def test_numbers_of_numpy_are_options_as_in_a_config():
    plain = mlm(100, 3, special=[1, 2], probability=0.5)
    given = mlm(np.int64(100), np.int32(3), special=np.array([1, 2]), probability=np.float32(0.5))
    assert plain == given
    assert plain == mlm(100, 3, special=[np.int64(1), np.uint8(2)], probability=0.5)
