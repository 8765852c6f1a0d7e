"""The key changes with what samples are made of, and with nothing else."""

import functools
import logging
import math
import re
import subprocess
import sys
import threading
import types
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ids import shown

from threadloader.cache import key_of
from threadloader.cache._samples import DEEPEST
from threadloader.errors import ConfigError


class Chain(list):
    """A list with a method: its class counts as well."""

    def __call__(self, sample):
        return self[0](sample)


class Slots:
    """Has an attribute, or not yet."""

    __slots__ = ("n",)

    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)


def unassigned(*given):
    """Gives a function that closes over a variable, which has a value if one is given."""

    def cut(sample):
        return sample[:length]

    if given:
        (length,) = given
    return cut


def defined(text, **names):
    """Gives the function `f` of a program text, as a module of its own would have it."""
    module = types.ModuleType("written_here")
    vars(module).update(names)
    exec(text, vars(module))
    return module.f


def keys(*texts):
    return len({key_of(defined(text)) for text in texts})


def test_the_same_code_has_the_same_key_wherever_it_stands():
    assert 1 == keys("def f(x): return x + 1", "\n\n# a comment\ndef f(x):\n    return x + 1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x): return x.lower()", "def f(x): return x.upper()"),
        ("def f(x, n=1): return x + n", "def f(x, n=2): return x + n"),
        ("def f(x, *, n=1): return x + n", "def f(x, *, n=2): return x + n"),
        ("N = 1\ndef f(x): return x + N", "N = 2\ndef f(x): return x + N"),
        (
            "N = 1\ndef f(x): return [y + N for y in x]",
            "N = 2\ndef f(x): return [y + N for y in x]",
        ),
        (
            "def g(x): return x + 1\ndef f(x): return g(x)",
            "def g(x): return x + 2\ndef f(x): return g(x)",
        ),
        (
            "class G:\n    n = 1\ndef f(x): return G.n",
            "class G:\n    n = 2\ndef f(x): return G.n",
        ),
        (
            "class G:\n    def go(self): return 1\ndef f(x): return G().go()",
            "class G:\n    def go(self): return 2\ndef f(x): return G().go()",
        ),
        (
            "class G:\n    @property\n    def n(self): return 1\nf = G()",
            "class G:\n    @property\n    def n(self): return 2\nf = G()",
        ),
        (
            "class G:\n    @staticmethod\n    def n(): return 1\nf = G()",
            "class G:\n    @staticmethod\n    def n(): return 2\nf = G()",
        ),
        ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
        ("V = {'a': 1}\ndef f(x): return V[x]", "V = {'a': 2}\ndef f(x): return V[x]"),
    ],
)
def test_another_program_is_another_key(one, other):
    assert key_of(defined(one)) == key_of(defined(one))
    assert key_of(defined(one)) != key_of(defined(other))


def test_what_a_module_of_yours_has_is_seen_where_it_is_named():
    settings = types.ModuleType("settings_of_mine")
    settings.SIZE, settings.other = 1, 1
    text = "def f(x): return x[: settings.SIZE]"
    before = key_of(defined(text, settings=settings))
    settings.other = 2
    assert before == key_of(defined(text, settings=settings))
    settings.SIZE = 2
    assert before != key_of(defined(text, settings=settings))


def test_what_a_function_closes_over_is_seen():
    def cut(length):
        return lambda sample: sample[:length]

    assert key_of(cut(1)) == key_of(cut(1))
    assert key_of(cut(1)) != key_of(cut(2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("a", b"a"),
        (["a", "b"], ["ab"]),
        ([1], (1,)),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.zeros(2), np.ones(2)),
        (np.float32(1), np.float64(1)),
        (functools.partial(math.pow, 1), functools.partial(math.pow, 2)),
        (functools.partial(max, key=len), functools.partial(min, key=len)),
        (math.sin, math.cos),
        (np.add, np.subtract),
        (np, math),
        (str.lower, str.upper),
        ("a".join, "b".join),
        (OrderedDict, dict),
        (functools.lru_cache(lambda x: 1), functools.lru_cache(lambda x: 2)),
        (None, ...),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (Path("a"), Path("b")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Chain([1]).append, Chain([2]).append),
        (Chain([1]).__call__, Chain([2]).__call__),
        (Slots(), Slots(n=1)),
        (unassigned(), unassigned(1)),
        (Chain([1]), Chain([2])),
        (Chain([1]), [1]),
    ],
    ids=shown,
)
def test_other_values_have_other_keys(one, other):
    assert key_of(one) == key_of(one)
    assert key_of(one) != key_of(other)


@dataclass
class Resize:
    size: int
    method: str = "area"

    def __call__(self, sample):
        return sample[: self.size]


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


@pytest.mark.parametrize("kind", [Resize, Slotted])
def test_attributes_of_an_object_are_seen(kind):
    assert key_of(kind(1)) == key_of(kind(1))
    assert key_of(kind(1)) != key_of(kind(2))


def test_objects_inside_objects_are_seen():
    assert key_of([Resize(1), Resize(2)]) != key_of([Resize(1), Resize(3)])


def test_a_fingerprint_takes_the_place_of_everything_else():
    class Tokenizer:
        def __init__(self, name):
            self.name, self.loaded = name, object()

        def fingerprint(self):
            return self.name

    one, other = Tokenizer("a"), Tokenizer("a")
    other.loaded = 1
    assert key_of(one) == key_of(other) != key_of(Tokenizer("b"))
    with pytest.raises(
        ConfigError, match=r"Tokenizer: expected a str from its fingerprint\(\), got"
    ):
        key_of(Tokenizer(1))


def test_what_the_process_has_done_does_not_count(tmp_path):
    """Loggers, paths and locks have attributes that change while a program runs."""
    logger, path = logging.getLogger("one of mine"), tmp_path / "a"
    before = key_of(logger, path, threading.Lock())
    logging.getLogger("another of mine")
    assert hash(path) is not None
    assert str(path)
    assert before == key_of(logger, path, threading.Lock())


def test_objects_in_sets_that_know_each_other_take_no_time():
    """Each of 40 nodes has a set of all: only that they are there is told."""

    class Node:
        def __init__(self, all_nodes):
            self.all_nodes = all_nodes

    nodes = set()
    nodes.update(Node(nodes) for _ in range(40))
    assert key_of(nodes) == key_of(nodes)


def test_which_of_two_comes_again_counts():
    one, other = [], []
    assert key_of([one, other, one]) != key_of([one, other, other])


def test_what_holds_itself_has_a_key():
    endless = []
    endless.append(endless)
    assert key_of(endless) == key_of(endless) != key_of([[]])

    def again(sample):
        return again(sample)

    assert key_of(again) == key_of(again)


def test_functions_of_the_library_count_by_name():
    """Not their code, which is another one in the next version of Python."""
    assert key_of(functools.reduce) != key_of(functools.wraps)
    namesake = types.FunctionType((lambda x: 1).__code__, {})
    namesake.__module__, namesake.__qualname__ = "functools", "wraps"
    assert key_of(functools.wraps) == key_of(namesake)


def test_every_run_gives_the_same_key():
    """Whatever the order of sets in this run."""
    code = """
from threadloader.cache import key_of
words = {"a", "b", "c", "d"}
def f(x, more=frozenset("xyz")):
    return x in words or x in {"p", "q", "r"}
class G:
    def __init__(self): self.here = {"a": words}
    def __call__(self, x): return f(x)
print(key_of(f, G(), G().__call__, {"type": "text", "path": ["a", "b"]}))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in "123"
    }
    assert 1 == len(found)


def test_what_lies_too_deep_counts_by_its_class_alone():
    def nested(innermost):
        for _ in range(DEEPEST):
            innermost = [innermost]
        return innermost

    assert key_of(nested([1])) == key_of(nested([2])) != key_of(nested(OrderedDict()))
