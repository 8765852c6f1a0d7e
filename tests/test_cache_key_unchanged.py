"""What a process has done, or another run does otherwise, changes no key."""

import functools
import gc
import inspect
import logging
import subprocess
import sys
import threading
import typing
from types import SimpleNamespace

import numpy as np
import pytest
from programs import defined

from threadloader.cache import _arrays, key_of
from threadloader.cache._arrays import contents


def test_what_the_process_has_done_does_not_count(tmp_path):
    """Loggers, paths and locks have attributes that change while a program runs."""
    logger, path = logging.getLogger("one of mine"), tmp_path / "a"
    before = key_of(logger, path, threading.Lock())
    logging.getLogger("another of mine")
    assert hash(path) is not None
    assert str(path)
    assert before == key_of(logger, path, threading.Lock())


def test_what_a_class_is_made_of_by_the_interpreter_does_not_count():
    """Where it stands, how it is explained, whose slots and tables it has."""
    text = (
        "import abc\nclass G(abc.ABC):\n    __slots__ = ('a',)\n    def go(self): return 1\nf = G"
    )
    moved = text.replace("class", "\n\n# moved\nclass", 1).replace(
        "abc.ABC):", "abc.ABC):\n    'What it is.'", 1
    )
    assert key_of(defined(text)) == key_of(defined(text)) == key_of(defined(moved))


ANNOTATED = "class G:\n    size: int = 3\n    def __call__(self, s: str) -> str: return s\nf = G()"


@pytest.mark.parametrize(
    "text",
    [
        ANNOTATED,
        ANNOTATED.replace(": int", "").replace(": str", "").replace(" -> str", ""),
        f"import dataclasses\n@dataclasses.dataclass\n{ANNOTATED}",
        f"import dataclasses\n@dataclasses.dataclass(slots=True)\n{ANNOTATED}",
    ],
    ids=["annotated", "not annotated", "dataclass", "dataclass with slots"],
)
def test_where_a_class_stands_and_who_has_asked_for_its_annotations_does_not_count(text):
    """From CPython 3.14 on they come when asked, from what holds all that the class has."""
    thing = defined(text)
    before = key_of(thing)
    assert before == key_of(defined(f"# moved\n{text}"))
    gc.collect()
    assert before == key_of(thing)
    inspect.get_annotations(type(thing))
    assert isinstance(getattr(type(thing), "__annotations__", {}), dict)
    assert before == key_of(thing)


ATTRS = """
import attrs
from functools import cached_property
from threadloader.cache import key_of
@attrs.frozen
class Cut:
    size: int = 3
    @cached_property
    def end(self):
        return self.size + {}
    def __call__(self, sample):
        return sample[: self.end]
print(key_of(Cut()), key_of(Cut(2)))
"""


def test_what_attrs_makes_for_a_class_is_the_same_in_every_run(tmp_path, run_child):
    """Into the code of a `__hash__` it writes the hash of a text, another one in each process."""
    pytest.importorskip("attrs")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import cut"

    def told(more: int, seed: str) -> list[str]:
        (tmp_path / "cut.py").write_text(ATTRS.format(more), encoding="utf-8")
        return run_child(code, str(tmp_path), env={"PYTHONHASHSEED": seed}).stdout.split()

    first, again, changed = told(1, "1"), told(1, "2"), told(10, "1")
    assert first == again
    # What a cached property does stands in the defaults of a function that attrs has made.
    assert 4 == len({*first, *changed})


def test_a_name_of_an_annotation_counts_and_not_what_it_has_been_found_to_be():
    """Nor all that its module has, as it would be pickled."""
    name = typing.ForwardRef("Text")
    before = key_of(name)
    typing.get_type_hints(SimpleNamespace(__annotations__={"x": name}), {"Text": str})
    assert before == key_of(name) != key_of(typing.ForwardRef("Number"))


def test_members_of_an_enumeration_count_and_what_is_made_of_them_does_not():
    """A combination of flags is kept by its class when somebody asks for it first."""
    text = "from enum import Flag\nclass G(Flag):\n    A = 1\n    B = {}\nf = G"
    flags = defined(text.format(2))
    before = key_of(flags)
    assert 3 == (flags.A | flags.B).value
    assert before == key_of(flags) == key_of(defined(text.format(2)))
    assert before != key_of(defined(text.format(4)))


def test_the_level_of_a_log_does_not_count():
    """Whoever asks to be told more gets the same samples."""
    log = logging.getLogger("one of mine")
    before = key_of(log)
    log.setLevel(logging.DEBUG)
    try:
        assert before == key_of(log)
    finally:
        log.setLevel(logging.NOTSET)


def test_what_torch_s_compiler_leaves_at_a_function_does_not_count_and_stays():
    keys = set()
    for address in (1, 2):
        f = defined("def f(x): return x")
        f._torchdynamo_wrapper_id = address
        keys.add(key_of(f))
        assert address == f._torchdynamo_wrapper_id
    assert 1 == len(keys)


def test_that_something_was_pickled_does_not_count():
    """Python leaves in the class which slots there are."""
    kind = defined("class f:\n    __slots__ = ('a',)")
    before = key_of(kind)  # that of an object would ask for what it is pickled as
    kind().__reduce_ex__(2)
    assert "__slotnames__" in vars(kind)
    assert before == key_of(kind)


def test_the_environment_of_the_process_does_not_count(monkeypatch):
    """It is another one in each shell; which part of it a transform looks at, nobody can see."""
    f = defined("from os import environ\ndef f(x): return environ.get('SCALE'), x")
    before = key_of(f)
    monkeypatch.setenv("SCALE", "2")
    assert before == key_of(f)


def test_the_state_of_numpy_s_global_generator_does_not_count():
    """Distributions of scipy hold it: it has another state in each run."""
    everybody_s = np.random.mtrand._rand
    before = key_of(SimpleNamespace(random_state=everybody_s))
    state = everybody_s.get_state()
    everybody_s.random()
    try:
        assert before == key_of(SimpleNamespace(random_state=everybody_s))
    finally:
        everybody_s.set_state(state)


def test_every_run_gives_the_same_key():
    """Whatever the order of sets in this run."""
    code = """
from threadloader.cache import key_of
import abc, argparse, enum, functools, logging, random, re, string, types
from collections import OrderedDict, defaultdict
from pathlib import Path
import numpy as np
words = {"a", "b", "c", "d"}
class H:
    def __init__(self): self.lock = __import__("threading").Lock()
class Kind(enum.Flag):
    A, B = 1, 2
def f(x, more=frozenset("xyz")):
    return x in words or x in {"p", "q", "r"}
class G:
    def __init__(self): self.here = {"a": words}
    def __call__(self, x): return f(x)
class K(abc.ABC):
    words, more, kind = words, defaultdict(set, a=words), Kind.A | Kind.B
    ordered = OrderedDict(a=words)
    spaces = types.SimpleNamespace(a=words), argparse.Namespace(a=[H()])
    objects = np.array([words, H(), None], object), np.dtype("i4,f4"), np.float32(1)
    many = {Path(word) for word in words} | {frozenset({Path(word), H}) for word in words}
    more_of_them = {Kind.A, Kind.B, frozenset(words), *map(np.float32, range(9)), len, f}
    drawn = np.random.default_rng(1), random.Random(1), np.add, string.Template("a")
    path, log, pattern = Path("a"), logging.getLogger("a"), re.compile("a")
    partial, held, kinds = functools.partial(f, more=words), H(), Kind
    again = functools.partialmethod(f, words)
    class Inner:
        here: "H | Kind | G"
        here = H
    @functools.lru_cache
    def cached(self): return words
    @functools.cached_property
    def later(self): return words
    @functools.singledispatchmethod
    def chosen(self, x): return words
    @staticmethod
    def aside(): return H()
def g(x): return Wrapped(x), K
Wrapped = functools.wraps(f)(G())
print(key_of(f, G(), G().__call__, {"type": "text", "path": ["a", "b"]}, K, K(), g, 10**5000))
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


def test_calls_do_not_change_a_function_that_dispatches():
    """It remembers which of its functions a class was dispatched to."""

    def made(value):
        one = functools.singledispatch(lambda sample: sample)
        one.register(int, defined(f"def f(sample): return sample * {value}"))
        return one

    called = made(2)
    before = key_of(called)
    assert 6 == called(3)
    assert before == key_of(called) == key_of(made(2)) != key_of(made(3))


LONG = [np.dtype("g"), np.dtype("G"), np.dtype("g").newbyteorder()]


def clear(array):
    """Makes all values 0, and leaves what is beside them."""
    for name in array.dtype.names or ():
        clear(array[name])
    if array.dtype.char in "gG":
        used = slice(None, 10) if array.dtype.isnative else slice(-10, None)
        array.view(np.uint8).reshape(-1, np.dtype("g").itemsize)[:, used] = 0
    elif not array.dtype.names:
        array[...] = 0


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype("i1,f8", align=True),
        np.dtype([("a", "i1"), ("b", [("c", "i1"), ("d", "i4")], 2)], align=True),
        *(
            pytest.param(
                dtype,
                marks=pytest.mark.skipif(
                    np.finfo(np.longdouble).nmant != 63, reason="it has no bytes that are not used"
                ),
            )
            for dtype in LONG
        ),
    ],
    ids=str,
)
def test_what_lies_beside_the_values_of_an_array_does_not_count(dtype):
    """It is whatever was in memory before, another thing in each process."""
    one, other = np.zeros(3, dtype), np.zeros(3, dtype)
    other.view(np.uint8)[:] = 255
    clear(other)
    assert one.tobytes() != other.tobytes()
    assert key_of(one) == key_of(other)
    other[1] = 1
    assert key_of(one) != key_of(other)


@pytest.mark.parametrize(
    "dtype", ["i4,f4,f8", [("a", "i2", (2, 3)), ("b", [("c", "U2")])]], ids=str
)
def test_an_array_of_records_without_gaps_is_not_copied(dtype, monkeypatch):
    """It may be a file that is mapped, larger than memory."""
    one, other = np.zeros(3, dtype), np.zeros(3, dtype)
    told = []
    monkeypatch.setattr(_arrays, "contents", lambda array: told.append(array) or contents(array))
    assert key_of(one) == key_of(other)
    assert [one.dtype] * 2 == [array.dtype for array in told]
