"""A digest of things that hold each other is that of their graph: no more, no less."""

from itertools import permutations
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from threadloader.cache._graph import Node, digest_of


@st.composite
def graphs(draw):
    """Draws things: of each its word, whether its order does not count, and what it holds."""
    n = draw(st.integers(1, 5))
    numbers = st.integers(0, n - 1)
    things = []
    for _ in range(n):
        any_order = draw(st.booleans())
        parts = draw(st.lists(numbers, max_size=3, unique=any_order))
        things.append((draw(st.sampled_from("ab")), any_order, parts))
    return things


def digest(things, numbers=None, turned=False):
    """Gives the digest; with things numbered anew, and sets the other way round, if asked for."""
    numbers = range(len(things)) if numbers is None else numbers
    nodes = [Node() for _ in things]
    for (word, any_order, parts), number in zip(things, numbers, strict=True):
        node = nodes[number]
        node.any_order = any_order
        node.put(word, str(any_order))
        for part in reversed(parts) if turned and any_order else parts:
            node.hold(numbers[part])
        node.end()
    return digest_of(nodes)


def reached(things):
    """Gives the things that the first one leads to, numbered as they are met."""
    met = [0]
    for number in met:  # it grows
        met += [part for part in dict.fromkeys(things[number][2]) if part not in met]
    places = {number: place for place, number in enumerate(met)}
    return [(*things[number][:2], [places[part] for part in things[number][2]]) for number in met]


def alike(one, other):
    """Tells whether there is a numbering under which two graphs are the same."""
    if len(one) != len(other):
        return False
    for rest in permutations(range(1, len(one))):
        numbers = (0, *rest)
        renamed = [None] * len(one)
        for (word, any_order, parts), number in zip(one, numbers, strict=True):
            renamed[number] = word, any_order, [numbers[part] for part in parts]
        if ordered(renamed) == ordered(other):
            return True
    return False


def ordered(things):
    return [(word, free, sorted(parts) if free else parts) for word, free, parts in things]


TWO_SETS = [
    *(("list", False, [1, 2]), ("set", True, [3, 4]), ("set", True, [5, 6])),
    *(("a", False, []), ("a", False, []), ("a", False, []), ("b", False, [])),
]
"""Two sets: of things that look alike, and of things that differ."""

SHARED = [
    *(("list", False, [1, 2]), ("set", True, [3, 4]), ("set", True, [3, 5])),
    *(("a", False, []), ("a", False, []), ("a", False, [])),
]
"""Two sets that have one of three things in common, which look alike."""

PAIRED = [
    *(("list", False, [2, 1]), ("set", True, [3, 4]), ("set", True, [7, 8]), ("list", False, [5])),
    *(("list", False, [6]), ("list", False, [7]), ("list", False, [8])),
    *(("a", False, []), ("a", False, [])),
]
"""Two sets, and each thing of one leads to one of the other."""


@given(graphs(), st.randoms(use_true_random=False))
@example(SHARED, Random(0))
@example(SHARED, Random(1))
@example(SHARED, Random(2))
@example(PAIRED, Random(0))
@example(PAIRED, Random(1))
@example(PAIRED, Random(2))
@settings(max_examples=300)
def test_numbers_and_the_order_of_sets_do_not_count(things, random):
    things = reached(things)
    rest = list(range(1, len(things)))
    random.shuffle(rest)
    assert digest(things) == digest(things, (0, *rest), turned=True)


@given(graphs(), graphs())
@example(TWO_SETS, [("list", False, [2, 1]), *TWO_SETS[1:]])
@settings(max_examples=300)
def test_two_graphs_have_one_digest_only_if_they_are_alike(one, other):
    one, other = reached(one), reached(other)
    assert (digest(one) == digest(other)) == alike(one, other)


@given(graphs(), st.data())
@settings(max_examples=300)
def test_what_a_thing_holds_in_a_place_counts(things, data):
    things = reached(things)
    number = data.draw(st.integers(0, len(things) - 1))
    word, any_order, parts = things[number]
    if parts:
        at = data.draw(st.integers(0, len(parts) - 1))
        changed = [*parts[:at], data.draw(st.integers(0, len(things) - 1)), *parts[at + 1 :]]
        changed = list(dict.fromkeys(changed)) if any_order else changed
        twin = reached([*things[:number], (word, any_order, changed), *things[number + 1 :]])
        assert (digest(things) == digest(twin)) == alike(things, twin)
