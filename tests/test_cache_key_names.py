"""What stands behind a name counts, whether code, an annotation or a text has the name."""

import importlib
import sys
import types

import pytest
from programs import defined, keys

from threadloader.cache import _walk, key_of
from threadloader.cache._code import stood_for


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


def test_what_a_class_is_made_of_in_brackets_counts():
    text = "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass G(Generic[T]): pass\n"
    assert 2 == keys(*(f"{text}class F(G[{kind}]): pass\nf = F()" for kind in ("int", "str")))


def test_what_a_module_of_yours_gives_by_its_getattr_counts(monkeypatch):
    def key(size):
        module = types.ModuleType("given_by_name")
        text = f"VALUES = {{'SIZE': {size}}}\ndef __getattr__(name): return VALUES[name]"
        exec(text, vars(module))
        monkeypatch.setitem(sys.modules, "given_by_name", module)
        return key_of(defined("def f(x): return x[: it.SIZE]", it=module))

    assert key(2) == key(2) != key(3)


class Waits:
    """As what stands for ``lazy import`` in a module of CPython 3.15, up to the first use."""

    def __init__(self, resolve):
        self.resolve = resolve

    def __repr__(self):
        return "<lazy_import 'helpers'>"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x[: it]",
        "def f(x): return another.it",
        "class F:\n    part: 'it'\nf = F()",
    ],
)
def test_what_a_lazy_import_leads_to_counts_and_is_the_same_before_and_after(monkeypatch, text):
    monkeypatch.setattr(_walk, "_LAZY", Waits)

    def key(it):
        module, another = types.ModuleType("written_here"), types.ModuleType("another_of_mine")
        monkeypatch.setitem(sys.modules, "written_here", module)
        module.it = another.it = it
        module.another = another
        exec(text, vars(module))
        return key_of(module.f)

    for one, other in ((4, 5), (defined("def f(): return 1"), defined("def f(): return 2"))):
        waiting = [key(Waits(lambda it=it: it)) for it in (one, other)]
        assert [key(one), key(other)] == waiting
        assert waiting[0] != waiting[1]


def test_a_lazy_import_that_fails_counts_by_its_error(monkeypatch):
    """It may be of a package that few need; and what a handler raises meanwhile is raised."""
    monkeypatch.setattr(_walk, "_LAZY", Waits)

    def key(error):
        def resolve():
            raise error

        return key_of(defined("def f(x): return it", it=Waits(resolve)))

    assert key(ImportError("a")) == key(ImportError("b")) != key(ValueError("a"))
    with pytest.raises(KeyboardInterrupt):
        key(KeyboardInterrupt())


@pytest.mark.skipif(not hasattr(types, "LazyImportType"), reason="CPython before 3.15")
@pytest.mark.parametrize(
    "line", ["lazy import lazily_here as it", "lazy from lazily_here import g"]
)
def test_what_is_edited_behind_a_lazy_import_is_another_key(monkeypatch, tmp_path, line):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of files that differ by a digit
    found = []
    for number in (1, 2):
        (tmp_path / "lazily_here.py").write_text(f"def g(x): return x + {number}\n")
        monkeypatch.delitem(sys.modules, "lazily_here", raising=False)
        importlib.invalidate_caches()
        call = "it.g(x)" if "as it" in line else "g(x)"
        f = defined(f"{line}\ndef f(x): return {call}")
        found.append(key_of(f))
        assert f(0) == number
        assert found[-1] == key_of(f)  # the name has been used by now
    assert found[0] != found[1]


@pytest.mark.parametrize("as_", ["", " as e"])
@pytest.mark.parametrize(
    "found",
    [
        "importlib.import_module('own_e')",
        "importlib.import_module(NAME)",
        "__import__('own_e')",
        "sys.modules['own_e']",
    ],
)
def test_a_module_that_is_imported_where_the_file_begins_counts_however_it_is_found(
    found, as_, tmp_path, monkeypatch, caplog
):
    """As the warning advises; and of it alone what is named, as of any module."""

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of files that differ by a digit

    def key(size, other):
        (tmp_path / "own_e.py").write_text(f"SIZE, other = {size}, {other}")
        monkeypatch.delitem(sys.modules, "own_e", raising=False)
        importlib.invalidate_caches()
        text = f"import importlib, sys, own_e{as_}\nNAME = 'own_e'\ndef f(x): return {found}.SIZE"
        return key_of(defined(text))

    assert key(1, 1) == key(1, 2) != key(2, 1)
    assert [] == caplog.messages


def test_a_part_of_a_package_that_is_imported_where_the_file_begins_counts(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # as above
    (tmp_path / "own_q").mkdir()
    (tmp_path / "own_q" / "__init__.py").write_text("")

    def key(size, body):
        (tmp_path / "own_q" / "inner.py").write_text(f"SIZE = {size}")
        for name in ("own_q", "own_q.inner"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return key_of(defined(f"import importlib, own_q.inner\ndef f(x):\n    {body}"))

    for body in (
        "return importlib.import_module('own_q.inner').SIZE",
        "import own_q.inner as it; return it.SIZE",
        "from own_q.inner import SIZE; return SIZE",
    ):
        assert key(1, body) != key(2, body)
    assert [] == caplog.messages


def test_a_module_that_names_itself_need_not_be_among_the_modules(tmp_path, monkeypatch):
    """As one that was made by `module_from_spec` and `exec_module`."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_r.py").write_text("")
    text = "def f(x): import importlib; return importlib.import_module('own_r').SIZE"
    assert key_of(defined(text, __name__="own_r"))
