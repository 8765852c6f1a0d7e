"""Words that are nearly right: never let through, and the right one named."""

from configs import OPTIONS, told
from hypothesis import given
from hypothesis import strategies as st

from threadloader.config._words import hint, one_edit

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


def test_the_nearest_word_is_the_one_with_the_fewest_edits():
    words = ["index", "count", "remainder"]
    assert 'did you mean "remainder"?' == hint("remaidner", words)
    assert 'did you mean "count"?' == hint("coutn", words)
    assert 'the nearest known key is "count"' == hint("rank", words, is_key=True)
    assert "" == hint("rank", words) == hint("rank", [], is_key=True)
