"""What a function or an object keeps from call to call is seen, wherever it keeps it."""

import functools
import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass

import faults
import numpy as np
import pytest
from frameworks import framework

from threadloader import verify
from threadloader.verify._inner_state import changed, held


def test_what_a_call_has_changed_is_named():
    """Variables, attributes, closures, defaults, items, arguments of a partial, classes."""

    class Holder:
        total = 0

        def __init__(self):
            self.parts = [faults.Augment()]
            self.seen = np.zeros(2)

        def method(self, sample):
            self.seen[0] += 1

        def __call__(self, sample):
            Holder.total += 1
            self.parts[0].draws.random()

    def remembers(sample, memory=[]):  # noqa: B006 - what is looked for
        memory.append(sample)
        remembers.calls = getattr(remembers, "calls", 0) + 1

    holder, numbers = Holder(), itertools.count()

    def counts(sample):
        return next(numbers)

    for function, expected in [
        (holder, ["Holder.total", "Holder.parts[0].draws"]),
        (holder.method, ["self.seen"]),
        (remembers, ["memory", "remembers.calls"]),
        (counts, ["numbers"]),
        (functools.partial(lambda box, sample: box.append(sample), []), ["partial[0]"]),
        (faults.careless, []),
    ]:
        before = held(function)
        function(1)
        assert expected == changed(before, held(function))


def test_a_legacy_generator_is_seen_and_what_cannot_be_compared_is_passed_over():
    legacy, strange = np.random.RandomState(3), np.array([object()])

    def function(sample):
        strange[0] = object()
        return legacy.random_sample()

    before = held(function)
    function(1)
    assert ["legacy"] == changed(before, held(function))


def test_what_torch_keeps_is_seen():
    torch = framework("torch")
    generator, total = torch.Generator().manual_seed(0), torch.zeros(1)

    def function(sample):
        total.add_(1)
        return torch.rand(1, generator=generator)

    before = held(function)
    function(1)
    assert ["total", "generator"] == changed(before, held(function))


def test_a_function_that_is_not_written_in_python_keeps_nothing_that_can_be_seen():
    assert [] == changed(held(len), held(len))


def test_a_variable_that_is_not_yet_there_is_passed_over():
    def function(sample):
        return later

    before = held(function)
    later = 1
    assert [] == changed({}, before)
    assert {} != held(function)


def changed_by(function, calls=1):
    """The places that calls change."""
    before = held(function)
    for _ in range(calls):
        function(1)
    return changed(before, held(function))


# Objects.


@dataclass
class Count:
    """The default of a field is an attribute of the class, too."""

    n: int = 0

    def __call__(self, sample):
        self.n += 1
        return sample + self.n


@dataclass(slots=True)
class Slotted:
    n: int = 0

    def __call__(self, sample):
        self.n += 1
        return sample + self.n


class Base:
    __slots__ = ("_numbers", "never")

    def __init__(self):
        self._numbers = [0]


class Inheriting(Base):
    __slots__ = ("__n",)

    def __init__(self):
        super().__init__()
        self.__n = 0

    def __call__(self, sample):
        self.__n += 1
        self._numbers[0] += 1
        return sample + self.__n


class OfClass:
    """Its objects have an attribute of the same name; the class's own one is counted."""

    n = 0

    def __init__(self):
        self.n = -1

    def __call__(self, sample):
        OfClass.n += 1
        return sample + OfClass.n


class Beginning:
    """The attribute comes with the first call."""

    n = 0

    def __call__(self, sample):
        self.n += 1
        return sample + self.n


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        (Count, ["Count.n"]),
        (Slotted, ["Slotted.n"]),
        (Inheriting, ["Inheriting._numbers", "Inheriting._Inheriting__n"]),
        (OfClass, ["OfClass.n"]),
        (Beginning, ["Beginning.n"]),
    ],
)
def test_attributes_of_an_object_and_of_its_class_are_seen(kind, places):
    """Also in slots, and where both have the same name."""
    assert places == changed_by(kind())


@pytest.mark.parametrize("kind", [Count, Slotted])
def test_a_dataclass_that_counts_is_named_as_the_cause(kind):
    report = verify.run({"batch_size": 4}, source=lambda: list(range(24)), transform=kind())
    assert [("transform", "own-state")] == [(it.part, it.kind) for it in report.causes]
    assert f"({kind.__name__}.n)" in report.causes[0].says


def test_a_constant_in_two_places_changes_only_where_it_changes():
    """The count goes by the number that the limit is, which is the same object."""

    class Limited:
        def __init__(self):
            self.count, self.limit = 0, 1

        def __call__(self, sample):
            self.count += 1

    assert ["Limited.count"] == changed_by(Limited())


# Containers and iterators.


def rounds():
    n = 0
    while True:
        yield n
        n += 1


def lines():
    yield 1
    yield 2


OPAQUE = [object() for _ in range(9)]


@pytest.mark.parametrize(
    ("kept", "move", "places"),
    [
        (deque([1, 2]), deque.rotate, ["kept"]),
        (deque([1, 2] * 999), deque.pop, ["kept"]),
        (deque([[object()], [1]]), lambda kept: kept[1].append(2), ["kept[1]"]),
        ({1, 2}, lambda kept: kept.add(3), ["kept"]),
        ({1, 2}, lambda kept: kept.symmetric_difference_update({2, 3}), ["kept"]),
        ({*OPAQUE}, lambda kept: kept.discard(OPAQUE[3]), ["kept"]),
        ({*range(1999)}, lambda kept: kept.add(-1), ["kept"]),
        ([np.zeros(99_999)], lambda kept: kept.append(kept[0]), ["kept"]),
        ({"a": object()}, lambda kept: kept.update(b=object()), ["kept"]),
        ({"a": random.Random(3)}, lambda kept: kept["a"].random(), ["kept['a']"]),
        (defaultdict(random.Random, {3: 4}), lambda kept: kept[5], ["kept"]),
        (itertools.count(), next, ["kept"]),
        (rounds(), next, ["kept"]),
        (lines(), next, ["kept"]),
    ],
    ids=lambda it: type(it).__name__,
)
def test_what_containers_and_generators_hold_is_seen(kept, move, places):
    assert places == changed_by(lambda sample: move(kept))
    assert [] == changed(held(lambda: kept), held(lambda: kept))


@pytest.mark.parametrize("kind", [dict, list, set, deque])
def test_a_container_of_the_users_own_kind_is_seen_with_its_attributes(kind):
    class Source(kind):
        reads = 0

        def __call__(self, sample):
            self.reads += 1

    assert ["Source.reads"] == changed_by(Source([(1, object())]))


def test_a_generator_is_seen_to_go_on_and_to_end():
    kept = rounds()
    next(kept)
    assert ["kept.n"] == changed_by(lambda sample: next(kept))
    assert ["kept"] == changed_by(lambda sample: kept.close())


@pytest.mark.skipif(
    not hasattr(itertools.cycle, "__setstate__"), reason="CPython 3.14 shows no cycle's state"
)
@pytest.mark.parametrize("calls", range(1, 8))
def test_a_cycle_is_seen_to_move_in_each_round(calls):
    """Also where a call moves it by one round and one item; looking does not move it."""
    kept = itertools.cycle("abc")
    for expected in "abcabca"[:calls]:
        assert [] == changed(held(lambda: kept), held(lambda: kept))
        assert expected == next(kept)
    assert ["kept"] == changed_by(lambda sample: next(kept), calls=4)


def test_a_cycle_that_does_not_show_its_state_is_passed_over(monkeypatch):
    """As with CPython 3.14."""

    class Cycle(itertools.cycle):
        def __reduce__(self):
            raise TypeError("cannot pickle 'itertools.cycle' object")

    kept = Cycle("abc")
    assert [] == changed_by(lambda sample: next(kept))


def test_what_gives_anything_for_a_name_that_it_lacks_is_named_by_its_class():
    """As the usual dict whose items are attributes."""

    class Items(dict):
        __getattr__ = dict.get

    kept = Items(calls=0)
    before = held(kept)
    kept["calls"] += 1
    assert ["Items"] == changed(before, held(kept))


def test_what_cannot_be_looked_into_is_passed_over():
    """Its own code raises, or it is not what it says; what never ends is not asked."""

    class Closed:
        @property
        def __dict__(self):
            raise ValueError("closed")

    class Endless(deque):
        def __iter__(self):
            return itertools.count()

        __len__ = None

    class Lying:
        __class__ = set

    closed, endless, lying, number = Closed(), Endless([object()]), Lying(), [0]

    def function(sample):
        number[0] += bool((closed, endless, lying))

    assert ["number"] == changed_by(function)
