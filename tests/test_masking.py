"""Masked-language modelling: what is hidden, what it becomes, and what the labels say."""

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masks import KEPT, MASK, SPECIAL, VOCABULARY, replaced

from threadloader import CollateError, ConfigError, Loader, SourceError
from threadloader.collate import Pad, stack
from threadloader.masking import IGNORED, MaskTokens, mlm
from threadloader.order import key


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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"on_error": {"retry": 1, "backoff": 0}},
        {"cache": {"max_bytes": "1MiB"}},
        {"num_workers": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [None, 9, {"ids": 9}], ids=str)
def test_a_config_pads_labels_with_what_is_not_learned(value, options):
    """Where its value names no number for them. A plain number is for tokens."""
    spec = {"type": "pad", "fields": ["ids", "labels"], **({"value": value} if value else {})}
    config = {**CONFIG, "collate": spec, **options}
    with Loader(config, Sentences(), transform=HIDE) as batches:
        for batch in batches:
            padding = ~batch["labels_mask"]
            assert {IGNORED} >= set(batch["labels"][padding].tolist())
            assert {9 if value else 0} >= set(batch["ids"][padding].tolist())


def test_a_config_pads_labels_of_a_subclass_alike():
    hide = type("Own", (MaskTokens,), {})(VOCABULARY, MASK, field="ids")
    spec = {"type": "pad", "fields": ["ids", "labels"]}
    with Loader({**CONFIG, "collate": spec}, Sentences(), transform=hide) as batches:
        batch = next(iter(batches))
    assert {IGNORED} == set(batch["labels"][~batch["labels_mask"]].tolist())


def test_a_pad_that_is_told_what_fills_a_field_stays_as_it_is():
    rows, pad = [{"labels": np.arange(2)}, {"labels": np.arange(1)}], Pad()
    assert [[0, 1], [0, 5]] == pad.filling({"labels": 5})(rows)["labels"].tolist()
    assert [[0, 1], [0, 0]] == pad(rows)["labels"].tolist()


def test_a_config_pads_labels_with_what_it_names_for_them():
    spec = {"type": "pad", "fields": ["ids", "labels"], "value": {"labels": -1}}
    with Loader({**CONFIG, "collate": spec}, Sentences(), transform=HIDE) as batches:
        batch = next(iter(batches))
    assert {-1} == set(batch["labels"][~batch["labels_mask"]].tolist())


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


class AtOnce(Sentences):
    """The same, read at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def in_rows(samples):
    """Pads by hand: a collate of a user's own."""
    assert isinstance(samples, list)
    return PAD([{**sample, "ids": sample["ids"].copy()} for sample in samples])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("source", "collate"), [(Sentences(), in_rows), (AtOnce(), PAD)])
def test_the_same_tokens_are_hidden_whatever_reads_and_collates(source, collate, workers, expected):
    config = {**CONFIG, "num_workers": workers}
    with Loader(config, source, transform=HIDE, collate=collate) as batches:
        assert expected == content(batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_one_length_are_stacked(workers):
    """Each as `many` gives it by itself."""
    tokens = np.random.default_rng(0).integers(4, VOCABULARY, (20, 17), np.uint16)
    hide = mlm(VOCABULARY, MASK, special=SPECIAL)
    config = {"num_workers": workers, "batch_size": 8, "seed": 3}
    with Loader(config, tokens, transform=hide) as batches:
        position = 0
        for batch in batches:
            for row, index in enumerate(batches.info.indices.tolist()):
                one = hide.many([tokens[index]], key("transform", 3, 0), np.array([position]))[0]
                assert one["tokens"].tolist() == batch["tokens"][row].tolist()
                assert one["labels"].tolist() == batch["labels"][row].tolist()
                position += 1
    assert 20 == position


def test_a_subclass_that_calls_in_its_own_way_is_called():
    class Louder(MaskTokens):
        def __call__(self, sample, *, rng):
            return {"ids": sample["ids"] + 1}

    loud = Louder(VOCABULARY, MASK, field="ids")
    with Loader({"batch_size": 1, "shuffle": False}, Sentences(), transform=loud) as batches:
        assert [[5]] == next(iter(batches))["ids"].tolist()


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


WRONG = [np.array(tokens) for tokens in ([5, 6], [7, 60], [8], [9, 61, 9])]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [Pad(), Pad(length=1, truncate=True), stack, in_rows])
def test_a_wrong_token_names_its_sample_through_the_loader(collate, workers):
    """The one of the lowest row, whatever else is wrong with the batch; the loop goes on."""
    config = {"num_workers": workers, "shuffle": False, "batch_size": 4}
    with Loader(config, [*WRONG, *WRONG[:1]], transform=mlm(VOCABULARY, MASK), collate=collate) as (
        batches
    ):
        epoch = iter(batches)
        with pytest.raises(SourceError, match=r"position 1: mlm: .* got 60") as caught:
            next(epoch)
        assert caught.value.__context__ is None
        note = "".join(caught.value.__notes__)
        assert "raised for sample 1 (row 1 of step 0, epoch 0)" in note
        if collate is not in_rows:
            assert 1 == len(next(epoch)["tokens"])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("collate", "rows"), [(Pad(length=2), (3,)), (stack, (0, 1))])
def test_what_cannot_be_collated_is_the_collates_error(collate, rows, workers):
    """The masked samples are well; one is too long, or of another length than row 0."""
    source = [np.arange(5, 5 + size) for size in ((2, 1, 2, 3) if len(rows) == 1 else (2, 3))]
    config = {"num_workers": workers, "shuffle": False, "batch_size": 4}
    with Loader(config, source, transform=mlm(VOCABULARY, MASK), collate=collate) as batches:
        with pytest.raises(CollateError) as caught:
            next(iter(batches))
    assert rows == caught.value.rows == caught.value.samples
    assert "raised for the batch of step 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_differing_fields_are_the_collates_error(workers):
    source = [{"ids": np.arange(5, 8), "a": 1}, {"ids": np.arange(5, 8)}]
    hide = mlm(VOCABULARY, MASK, field="ids")
    config = {"num_workers": workers, "shuffle": False, "collate": {"type": "pad"}}
    with Loader(config, source, transform=hide) as batches:
        with pytest.raises(CollateError, match="row 1 has a dict of 'ids'") as caught:
            next(iter(batches))
    assert (0, 1) == caught.value.rows


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
