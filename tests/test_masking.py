"""Masked-language modelling: what is hidden, what it becomes, and what the labels say."""

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import CollateError, ConfigError, Loader, SourceError
from threadloader.collate import Pad
from threadloader.masking import IGNORED, MaskTokens, mlm

VOCABULARY = 60
MASK = 3
SPECIAL = (0, 1, 2)
KEPT = (*SPECIAL, MASK)


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
    0.15: {4: 3, 8: 3, 16: 3, 23: 3, 29: 3, 34: 3, 37: 3},
    0.7: {
        **dict.fromkeys([*range(1, 9), 11, 12, 16, 18, 19, 20, *range(22, 27)], 3),
        **dict.fromkeys([28, 30, 31, 33, 34, 36, 37, 38], 3),
        14: 18,
        17: 21,  # kept: the original
        21: 9,
        29: 40,  # random
    },
}


@pytest.mark.parametrize("chance", GOLDEN)
def test_the_same_bits_hide_the_same_tokens_for_ever(chance):
    _, masked, labels = hide(GOLDEN_TOKENS, key=7, probability=chance)
    places = np.flatnonzero(labels != IGNORED)
    assert GOLDEN[chance] == dict(zip(places.tolist(), masked[places].tolist(), strict=True))
    assert GOLDEN_TOKENS[places].tolist() == labels[places].tolist()


def test_the_choice_is_the_arithmetic_that_is_documented():
    """A word for each token, then one for each chosen one, in Python's own integers."""
    tokens = np.array([5, 0, 9, 59, 3, 17] * 20)
    bits = generator(11).bit_generator
    words = [bits.random_raw() for _ in tokens]
    limit = round(0.4 * 2**53)
    chosen = [at for at, word in enumerate(words) if word >> 11 < limit and tokens[at] not in KEPT]
    ordinary = [token for token in range(VOCABULARY) if token not in KEPT]
    expected = tokens.tolist()
    for at in chosen:
        draw = bits.random_raw() % (10 * len(ordinary))
        if draw < len(ordinary):
            expected[at] = ordinary[draw]
        elif draw < 9 * len(ordinary):
            expected[at] = MASK
    _, masked, labels = hide(tokens, key=11, probability=0.4)
    assert expected == masked.tolist()
    assert chosen == np.flatnonzero(labels != IGNORED).tolist()
    assert len(set(expected) - set(tokens.tolist()))


# Statistics, with fixed seeds: what is asked for is what comes


def chi_square(counts, expected):
    """The statistic of K. Pearson (1900), with as many degrees of freedom as counts less one."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    return float(((counts - expected) ** 2 / expected).sum())


N = 400_000


@pytest.fixture(scope="module")
def many():
    """Ordinary tokens, each as often as the others, hidden in samples of 500."""
    transform = mlm(VOCABULARY, MASK, special=SPECIAL)
    tokens = np.resize(np.arange(4, VOCABULARY), N).reshape(-1, 500)
    samples = [transform(row, rng=generator(key)) for key, row in enumerate(tokens)]
    return tokens, *(np.stack([s[name] for s in samples]) for name in ("tokens", "labels"))


def test_15_of_100_tokens_are_chosen_wherever_they_stand(many):
    """Of all tokens, and in each of the 500 places: below the 0.999 quantiles of chi-square."""
    chosen = many[2] != IGNORED
    total = int(chosen.sum())
    assert chi_square([total, N - total], [0.15 * N, 0.85 * N]) < 10.8
    assert chi_square(chosen.sum(axis=0), np.full(500, total / 500)) < 602.3


def test_every_token_is_chosen_alike(many):
    """55 degrees of freedom."""
    tokens, _, labels = many
    counts = np.bincount(labels[labels != IGNORED], minlength=VOCABULARY)[4:]
    shares = np.bincount(tokens.reshape(-1), minlength=VOCABULARY)[4:] / N
    assert chi_square(counts, shares * counts.sum()) < 93.2


def test_of_the_chosen_80_are_hidden_10_random_and_10_kept(many):
    """A random token is the original once in as many times as there are ordinary ones."""
    tokens, masked, labels = many
    chosen = labels != IGNORED
    hidden = int((masked[chosen] == MASK).sum())
    same = int((masked[chosen] == tokens[chosen]).sum())
    total, ordinary = int(chosen.sum()), VOCABULARY - len(KEPT)
    expected = np.array([0.8, 0.1 + 0.1 / ordinary, 0.1 - 0.1 / ordinary]) * total
    assert chi_square([hidden, same, total - hidden - same], expected) < 13.8


def test_random_tokens_are_drawn_alike(many):
    """Each ordinary token takes the place of others as often as any: 55 degrees of freedom."""
    tokens, masked, _ = many
    counts = np.bincount(masked[(masked != tokens) & (masked != MASK)], minlength=VOCABULARY)
    assert [0, 0, 0, 0] == counts[:4].tolist()
    assert chi_square(counts[4:], np.full(56, counts.sum() / 56)) < 93.2


# Through the loader


class Sentences:
    """40 sequences of tokens of differing length."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"ids": np.arange(4, 5 + index, dtype=np.uint16), "name": f"s{index}"}


HIDE = mlm(VOCABULARY, MASK, special=SPECIAL, field="ids", probability=0.5)
CONFIG = {"batch_size": 8, "seed": 5}
PAD = Pad(fields=["ids", "labels"], value={"labels": IGNORED})


def content(batches, epochs=2):
    """Lists what the batches of some epochs hold."""
    return [
        {name: value if name == "name" else value.tolist() for name, value in batch.items()}
        for epoch in batches.epochs(epochs)
        for batch in epoch
    ]


@pytest.fixture(scope="module")
def expected():
    with Loader({**CONFIG, "num_workers": 0}, Sentences(), transform=HIDE, collate=PAD) as batches:
        return content(batches)


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_the_same_tokens_are_hidden_by_any_number_of_workers(workers, expected):
    with Loader(
        {**CONFIG, "num_workers": workers}, Sentences(), transform=HIDE, collate=PAD
    ) as batches:
        assert expected == content(batches)


def test_a_config_hides_what_the_code_hides(expected):
    config = {
        **CONFIG,
        "transform": {
            "type": "mlm",
            "vocabulary": VOCABULARY,
            "mask_token": MASK,
            "special": list(SPECIAL),
            "field": "ids",
            "probability": 0.5,
        },
        "collate": {"type": "pad", "fields": ["ids", "labels"], "value": {"labels": IGNORED}},
    }
    with Loader(config, Sentences()) as batches:
        assert expected == content(batches)
    with Loader(config, Sentences(), transform=lambda sample: {"name": sample["name"]}) as batches:
        with pytest.raises(CollateError, match="'ids' is to be padded"):
            next(iter(batches))  # what is given in code took the place of the config's


def test_a_mask_token_outside_of_the_vocabulary_is_a_problem_of_the_config():
    """No schema can say it: it is seen when the transform is made, before any thread starts."""
    config = {"transform": {"type": "mlm", "vocabulary": 10, "mask_token": 10}}
    with pytest.raises(ConfigError, match="/transform/mask_token: expected a token, 0 to 9"):
        with Loader(config, Sentences()):
            pass


def test_other_tokens_are_hidden_in_each_epoch_and_with_each_seed(expected):
    """Whatever the order of the samples."""

    def by_name(batches):
        return {
            name: labels
            for batch in batches
            for name, labels in zip(batch["name"], batch["labels"], strict=True)
        }

    with Loader({**CONFIG, "seed": 6}, Sentences(), transform=HIDE, collate=PAD) as batches:
        other = content(batches, 1)
    first, second, third = by_name(expected[:5]), by_name(expected[5:]), by_name(other)
    assert set(first) == set(second) == set(third)
    assert first != second
    assert first != third


@pytest.mark.parametrize("cut", [1, 4, 5, 7])
def test_the_same_tokens_are_hidden_after_a_resume(cut, expected):
    with Loader(CONFIG, Sentences(), transform=HIDE, collate=PAD) as batches:
        steps = (batch for epoch in batches.epochs(2) for batch in epoch)
        for _ in range(cut):
            next(steps)
        state = json.dumps(batches.state_dict())
    with Loader({**CONFIG, "num_workers": 8}, Sentences(), transform=HIDE, collate=PAD) as batches:
        batches.load_state_dict(json.loads(state))
        assert expected[cut:] == content(batches)


def test_shards_hide_what_one_process_hides(expected):
    """The generator follows the place in the global order, not the shard."""
    rows = []
    for index in range(2):
        config = {**CONFIG, "batch_size": 4}
        with Loader(
            config, Sentences(), transform=HIDE, collate=PAD, shard={"index": index, "count": 2}
        ) as batches:
            for batch in content(batches):
                cut = [[x for x in row if x != IGNORED] for row in batch["labels"]]
                rows += zip(batch["name"], cut, strict=True)
    wanted = [
        (name, [x for x in labels if x != IGNORED])
        for batch in expected
        for name, labels in zip(batch["name"], batch["labels"], strict=True)
    ]
    assert sorted(wanted) == sorted(rows)


def test_padding_carries_the_label_that_no_loss_counts(expected):
    for batch in expected:
        mask = np.array(batch["labels_mask"])
        assert batch["labels_mask"] == batch["ids_mask"]
        assert (np.array(batch["labels"])[~mask] == IGNORED).all()
        assert (np.array(batch["ids"])[~mask] == 0).all()


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
        ({}, "text", "mlm: the sample: expected an array of integers, got str 'text'; name the"),
        ({}, {"ids": 1}, "expected an array of integers, got a dict of 'ids'; name the \"field\""),
        ({}, np.ones(2), "got an array of dtype float64 and shape (2,)"),
        ({}, np.ones(2, bool), "got an array of dtype bool"),
        ({}, [1, 2], "got list [1, 2]"),
        ({"field": "ids"}, np.arange(3), "expected a dict with 'ids', got an array of dtype int64"),
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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_wrong_token_names_its_sample_through_the_loader(workers):
    config = {"num_workers": workers, "shuffle": False}
    source = np.array([[5, 6], [7, 60]])
    with Loader(config, source, transform=mlm(VOCABULARY, MASK)) as batches:
        with pytest.raises(SourceError, match="got 60") as caught:
            next(iter(batches))
    assert "sample 1 (row 1 of step 0, epoch 0)" in "".join(caught.value.__notes__)


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
