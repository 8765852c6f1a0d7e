"""Words that are nearly right, and values of another form: refused, with what to write instead."""

import re
from pathlib import Path

import numpy as np
import pytest
from configs import OPTIONS, read_config, told
from hypothesis import given
from hypothesis import strategies as st

from threadloader._schema import show
from threadloader.config import _elsewhere
from threadloader.config._hints import hint, one_edit
from threadloader.errors import ConfigError

letters = st.sampled_from("abz_A9é")


@st.composite
def slips(draw):
    """Draws an option and a word that is one insert, delete, replacement or swap away."""
    option = draw(st.sampled_from(OPTIONS))
    at = draw(st.integers(0, len(option) - 1))
    head, tail = option[:at], option[at:]
    word = draw(
        st.sampled_from([head + tail[1:], head + tail[1:2] + tail[:1] + tail[2:]])
        | letters.map(lambda letter: head + letter + tail)
        | letters.map(lambda letter: head + letter + tail[1:])
    )
    return option, word


@given(slips())
def test_a_key_one_edit_away_from_an_option_is_never_let_through(slip):
    option, word = slip
    if word != option:
        assert one_edit(word, option)
        assert one_edit(option, word)
        said = f'/{word}: expected a known key, got "{word}"; did you mean "{option}"?'
        assert [said] == told({word: 1}, unknown="ignore") == told({word: 1})


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_one_edit_is_what_one_edit_can_make(one, other):
    places = range(len(one) + 1)
    made = {one[:i] + letter + one[i:] for i in places for letter in "abc"}
    made |= {one[:i] + letter + one[i + 1 :] for i in places[:-1] for letter in ["", *"abc"]}
    made |= {one[:i] + one[i + 1] + one[i] + one[i + 2 :] for i in places[:-2]}
    assert (other in made - {one}) == one_edit(one, other)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("timeout", 'write "stall_seconds" (null: none), and "stall_action": "raise" for an error'),
        ("world_size", 'write "shard": {"index": ..., "count": ...}, or "auto"'),
        ("Dataset", 'data stand in "source", or in code: Loader(config, source=...)'),
        ("persistent_workers", "leave it out: workers live as long as the with"),
    ],
)
def test_an_option_of_another_loader_is_told_with_what_it_is_here(key, said):
    """And that it may be a key of the user's own; it is let through where those are."""
    lets = '; Loader(config, unknown="ignore") (in a command: --unknown ignore) lets keys of'
    assert f'/{key}: expected a known key, got "{key}"; {said}{lets}' in told({key: 1})[0]
    assert [] == told({key: 1}, unknown="ignore")


def test_what_is_written_here_in_place_of_others_options_are_options_of_ours():
    """None of the keys is one of ours, or but a slip away from one."""
    for key, said in _elsewhere._HERE.items():
        assert not any(key == option or one_edit(key, option) for option in OPTIONS)
        if said.startswith("write"):
            assert re.findall('"([a-z_]+)"', said)[0] in OPTIONS


def test_the_nearest_word_is_the_one_with_the_fewest_edits():
    words = ["index", "count", "remainder"]
    assert 'did you mean "remainder"?' == hint("remaidner", words)
    assert 'did you mean "count"?' == hint("coutn", words)
    assert "" == hint("world", words) == hint("world", [], is_key=True)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("workers", "num_workers"),
        ("num_threads", "num_workers"),
        ("epochs", "num_epochs"),
        ("prefetch", "prefetch_batches"),
        ("batch", "batch_size"),
    ],
)
def test_the_nearest_key_shares_the_most_letters_though_it_may_be_much_longer(word, nearest):
    assert f'the nearest known key is "{nearest}"' == hint(word, OPTIONS, is_key=True)


def test_of_a_key_of_a_config_the_nearest_is_named():
    """It may be a word that another loader has for it."""
    with pytest.raises(ConfigError, match='the nearest known key is "num_workers"'):
        read_config({"workers": 2})


OWN = (
    'Loader(config, unknown="ignore") (in a command: --unknown ignore) '
    "lets keys of your own through"
)


@pytest.mark.parametrize("word", ["lr", "k0", "model", "optimizer", "learning_rate", "é" * 100])
def test_of_a_key_that_is_near_to_none_no_other_is_told(word):
    assert "" == hint(word, OPTIONS, is_key=True)
    assert [f"/{word}: expected a known key, got {show(word)}; {OWN}"] == told({word: 1})


@pytest.mark.parametrize("word", ["lr", "workers"])
def test_how_keys_pass_is_said_for_code_and_for_a_command(word):
    (said,) = told({word: 1})
    assert said.endswith(f"; {OWN}")


def test_a_key_further_down_that_is_near_to_none_has_no_hint():
    assert ['/shard/rank: expected a known key, got "rank"'] == told({"shard": {"rank": 0}})


GIVEN = "give it in code: Loader(config, {}=...)"
FORM = 'write an object with its type, as in {"type": "npz", "path": "x.npz"}'


@pytest.mark.parametrize(
    ("config", "what_to_do"),
    [
        ({"source": [1, 2]}, GIVEN.format("source")),
        ({"source": []}, GIVEN.format("source")),
        ({"source": np.arange(3)}, GIVEN.format("source")),
        ({"source": print}, GIVEN.format("source")),
        ({"source": "x.npz"}, 'write {"type": "npz", "path": "x.npz"}'),
        ({"source": Path("x.csv")}, 'write {"type": "csv", "path": "x.csv"}'),
        ({"source": "train-*.TXT"}, 'write {"type": "text", "path": "train-*.TXT"}'),
        ({"source": "images"}, FORM),
        ({"source": "x" * 50 + ".npz"}, FORM),
        ({"source": 5}, FORM),
        ({"transform": print}, GIVEN.format("transform")),
        ({"collate": np.stack}, GIVEN.format("collate")),
        ({"sampler": print}, GIVEN.format("sampler")),
        (
            {"sampler": [1, 2]},
            GIVEN.format("sampler") + ', or write {"type": "subset", "indices": [...]}',
        ),
        (
            {"sampler": np.arange(3)},
            GIVEN.format("sampler") + ', or write {"type": "subset", "indices": [...]}',
        ),
        ({"exclude": np.arange(3)}, "give the list that its tolist() makes"),
        (
            {"sampler": {"type": "weighted", "weights": np.ones(3)}},
            "give the list that its tolist() makes",
        ),
        ({"exclude": type("Tensor", (), {})()}, "give the list that its tolist() makes"),
        ({"exclude": range(3)}, "give list(...) of it"),
        ({"exclude": {3, 1}}, "give sorted(...) of it"),
        ({"exclude": {3: "a"}.keys()}, "give list(...) of it"),
        ({"sampler": {"type": "subset", "indices": range(3)}}, "give list(...) of it"),
        ({"source": {"type": "text", "path": {"a.txt"}}}, "give sorted(...) of it"),
        ({"seed": {1}}, ""),
        ({"exclude": [range(3)]}, ""),
    ],
)
def test_what_has_another_form_in_a_config_is_told_where_it_belongs(config, what_to_do):
    said = [problem.hint for problem in _problems(config)]
    assert [what_to_do] == said


def test_arrays_inside_of_a_source_are_told_both_ways():
    """They may be a list of an option, or the data itself."""
    said, _ = _problems({"source": {"x": np.arange(3)}})
    expected = "give the list that its tolist() makes, or data in code: Loader(config, source=...)"
    assert expected == said.hint


@pytest.mark.parametrize("config", [{}, {"source": None}, {"source": {}}])
def test_a_source_that_is_missing_is_no_value_of_another_form(config):
    """What is expected there says it all."""
    with pytest.raises(ConfigError) as caught:
        read_config(config)
    assert [""] == [problem.hint for problem in caught.value.problems]


def test_a_file_is_told_the_same(tmp_path):
    (tmp_path / "c.json").write_text('{"source": "x.npz", "sampler": [1]}', encoding="utf-8")
    source, sampler = told(tmp_path / "c.json")
    assert source.endswith('got "x.npz"; write {"type": "npz", "path": "x.npz"}')
    assert sampler.endswith('or write {"type": "subset", "indices": [...]}')


def _problems(config):
    with pytest.raises(ConfigError) as caught:
        read_config(config, source_in_code=True)
    return caught.value.problems


@pytest.mark.parametrize(
    ("word", "meant"), [("float", "float64"), ("double", "float64"), ("int", "int64")]
)
def test_the_dtype_that_numpy_means_by_a_word_is_named_and_not_a_nearer_one(word, meant):
    """As float16, which holds no more than three digits."""
    assert f'did you mean "{meant}"?' == hint(word, ["float16", "int8", "int64", "float64"])
    assert "64" not in hint(word, ["float16", "int8"])
