"""The key changes with what samples are made of, and with nothing else."""

import contextlib
import ctypes
import functools
import gc
import inspect
import json
import logging
import math
import os
import re
import subprocess
import sys
import threading
import tracemalloc
import types
import typing
import zipfile
import zlib
from argparse import Namespace
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ids import shown

from threadloader.cache import _walk, key_of
from threadloader.cache._arrays import contents
from threadloader.cache._code import stood_for
from threadloader.cache._kinds import hides_state, installed, said
from threadloader.cache._walk import UntoldError
from threadloader.errors import ConfigError


class Chain(list):
    """A list with a method: its class counts as well."""

    def __call__(self, sample):
        return self[0](sample)


class Wrapping:
    """Looks like what it wraps, and does more."""

    def __init__(self, function, times):
        functools.update_wrapper(self, function)
        self.times = times


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


DISPATCHED = """
from functools import singledispatch
@singledispatch
def f(x): return 0
@f.register
def _(x: int): return {}
"""


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
        ("class G(list): pass\nf = G", "class G(dict): pass\nf = G"),
        (
            "class M(type):\n    n = 1\nclass G(metaclass=M): pass\ndef f(x): return G.n",
            "class M(type):\n    n = 2\nclass G(metaclass=M): pass\ndef f(x): return G.n",
        ),
        (DISPATCHED.format(1), DISPATCHED.format(2)),
        (
            "import datetime as d\nt = d.time(1)\ndef f(x): return t",
            "import datetime as d\nt = d.time(1, fold=1)\ndef f(x): return t",
        ),
        ("def f(x): return f.n\nf.n = 1", "def f(x): return f.n\nf.n = 2"),
        (
            "def f(x): return (lambda a, b: a - b)(a=5, b=3)",
            "def f(x): return (lambda b, a: b - a)(a=5, b=3)",
        ),
        ("def f(x, *, a, b): return a - b", "def f(x, *, b, a): return b - a"),
        ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
        ("V = {'a': 1}\ndef f(x): return V[x]", "V = {'a': 2}\ndef f(x): return V[x]"),
        (
            "class G:\n    def a(x): return x\n    def b(x): return -x\ndef f(x): return vars(G)",
            "class G:\n    def b(x): return -x\n    def a(x): return x\ndef f(x): return vars(G)",
        ),
        (
            "def a(x): return x\nL = [a]\ndef f(x): return L[0].__name__",
            "def b(x): return x\nL = [b]\ndef f(x): return L[0].__name__",
        ),
        ("def f(x): return x\nf.__name__ = 'a'", "def f(x): return x\nf.__name__ = 'b'"),
        (
            "def f(x):\n    def a(): pass\n    return a.__name__",
            "def f(x):\n    def b(): pass\n    return b.__name__",
        ),
        (
            "def f(x):\n    a = x\n    return locals()",
            "def f(x):\n    b = x\n    return locals()",
        ),
        (
            "def f(x):\n    a = x\n    return [lambda: a, vars()]",
            "def f(x):\n    b = x\n    return [lambda: b, vars()]",
        ),
        ("def f(x, *a): return locals()", "def f(x, *b): return locals()"),
    ],
)
def test_another_program_is_another_key(one, other):
    assert key_of(defined(one)) == key_of(defined(one))
    assert key_of(defined(one)) != key_of(defined(other))


CLASS = """
import functools, re, types
from enum import Enum
from pathlib import Path
import numpy as np
class H:
    def __init__(self, n): self.n = n
    def __call__(self, x): return self.n
class G:
    {}
f = G()
"""


@pytest.mark.parametrize(
    "line",
    [
        "n = re.compile('{}')",
        "n = np.float32({})",
        "n = np.dtype('i{}')",
        "n = np.arange({})",
        "n = Path('{}')",
        "n = range({})",
        "n = functools.partial(max, {})",
        "n = functools.partialmethod(max, {})",
        "n = functools.lru_cache(lambda self: {})",
        "n = staticmethod(functools.cache(lambda: {}))",
        "n = classmethod(functools.lru_cache(3)(lambda kind: {}))",
        "n = functools.cached_property(lambda self: {})",
        "n = functools.singledispatchmethod(lambda self, x: {})",
        "n = property(None, lambda self, x: {})",
        "n = types.SimpleNamespace(a={})",
        "n = Enum('E', {{'A': {}}})",
        "n = H({})",
        "n = [H, H({})]",
        "__call__ = H({})",
        "__call__ = functools.partialmethod(max, {})",
        "class n: m = {}",
        "class n(H):\n        def go(self): return {}",
    ],
)
def test_all_that_a_class_has_is_seen(line):
    one, same, other = (defined(CLASS.format(line.format(n))) for n in (1, 1, 2))
    assert key_of(one) == key_of(same)
    assert key_of(one) != key_of(other)


def test_integers_of_any_size_are_seen():
    """Python writes none of more than 4,300 digits in decimal."""
    one, other = 10**5000, 10**5000 + 1
    for make in (lambda n: n, lambda n: {n}, lambda n: {(n,)}, lambda n: functools.partial(max, n)):
        assert key_of(make(one)) == key_of(make(one)) != key_of(make(other))
    assert key_of(range(one))


def test_what_a_module_of_yours_has_is_seen_where_it_is_named():
    settings = types.ModuleType("settings_of_mine")
    settings.SIZE, settings.other = 1, 1
    text = "def f(x): return x[: settings.SIZE]"
    before = key_of(defined(text, settings=settings))
    settings.other = 2
    assert before == key_of(defined(text, settings=settings))
    settings.SIZE = 2
    assert before != key_of(defined(text, settings=settings))


def test_what_a_module_inside_a_package_has_is_seen():
    """As after ``import package.texts``, which binds the package's name alone."""
    package, texts = (types.ModuleType(name) for name in ("package_of_mine", "its_texts"))
    package.texts, texts.package = texts, package  # as a module that imports its package
    text = "def f(x): return package.texts.f(x)"
    found = []
    for clean in ("def f(x): return x + 1", "def f(x): return x + 2"):
        texts.f = defined(clean)
        found.append(key_of(defined(text, package=package)))
        assert found[-1] == key_of(defined(text, package=package))
    assert found[0] != found[1]


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
        (np.array([None, 1]), np.array([None, 2])),
        (np.array(["a", [1]], object), np.array(["a", [2]], object)),
        (np.array([(1, "a")], "i4,O"), np.array([(1, "b")], "i4,O")),
        (np.dtype("<f4"), np.dtype(">f4")),
        (np.dtype("S3"), np.dtype("S4")),
        (np.dtype("i4,f4"), np.dtype("i4,f8")),
        (np.dtype("i4,f4"), np.dtype([("a", "i4"), ("f1", "f4")])),
        (np.dtype("i4,i8"), np.dtype("i4,i8", align=True)),
        (np.zeros(2, "<f4"), np.zeros(2, ">f4")),
        (np.zeros(1, "i4,f4"), np.zeros(1, "i4,i4")),
        (Namespace(a=[1]), Namespace(a=[2])),
        (SimpleNamespace(a=np.zeros(2)), SimpleNamespace(a=np.ones(2))),
        (SimpleNamespace(a=Slots()), SimpleNamespace(a=Slots(n=1))),
        (defaultdict(list), defaultdict(set)),
        (Wrapping(len, 1), Wrapping(len, 2)),
        (Wrapping(len, 1), Wrapping(max, 1)),
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


@pytest.mark.skipif(
    not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="numpy 2 has them"
)
def test_texts_of_any_length_are_seen():
    """They stand elsewhere, and the array has their addresses."""
    one, same, other = (np.array(["a" * 50, text], "T") for text in ("b" * 50, "b" * 50, "c" * 50))
    assert key_of(one) == key_of(same) != key_of(other)


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


def test_functions_of_the_library_count_by_name(monkeypatch):
    """Not their code, which is another one in the next version of Python."""
    before = key_of(functools.wraps)
    assert key_of(functools.reduce) != before
    code = (lambda x: 1).__code__.replace(co_qualname="wraps")
    namesake = types.FunctionType(code, {"__name__": "functools"}, "wraps")
    namesake.__module__, namesake.__qualname__ = "functools", "wraps"
    monkeypatch.setattr(functools, "wraps", namesake)
    assert before == key_of(functools.wraps)


@pytest.mark.parametrize("name", ["json.loads", "functools.reduce", "numpy.mean"])
def test_a_function_of_yours_that_wraps_one_of_the_library_is_yours(name):
    """What says its module and its name is copied from there."""
    module, function = name.split(".")
    text = f"""
import functools, {module}
def f(x): return {{}}
f = functools.wraps({name})(f)
"""
    one, same, other = (defined(text.format(n)) for n in (1, 1, 2))
    assert function == one.__name__
    assert key_of(one) == key_of(same) != key_of(other)


def test_a_function_of_yours_in_the_place_of_one_of_the_library_is_yours(monkeypatch):
    def put_there(n):
        def f(x):
            return n

        monkeypatch.setattr(json, "loads", functools.wraps(json.loads)(f))
        return key_of(f)

    assert put_there(1) != put_there(2)


def test_two_functions_of_the_library_around_one_of_yours_are_told_apart():
    """They have your function's name, both of them."""

    def f():
        yield 1

    assert key_of(contextlib.contextmanager(f)) == key_of(contextlib.contextmanager(f))
    assert key_of(contextlib.contextmanager(f)) != key_of(contextlib.asynccontextmanager(f))


def test_a_module_of_yours_with_the_name_of_one_of_the_library_is_yours(tmp_path, monkeypatch):
    found = []
    for n in (1, 2):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "colorsys.py").write_text(f"def scaled(x): return x * {n}")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            patch.delitem(sys.modules, "colorsys", raising=False)
            found.append(key_of(import_module("colorsys").scaled))
            del sys.modules["colorsys"]
    assert found[0] != found[1]


def test_a_module_of_the_library_is_known_by_its_folder():
    for name in ("colorsys", "json.decoder", "sys", "zipimport", "array", "numpy", "numpy.linalg"):
        import_module(name)
        assert installed(name)


ARCHIVE = """
import os
import sys

library, archive, packages = os.path.dirname(os.__file__), sys.argv[1], sys.argv[2]
sys.path[:] = [sys.path[0], os.getcwd(), archive, library, library + "/lib-dynload", packages]
import colorsys
import types
import zipfile

from threadloader.cache._kinds import installed

print(types.__file__.startswith(archive), installed("colorsys"), installed("numpy"))
"""


def test_a_standard_library_in_an_archive_is_known(run_child, tmp_path):
    """As in a Python that is embedded; `os`, which is part of the interpreter, is not in it."""
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("colorsys.py", "types.py"):
            file.write(Path(os.__file__).with_name(name), name)
    packages = str(Path(np.__file__).parents[1])
    done = run_child(ARCHIVE, str(archive), packages, flags=["-S"])
    assert ("True True True\n", "") == (done.stdout, done.stderr)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed module, whose functions make functions."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "scaling_library.py").write_text(
        """
def by_default(n):
    def scaled(x, n=n): return x * n
    return scaled
def by_keyword(n):
    def scaled(x, *, n=n): return x * n
    return scaled
def by_attribute(n):
    def scaled(x): return x * scaled.n
    scaled.n = n
    return scaled
class Composed:
    __slots__ = ("first", "others")
    def __init__(self, first, *others): self.first, self.others = first, others
    @property
    def __wrapped__(self): return self.first
"""
    )
    monkeypatch.syspath_prepend(folder)
    yield import_module("scaling_library")
    del sys.modules["scaling_library"]


@pytest.mark.parametrize("name", ["by_default", "by_keyword", "by_attribute"])
def test_what_a_library_s_function_makes_has_all_that_it_was_made_with(library, name):
    make = getattr(library, name)
    assert key_of(make(1)) == key_of(make(1)) != key_of(make(2))


def test_what_a_library_s_object_wraps_is_not_all_that_it_calls(library):
    """As what `compose` of toolz gives, whose other functions stand in slots."""
    double, triple = (lambda x: 2 * x), (lambda x: 3 * x)
    keys = {key_of(library.Composed(abs, each)) for each in (double, triple)}
    assert 2 == len(keys)
    assert key_of(library.Composed(abs, double)) in keys


def test_what_numpy_makes_of_a_function_counts_by_that():
    """Also when it was called: what it has made of it in C has no name that anybody finds."""
    double = np.vectorize(lambda x: 2 * x, otypes=[float])
    before = key_of(double)
    double([1, 2])
    assert before == key_of(double)
    assert before != key_of(np.vectorize(lambda x: 3 * x, otypes=[float]))
    assert before != key_of(np.vectorize(lambda x: 2 * x, otypes=[int]))


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


NAMED = """
{}
from collections import abc
from typing import Callable, List, NewType, TypeVar
class Part:
    size: int = {}
Parts = list["Part"]
New = NewType("New", "list[Part]")
T = TypeVar("T", bound="Part")
U = TypeVar("U", "Part", int)
{}
class F:
    part: {}
f = F()
"""
TABLE = ("", 'type Table[V] = dict[V, "Part"]')[sys.version_info >= (3, 12)]


@pytest.mark.parametrize("begin", ["", "from __future__ import annotations"])
@pytest.mark.parametrize(
    "kind",
    [
        *("'Part'", "list['Part'] | None", "List['Part']", "Parts", "'Parts'"),
        *("T", "U", "New", "Callable[['Part'], int]", "abc.Callable[['Part'], int]"),
        *(("Table[str]", "list[Table[int]]", "Table") if TABLE else ()),
    ],
)
def test_what_a_text_in_an_annotation_names_counts(begin, kind, monkeypatch):
    """Packages that make objects by the annotations of a class look for it in the module."""
    keys = set()
    for size in (1, 2):
        module = types.ModuleType("written_here")
        monkeypatch.setitem(sys.modules, "written_here", module)
        exec(NAMED.format(begin, size, TABLE, kind), vars(module))
        keys.add(key_of(module.f))
    assert 2 == len(keys)


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize(
    "text", ["class f:\n    part: {!r}", "TEXT = {!r}\ndef f(x): return eval(TEXT)"]
)
def test_texts_of_up_to_10_000_characters_are_searched_for_names(text, longer, monkeypatch):
    keys = set()
    for size in (1, 2):
        module = types.ModuleType("written_here")
        monkeypatch.setitem(sys.modules, "written_here", module)
        long = "Part".ljust(10_000 + longer)
        exec(f"class Part:\n    size = {size}\n{text.format(long)}", vars(module))
        keys.add(key_of(module.f))
    assert 2 - longer == len(keys)


def test_a_class_in_an_annotation_is_not_asked_what_it_stands_for():
    """The alias of one would hand the question on to it."""

    class Meta(type):
        def __getattr__(cls, name):
            raise SystemExit(name)

    class Generic(metaclass=Meta):
        __class_getitem__ = classmethod(types.GenericAlias)

    assert key_of(defined("class f:\n    part: alias", alias=Generic[int]))


def test_an_alias_that_holds_itself_is_gone_through_once(monkeypatch):
    """As `type Parts = list[Parts]` makes one, from Python 3.12 on."""
    within = []
    parts = types.GenericAlias(list, (within,))
    within.append(parts)
    module = types.SimpleNamespace(Part=int)
    monkeypatch.setitem(sys.modules, "written_here", module)
    assert key_of(defined("class f:\n    part: parts", parts=parts))


def test_what_a_variable_of_types_cannot_say_hides_nothing_else():
    class Variable:
        __bound__ = int

        @property
        def __default__(self):
            raise NameError("a name that only type checkers import")

    assert int in stood_for(Variable())


class Unbound:
    """A proxy of nothing: it raises whatever it is asked."""

    @property
    def __class__(self):
        raise RuntimeError


def test_what_an_annotation_may_name_is_not_asked_what_it_is(monkeypatch):
    module = types.SimpleNamespace(part=Unbound())
    monkeypatch.setitem(sys.modules, "written_here", module)
    assert key_of(defined("class f:\n    part: 'part'"))


SEEN = {
    "new type": "import typing\nT = typing.NewType('T', {})\ndef f(x): return T.__supertype__(x)",
    "attribute of a partial": (
        "import functools\ndef g(x): return f.to(x)\nf = functools.partial(g)\nf.to = {}"
    ),
    "attribute of what numpy makes": (
        "import numpy as np\n@np.vectorize\ndef f(x): return f.to(x)\nf.to = {}"
    ),
    "bound of a type": "import typing\nT = typing.TypeVar('T', bound={})\ndef f(x): return T",
    "types of which it is one": (
        "import typing\nT = typing.TypeVar('T', {}, float)\ndef f(x): return T"
    ),
    **(
        {"alias of a type": "type T = list[{}]\ndef f(x): return T"}
        if sys.version_info >= (3, 12)
        else {}
    ),
    **(
        {"default of a type": "import typing\nT = typing.TypeVar('T', default={})\nf = lambda: T"}
        if sys.version_info >= (3, 13)
        else {}
    ),
    "attribute of a partial that numpy's have": (
        "import functools\ndef g(x): return f._ufunc\nf = functools.partial(g)\nf._ufunc = {}"
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_stands_behind_a_name_counts(name):
    assert 2 == keys(*(SEEN[name].format(to) for to in ("int", "str", "int")))


def test_a_function_that_looks_itself_up_in_its_module_is_seen(monkeypatch):
    keys = set()
    for size in (1, 2):
        module = types.ModuleType("looked_up")
        monkeypatch.setitem(sys.modules, "looked_up", module)
        text = f"import sys\ndef cut(x): return x[:{size}]\n"
        exec(f"{text}def f(x): return getattr(sys.modules[__name__], 'cut')(x)", vars(module))
        keys.add(key_of(module.f))
    assert 2 == len(keys)


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


def test_what_a_class_is_made_of_in_brackets_counts():
    text = "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass G(Generic[T]): pass\n"
    assert 2 == keys(*(f"{text}class F(G[{kind}]): pass\nf = F()" for kind in ("int", "str")))


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


def test_what_lies_deep_is_seen():
    def nested(innermost):
        for _ in range(10_000):
            innermost = [innermost]
        return innermost

    assert key_of(nested([1])) == key_of(nested([1])) != key_of(nested([2]))


@pytest.mark.parametrize("longer", [1, 12, 40])
def test_what_is_near_is_seen_also_where_a_longer_way_was_gone_first(longer):
    def near(n):
        calls = [f"def a{k}(): return a{k + 1}()" for k in range(longer)]
        calls += [f"def a{longer}(): return z()", "def z(): return y()", f"def y(): return {n}"]
        return defined("\n".join([*calls, "def f(): return a0() * 0 + z()"]))

    assert key_of(near(1)) == key_of(near(1)) != key_of(near(2))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(9)[::-2],
        np.array(3),
        np.zeros((0, 3)),
        np.zeros(3, "S0"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([(1, 2)], "i1,>f8"),
        np.float32(1),
        np.datetime64("2020-01-01"),
    ],
    ids=shown,
)
def test_contents_are_the_bytes_in_c_order(array):
    assert array.tobytes() == bytes(contents(array))


def test_what_is_under_a_mask_counts():
    """Code reads it by `data`, or by `numpy.asarray`."""

    def key(hidden, masked=True):
        return key_of(np.ma.array([1, hidden], mask=[False, masked]))

    assert key(2) == key(2)
    assert 3 == len({key(2), key(100), key(2, masked=False)})


def test_the_metadata_of_a_dtype_count():
    def key(scale, of):
        return key_of(of(np.dtype("i4", metadata={"scale": scale})))

    for of in (lambda dtype: dtype, lambda dtype: np.zeros(2, dtype)):
        assert key(1, of) == key(1, of) != key(2, of)


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


def test_a_script_under_an_installed_program_counts_by_its_code(monkeypatch):
    """As `python -m memory_profiler script.py` runs it: `__main__` keeps the program's file."""
    program = types.ModuleType("__main__")
    program.__file__ = "/usr/lib/python3/site-packages/memory_profiler.py"
    monkeypatch.setitem(sys.modules, "__main__", program)
    f, g = (defined(f"def f(x): return x * {factor}", __name__="__main__") for factor in (2, 3))
    assert key_of(f) != key_of(g)


def test_an_array_is_told_without_a_copy():
    """It may be most of the memory."""
    array = np.ones(1 << 20)
    tracemalloc.start()
    try:
        key_of(array)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("from dataclasses import *\n@dataclass\nclass f:\n    x: int", "int", "float"),
        (
            "from dataclasses import *\n@dataclass\nclass f:\n    x: int = field(metadata={1: 1})",
            *("1: 1", "1: 2"),
        ),
        ("from typing import NamedTuple\nclass f(NamedTuple):\n    x: int", "int", "float"),
        ("from typing import TypedDict\nclass f(TypedDict):\n    x: int", "int", "float"),
        ("class f:\n    __size__ = 1", "1", "2"),
        ("class f:\n    __table__ = {0: [1]}", "[1]", "[2]"),
        ("import numpy\nclass f:\n    __table__ = numpy.array([1])", "[1]", "[2]"),
        ("from enum import Enum\nclass f(Enum):\n    A = 0\n    __t__ = [1]", "[1]", "[2]"),
        ("class f:\n    __slots__ = ('a', 'b')", "'a', 'b'", "'b', 'a'"),
        ("def f(x: int): return x", "int", "float"),
    ],
    ids=[
        *("dataclass", "metadata", "named tuple", "typed dict", "a name", "a table", "an array"),
        *("enumeration", "slots", "function"),
    ],
)
def test_what_a_program_can_read_of_a_class_or_function_counts(text, one, other):
    """As one does that makes numbers of texts by the types of the fields."""
    changed = text[: (at := text.rindex(one))] + other + text[at + len(one) :]
    assert key_of(defined(text)) == key_of(defined(text)) != key_of(defined(changed))


def test_what_a_module_of_yours_gives_by_its_getattr_counts(monkeypatch):
    def key(size):
        module = types.ModuleType("given_by_name")
        text = f"VALUES = {{'SIZE': {size}}}\ndef __getattr__(name): return VALUES[name]"
        exec(text, vars(module))
        monkeypatch.setitem(sys.modules, "given_by_name", module)
        return key_of(defined("def f(x): return x[: it.SIZE]", it=module))

    assert key(2) == key(2) != key(3)


class Pickled:
    """Says by itself how it is pickled."""

    def __reduce__(self):
        raise TypeError("cannot pickle this")


@pytest.mark.parametrize(
    "method",
    [
        "__getattr__(self, name): raise KeyError(name)",
        "__getattr__(self, name): return None",
        "__getnewargs__(self): raise ValueError('not to be pickled')",
    ],
    ids=["raises", "answers", "refuses"],
)
def test_an_object_that_answers_pickling_in_its_own_way_is_known_by_its_attributes(method):
    """Nothing that it raises gets through."""
    text = f"class G:\n    n = 1\n    def {method}\nf = G()"
    assert key_of(defined(text)) == key_of(defined(text))
    assert key_of(defined(text)) != key_of(defined(text.replace("n = 1", "n = 2")))


def test_what_has_a_value_in_c_alone_is_known_by_that(monkeypatch):
    """An extension in a folder of the path, say, is not installed, and its objects have no dict."""
    assert [False, False, True, True] == [
        hides_state(it) for it in (Slots(n=1), Pickled(), zlib.compressobj(), np.random.PCG64())
    ]
    mine = {type(zlib.compressobj()).__module__}
    monkeypatch.setattr(_walk, "installed", lambda name: name not in mine and installed(name))
    with pytest.raises(UntoldError):
        key_of(zlib.compressobj(1))


@pytest.mark.parametrize(
    "thing",
    [
        ctypes.pointer(ctypes.c_int(1)),
        ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1),
        zlib.compressobj(),
    ],
    ids=["pointer", "callback", "compressor"],
)
def test_an_address_or_less_than_all_is_no_value(thing):
    """The next object may have the same address."""
    with pytest.raises(UntoldError):
        key_of(thing)


def test_what_a_structure_of_c_holds_counts_whatever_its_fields_are_called():
    class Point(ctypes.Structure):
        _fields_ = (("P", ctypes.c_int), ("X", ctypes.c_double))

    assert key_of(Point(1, 2)) == key_of(Point(1, 2)) != key_of(Point(1, 3))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<Value object at 0x7f>", False),
        ("< a.Value 0x7fcacb79aa50>", False),
        ("<cdata 'int[]' owning 8 bytes>", False),
        ("<cdata 'int[]' sliced length 2>", False),
        ("<cdata 'char[]' buffer len 2 from 'bytearray' object>", False),
        ("<cdata 'void *' handle to A()>", False),
        ("<cdata 'int' 5>", True),
        ("<Field type=c_int, ofs=0, size=4>", True),
        ("Mask(0xFFFFFF)", True),
    ],
)
def test_what_shows_an_address_says_nothing_of_its_value(text, value):
    class Shown:
        def __repr__(self):
            return text

    assert (text if value else None) == said(Shown())
