"""Through a loader a seed hides the same tokens, whatever workers, shards, collate and resume.

Padding carries labels that no loss counts, and what cannot be masked is told with its sample.
"""

import json

import numpy as np
import pytest
from masks import HIDE, MASK, SPECIAL, VOCABULARY

from threadloader import CollateError, ConfigError, Loader, SourceError
from threadloader.collate import Pad, stack
from threadloader.masking import IGNORED, MaskTokens, mlm
from threadloader.order import key


class Sentences:
    """40 sequences of tokens of differing length."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"ids": np.arange(4, 5 + index, dtype=np.uint16), "name": f"s{index}"}


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
