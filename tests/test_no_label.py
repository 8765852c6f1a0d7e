"""`balanced` by a field: what an excluded sample has in the place of a label does not matter."""

import json
import signal

import numpy as np
import pytest

from threadloader import ConfigError, Loader, SourceError, StateError
from threadloader.samplers import Kept, configured
from threadloader.sources import column

BALANCED = {"sampler": {"type": "balanced", "field": "y"}, "num_workers": 0, "batch_size": 4}

RECORDS = [{"x": index, "y": index % 2} for index in range(8)]


class Damaged(Exception):
    pass


class Source:
    """Samples with a class; some are replaced by another value, or by an exception."""

    def __init__(self, odd, n=8):
        self.n, self.odd, self.read = n, odd, []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.read.append(index)
        sample = self.odd.get(index, {"x": index, "y": index % 2})
        if isinstance(sample, Exception):
            raise sample
        return sample


def drawn(source, exclude, **options):
    """The samples of an epoch, and the sampler's name."""
    with Loader({**BALANCED, "exclude": exclude, **options}, source) as batches:
        epoch = [int(index) for batch in batches for index in batch["x"]]
        return epoch, batches.state_dict()["run"]["sampler"]


ODD = {
    "raised": Damaged("unreadable"),
    "the system's error": OSError("unreadable"),
    "none": {"x": 3, "y": None},
    "a fraction": {"x": 3, "y": 0.5},
    "of another kind": {"x": 3, "y": "one"},
    "missing": {"x": 3},
    "a text": "not a record",
    "a number": 3,
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", [0, 3, 7])
def test_an_excluded_sample_needs_no_label(odd, at):
    """What is drawn is what is drawn where it has one, wherever it stands."""
    source = Source({at: ODD[odd]})
    assert drawn(RECORDS, [at])[0] == drawn(source, [at])[0]
    assert list(range(8)) == source.read[:8]


def test_a_broken_line_that_is_excluded_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(record) for record in RECORDS]
    lines[2] = '{"x": 2, "y"'
    (tmp_path / "d.jsonl").write_text("\n".join(lines), "utf-8")
    config = {**BALANCED, "source": {"type": "jsonl", "path": "d.jsonl"}}
    with pytest.raises(SourceError, match="line 3"):
        Loader(config).__enter__()
    with Loader({**config, "exclude": [2]}) as batches:
        epoch = [int(index) for batch in batches for index in batch["x"]]
    assert drawn(RECORDS, [2])[0] == epoch


@pytest.mark.parametrize("odd", list(ODD)[2:])
def test_one_that_is_kept_needs_a_label(odd):
    """Others that are excluded change nothing about it."""
    for exclude in ([], [2, 5]):
        with pytest.raises(ConfigError) as caught:
            drawn(Source({3: ODD[odd], 5: Damaged()} if exclude else {3: ODD[odd]}), exclude)
        (problem,) = caught.value.problems
        assert "/sampler/field" == problem.pointer
        assert "sample 3" in problem.got


def test_what_one_that_is_kept_raises_is_raised_at_once():
    """That very exception, with its note, and nothing behind it is read before that is said."""
    error = Damaged("unreadable")
    source = Source({1: Damaged("excluded"), 3: error})
    with pytest.raises(Damaged) as caught:
        drawn(source, [1])
    assert error is caught.value
    assert ["threadloader: raised for sample 3, read for its 'y'"] == error.__notes__
    assert [0, 1, 2, 3] == source.read


def test_the_state_knows_the_sampler_whatever_is_excluded():
    """A list that grows between two runs is taken; other labels are not."""
    names = {
        drawn(Source({3: Damaged(), 4: {"x": 4, "y": "one"}}), exclude)[1]
        for exclude in ([3, 4], [0, 3, 4], [1, 2, 3, 4, 5])
    }
    assert 1 == len(names)
    assert drawn(RECORDS, [3, 4])[1] not in names
    source = Source({3: Damaged()})
    with Loader({**BALANCED, "exclude": [3]}, source) as batches:
        whole = [list(map(int, batch["x"])) for batch in batches]
    with Loader({**BALANCED, "exclude": [3]}, source) as batches:
        begun = [list(map(int, next(iter(batches))["x"]))]
        state = json.loads(json.dumps(batches.state_dict()))
    with Loader({**BALANCED, "exclude": [0, 3]}, source, resume=state) as batches:
        assert whole == begun + [list(map(int, batch["x"])) for batch in batches]
    with pytest.raises(StateError) as caught:
        Loader({**BALANCED, "exclude": [3]}, RECORDS, resume=state).__enter__()
    assert "sampler" in caught.value.fields


def test_a_name_is_what_it_was_where_every_sample_has_a_label():
    """Labels of numpy's among those of Python's are the same ones."""
    kept = Kept(3, np.array([1]))
    names = [
        configured({"type": "balanced", "labels": labels}, 3, 0, kept).name
        for labels in (["b", "a", "b"], [np.str_("b"), "a", "b"], np.array(["b", "a", "b"]))
    ]
    assert 1 == len(set(names))
    assert names[0].startswith("balanced, 2 classes, 3 x ")


def test_a_samplers_labels_may_all_be_missing_but_those_that_are_kept():
    """The one class that is left is drawn."""
    spec = {"type": "balanced", "labels": [None, "a", 1.5, None]}
    order = configured(spec, 4, 0, Kept(4, np.array([0, 2, 3]))).order(0)
    assert [1] == order.at(np.arange(order.n)).tolist()


def test_what_a_signal_handler_raises_meanwhile_is_not_taken_for_the_samples():
    """Though the sample that was being read is excluded."""

    class Alarm(Exception):
        pass

    def handler(number, frame):
        raise Alarm

    class Interrupted(Source):
        def __getitem__(self, index):
            if index == 3:
                signal.raise_signal(signal.SIGTERM)
            return super().__getitem__(index)

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(Alarm):
            drawn(Interrupted({}), [3])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_column_has_none_for_what_does_not_matter():
    """Asked for each sample that fails, with its error; what matters is raised."""
    error, asked = Damaged(), []

    def passes(index, error):
        asked.append((index, type(error)))
        return index < 5

    source = Source({1: error, 2: {"x": 2}, 6: Damaged("matters")})
    with pytest.raises(Damaged, match="matters"):
        column(source, "y", "", passes)
    assert [(1, Damaged), (2, ConfigError), (6, Damaged)] == asked
    assert [0, None, None, 1] == column(Source(source.odd, n=4), "y", "", passes)
