"""What is installed counts by its name, and what is yours by its code, whatever its name says."""

import contextlib
import functools
import json
import os
import sys
import types
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from programs import defined

from threadloader.cache import key_of
from threadloader.cache._kinds import installed


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


def test_a_script_under_an_installed_program_counts_by_its_code(monkeypatch):
    """As `python -m memory_profiler script.py` runs it: `__main__` keeps the program's file."""
    program = types.ModuleType("__main__")
    program.__file__ = "/usr/lib/python3/site-packages/memory_profiler.py"
    monkeypatch.setitem(sys.modules, "__main__", program)
    f, g = (defined(f"def f(x): return x * {factor}", __name__="__main__") for factor in (2, 3))
    assert key_of(f) != key_of(g)
