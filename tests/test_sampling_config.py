"""Beside a sampler nothing shuffles; one in code comes first; a wrong list is told by its place."""

import json

import numpy as np
import pytest
from sampler_kinds import KINDS, N, lists

from threadloader import ConfigError, Loader, LoaderConfig


class TestShuffle:
    """Beside a sampler nothing shuffles, and whoever asks for it is told."""

    SAMPLER = KINDS["subset"]["sampler"]

    @pytest.mark.parametrize("options", [{}, {"shuffle": False}])
    def test_false_or_nothing_is_fine(self, options, tmp_path):
        path = tmp_path / "c.json"
        path.write_text(json.dumps({"sampler": self.SAMPLER, **options}))
        expected = LoaderConfig(sampler=self.SAMPLER, **options)
        assert not expected.shuffle
        for config in ({"sampler": self.SAMPLER, **options}, expected, str(path)):
            made = Loader(config, range(N)).config
            assert (expected, False) == (made, made.shuffle)
        in_code = Loader(options, range(N), sampler=[0]).config
        assert (False, None) == (in_code.shuffle, in_code.sampler)

    def test_true_is_refused_wherever_it_stands(self, tmp_path):
        options = {"sampler": self.SAMPLER, "shuffle": True}
        path = tmp_path / "c.json"
        path.write_text('{"sampler": ' + json.dumps(self.SAMPLER) + ',\n "shuffle": true}')
        for make, place in (
            (lambda: LoaderConfig(**options), "/shuffle"),
            (lambda: Loader(options, range(N)), "/shuffle"),
            (lambda: Loader({"shuffle": True}, range(N), sampler=[0]), "/shuffle"),
            (lambda: Loader(str(path), range(N)), f"{path}:2:13: /shuffle"),
        ):
            with pytest.raises(ConfigError) as caught:
                make()
            said = ": expected false or nothing, since there is a sampler, whose order it is"
            assert str(caught.value).startswith(place + said)

    def test_of_a_subset_it_is_said_where_its_shuffle_stands(self):
        options = {"sampler": {"type": "subset", "indices": [0]}, "shuffle": True}
        with pytest.raises(ConfigError) as caught:
            Loader(options, range(N))
        said = 'whose order it is (a subset is shuffled by the "shuffle" inside it), got true'
        assert said in str(caught.value)
        with pytest.raises(ConfigError, match="whose order it is, got true"):  # instead
            Loader(options, range(N), sampler=lambda epoch, n: [0])

    def test_a_config_goes_round_through_its_dict(self):
        config = LoaderConfig(sampler=self.SAMPLER, exclude=[1])
        assert config == LoaderConfig(**config.as_dict())
        assert config == Loader(config.as_dict(), range(N)).config

    def test_a_default_is_no_wish(self):
        """A config object says shuffle whether or not somebody did; a sampler in code wins."""
        with Loader(LoaderConfig(batch_size=1), range(3), sampler=[2, 0]) as batches:
            assert [[2], [0]] == lists(batches)

    def test_a_sampler_in_code_takes_the_place_of_that_of_the_config(self):
        """What that one names need not be there."""
        config = {"sampler": {"type": "weighted", "weights": "gone.npy"}, "batch_size": 2}
        with Loader(config, range(3), sampler=[2, 0]) as batches:
            assert [[2, 0]] == lists(batches)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exclude": "list.txt"}, "1\n99\n"),
        ({"sampler": {"type": "subset", "indices": "list.txt"}}, "1\n99\n"),
        ({"sampler": {"type": "weighted", "weights": "list.txt"}}, "1\n-1\n"),
    ],
)
def test_a_wrong_value_in_a_file_is_told_with_its_file(tmp_path, options, text):
    (tmp_path / "list.txt").write_text(text)
    (tmp_path / "c.json").write_text(json.dumps(options))
    with pytest.raises(ConfigError, match=r"got .*, in list\.txt"):
        Loader(tmp_path / "c.json", range(N)).__enter__()


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({"type": "weighted", "weights": "list.jsonl"}, "a number"),
        ({"type": "weighted_without_replacement", "weights": "list.jsonl"}, "a number"),
        ({"type": "balanced", "labels": "list.jsonl"}, "an integer"),
        ({"type": "subset", "indices": "list.jsonl"}, "an integer"),
    ],
    ids=str,
)
def test_lines_that_say_more_about_samples_are_no_list_of_a_sampler(tmp_path, sampler, expected):
    """The index in them is no weight, nor a label; `exclude` alone takes them."""
    lines = (f'{{"index": {index}, "weight": 0, "label": 1}}\n' for index in range(N))
    (tmp_path / "list.jsonl").write_text("".join(lines))
    (tmp_path / "c.json").write_text(json.dumps({"sampler": sampler}))
    with pytest.raises(ConfigError, match=f"line 1: expected {expected}, got "):
        Loader(tmp_path / "c.json", range(N)).__enter__()


@pytest.mark.parametrize(
    ("sampler", "exclude", "told"),
    [
        ({"type": "weighted", "weights": [1]}, [0, 99], ["/sampler/weights", "/exclude"]),
        ({"type": "weighted", "weights": "list.npy"}, "none", ["/sampler/weights", "/exclude"]),
        ({"type": "weighted", "weights": "none"}, "far.txt", ["/sampler/weights", "/exclude"]),
        ({"type": "subset", "indices": [50]}, "none", ["/sampler/indices", "/exclude"]),
        ({"type": "balanced", "labels": "none"}, [99], ["/sampler/labels", "/exclude"]),
        # Of labels, those of what is excluded do not matter, and which that is is not known.
        ({"type": "balanced", "labels": "list.npy"}, [99], ["/exclude"]),
        ({"type": "balanced", "field": "z"}, [99], ["/exclude"]),
    ],
    ids=str,
)
def test_all_lists_that_are_wrong_are_told_at_once(tmp_path, sampler, exclude, told):
    """By the error of the loader, each with its place."""
    np.save(tmp_path / "list.npy", np.array([0.0, -1.0]))
    (tmp_path / "far.txt").write_text("99\n")
    (tmp_path / "c.json").write_text(json.dumps({"sampler": sampler, "exclude": exclude}))
    with pytest.raises(ConfigError) as caught:
        Loader(tmp_path / "c.json", range(N)).__enter__()
    assert told == [problem.pointer for problem in caught.value.problems]
    assert all(problem.line for problem in caught.value.problems)


def test_a_sequence_in_code_is_told_beside_exclude():
    with pytest.raises(ConfigError) as caught:
        Loader({"exclude": [99]}, range(N), sampler=[50]).__enter__()
    assert ["/exclude", "sampler"] == [problem.pointer for problem in caught.value.problems]


def test_a_list_s_file_that_is_not_there_is_named_once(tmp_path):
    (tmp_path / "c.json").write_text('{"exclude": "list.txt"}')
    with pytest.raises(ConfigError) as caught:
        Loader(tmp_path / "c.json", range(N)).__enter__()
    assert 1 == str(caught.value).count("list.txt")
