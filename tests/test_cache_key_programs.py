"""The key changes with the program that makes samples, however deep, and with nothing else."""

import pytest
from programs import defined, keys

from threadloader.cache import key_of

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


def test_what_a_function_closes_over_is_seen():
    def cut(length):
        return lambda sample: sample[:length]

    assert key_of(cut(1)) == key_of(cut(1))
    assert key_of(cut(1)) != key_of(cut(2))


@pytest.mark.parametrize("longer", [1, 12, 40])
def test_what_is_near_is_seen_also_where_a_longer_way_was_gone_first(longer):
    def near(n):
        calls = [f"def a{k}(): return a{k + 1}()" for k in range(longer)]
        calls += [f"def a{longer}(): return z()", "def z(): return y()", f"def y(): return {n}"]
        return defined("\n".join([*calls, "def f(): return a0() * 0 + z()"]))

    assert key_of(near(1)) == key_of(near(1)) != key_of(near(2))


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
        ("from enum import *\nclass f(Flag, boundary=CONFORM):\n    A = 1", "CONFORM", "KEEP"),
        ("from abc import ABC\nclass f(ABC): pass\nf.register(int)", "int", "str"),
        ("class f:\n    __slots__ = ('a', 'b')", "'a', 'b'", "'b', 'a'"),
        ("def f(x: int): return x", "int", "float"),
    ],
    ids=[
        *("dataclass", "metadata", "named tuple", "typed dict", "a name", "a table", "an array"),
        *("enumeration", "boundary", "registered", "slots", "function"),
    ],
)
def test_what_a_program_can_read_of_a_class_or_function_counts(text, one, other):
    """As one does that makes numbers of texts by the types of the fields."""
    changed = text[: (at := text.rindex(one))] + other + text[at + len(one) :]
    assert key_of(defined(text)) == key_of(defined(text)) != key_of(defined(changed))
