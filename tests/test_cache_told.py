"""The key sees into everything that a transform can hold, or says that it cannot."""

import array
import datetime as dt
import enum
import functools
import io
import json
import mmap
import queue
import random
import string
import struct
import sys
import textwrap
import threading
import types
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec, module_from_spec
from pathlib import PurePath
from random import randint
from types import SimpleNamespace

import numpy as np
import pytest
from frameworks import framework
from ids import shown

from threadloader.cache import key_of, open_cache
from threadloader.cache._kinds import hides_state, pickled_as, said
from threadloader.cache._walk import UntoldError


class Keeper:
    """Holds something."""

    def __init__(self, thing):
        self.things = {"kept": [thing]}


class Text(str):  # noqa: SLOT000 (with attributes, as most are)
    """A text."""


class Size(int):
    """A number."""


class Line(deque):
    """A line of things."""


class Day(dt.date):
    """A day."""


class Price(Decimal):
    """A number of digits."""


class Words(set):
    """A set that says nothing of what is in it."""

    def __iter__(self):
        return iter(())


class Rows(np.ndarray):
    """An array with an attribute."""


class Hidden:
    """Has a slot whose name is its own."""

    __slots__ = ("__n",)

    def __init__(self, n):
        self.__n = n


class Colour(enum.Enum):
    """Two members."""

    RED, BLUE = 1, 2


@dataclass(frozen=True)
class Held:
    """Can be in a set."""

    thing: object


def shared(content):
    memory = mmap.mmap(-1, 3)
    memory.write(content)
    return memory


def moved(name):
    """Two of the same items whose order only an `OrderedDict` knows."""
    found = OrderedDict(a=1, b=2)
    found.move_to_end(name)
    return found


def rows(n):
    found = np.arange(3).view(Rows)
    found.n = n
    return found


def near(n):
    """Some things that know some others, by sets."""

    class Node:
        def __init__(self, number):
            self.number, self.near = number, set()

    nodes = [Node(i) for i in range(30)]
    for i, node in enumerate(nodes):
        node.near.update({nodes[(i + 1) % 30], nodes[(i * 7 + 3) % 30], nodes[(i + n) % 5]})
    return set(nodes)


MADE = {
    "set of arrays' scalars": lambda n: set(np.array([n, 7, 8])),
    "set of paths": lambda n: {PurePath(str(n)), PurePath("b"), PurePath("c")},
    "set of days": lambda n: {dt.date(2020, 1, n), dt.date(2020, 2, 1)},
    "set of members": lambda n: {Colour(n), len, None},
    "set of sets": lambda n: {frozenset({PurePath(str(n))}), frozenset({PurePath("b"), n})},
    "set of objects": lambda n: {Held(n), Held("a"), Held(frozenset({Held(n), Held("b")}))},
    "set of functions": lambda n: {lambda: n, lambda: "a"},
    "sets in a circle": near,
    "class of set": lambda n: Words({n, PurePath("a")}),
    "frozenset": lambda n: frozenset({n, (n, frozenset("ab"))}),
    "cell": lambda n: [types.CellType(n), types.CellType()],
    "weak set": lambda n: [some := [Keeper(n), Keeper("a"), Keeper("b")], weakref.WeakSet(some)],
    "struct": lambda n: struct.Struct("<>"[n - 1] + "h"),
    "template": lambda n: string.Template("$a" * n),
    "wrapper": lambda n: textwrap.TextWrapper(width=10 * n),
    "decoder": lambda n: json.JSONDecoder(object_hook=[dict, list][n - 1]),
    "random": random.Random,
    "generator": np.random.default_rng,
    "random state": np.random.RandomState,
    "bytes in memory": lambda n: io.BytesIO(bytes([n])),
    "view": lambda n: memoryview(bytes([n])),
    "shared memory": lambda n: shared(bytes([n])),
    "bytearray": lambda n: bytearray([n]),
    "array": lambda n: array.array("i", [n]),
    "text of yours": lambda n: Text("ab"[n - 1]),
    "number of yours": Size,
    "line of yours": lambda n: Line([n]),
    "length of a line": lambda n: deque([1], maxlen=n),
    "day of yours": lambda n: Day(2020, 1, n),
    "digits of yours": Price,
    "rows of yours": rows,
    "masked": lambda n: np.ma.masked_array([1, 2, 3], mask=[n == 1, n == 2, 0]),
    "slot of its own": Hidden,
    "order of items": lambda n: moved("ab"[n - 1]),
    "keys": lambda n: {n: 1}.keys(),
    "weak reference": lambda n: [one := Keeper(n), weakref.ref(one)],
    "method of an array": lambda n: (np.arange(3) + n).__getitem__,
    "method of a text": lambda n: "ab"[n - 1].__contains__,
    "what a library calls": lambda n: map(lambda: n, []),
    "function of a library's function": lambda n: functools.singledispatch(lambda x: n).dispatch,
    "member of yours": Colour,
    "vectorized": lambda n: np.vectorize(lambda x: n),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_anew_has_the_same_key_and_another_has_not(name):
    make = MADE[name]
    assert key_of(make(1)) == key_of(make(1)) != key_of(make(2))


def module_with(size):
    """Gives a module as of ``import settings``."""
    module = types.ModuleType("settings_of_mine")
    module.SIZE, module.NAME = size, "SIZE"
    return module


@pytest.mark.parametrize(
    "hold",
    [
        lambda module: (SimpleNamespace(config=module), lambda it: it.config.SIZE),
        lambda module: lambda: module.SIZE,
        lambda module: lambda settings=module: settings.SIZE,
        lambda module: ({"of": [module]}, lambda it: it["of"][0].SIZE),
        lambda module: functools.partial(getattr, module, "SIZE"),
        lambda module: lambda: getattr(module, module.NAME),
        lambda module: (module_with(module).SIZE.SIZE, module_with(module), lambda it: it.SIZE),
    ],
    ids=["attribute", "closure", "default", "container", "text", "text in it", "module in it"],
)
def test_a_module_of_yours_is_seen_wherever_it_is_held(hold):
    """What counts is what some code or text names: the rest may change while a program runs."""
    one, same, other = (module_with(size) for size in (1, 1, 2))
    same.calls = 1
    assert key_of(hold(one)) == key_of(hold(same)) != key_of(hold(other))


@pytest.mark.parametrize(
    "body",
    [
        "return globals()['SIZE']",
        "return '{SIZE}x{SIZE}'.format(**globals())",
        "return eval('sample * SIZE')",
        "exec('sample = -SIZE')",
    ],
)
def test_a_name_in_a_text_is_seen_where_code_reaches_its_whole_module(body):
    source = f"def transform(sample): {body}"

    def made(size):
        module = module_with(size)
        exec(source, vars(module))
        return module.transform

    def key(size):
        function = made(size)
        sys.modules["settings_of_mine"] = module = types.ModuleType("settings_of_mine")
        module.__dict__.update(function.__globals__)
        try:
            return key_of(function)
        finally:
            del sys.modules["settings_of_mine"]

    assert key(1) == key(1) != key(2)


def test_no_name_is_looked_for_in_a_long_text():
    """The texts of a data set, of which there may be many: it would take time."""
    holders = [[module_with(size), "SIZE " * 2001] for size in (1, 2)]
    assert 1 == len(set(map(key_of, holders)))


def test_a_class_that_answers_to_some_names_is_asked_for_no_other():
    class Registry(type):
        def __getattr__(cls, name):
            return {"a": 1}[name]

    class Entry(metaclass=Registry):
        pass

    assert key_of(Entry()) == key_of(Entry()) != key_of(Keeper(1))


def refusing(*args):
    raise OSError("closed")


@pytest.mark.parametrize(
    ("ask", "name", "answer"),
    [
        (pickled_as, "__reduce_ex__", None),
        (said, "__repr__", None),
        (hides_state, "__getattribute__", False),
    ],
)
def test_what_an_object_raises_when_it_is_asked_is_not_taken_for_a_signal_s(ask, name, answer):
    """An OSError without a number, as of a file that was closed, is a handler's elsewhere."""
    assert answer is ask(type("Odd", (Keeper,), {name: refusing})(1))


@pytest.mark.parametrize("kind", [LookupError, OSError])
def test_an_object_that_shows_no_attributes_cannot_be_told(kind):
    class Closed:
        def __getattribute__(self, name):
            raise kind(name)

    with pytest.raises(UntoldError, match="Closed"):
        key_of(Keeper(Closed()))


def test_objects_in_sets_that_know_each_other_take_no_time():
    """Each of 40 nodes has a set of all: all look alike, and each is told once."""

    class Node:
        def __init__(self, all_nodes):
            self.all_nodes = all_nodes

    nodes = set()
    nodes.update(Node(nodes) for _ in range(40))
    assert key_of(nodes) == key_of(nodes)


def test_of_two_in_a_set_that_look_alike_it_does_not_matter_which_is_met_first():
    """Nor which of them the set gives first."""
    alike = [Keeper(1), Keeper(1)]
    assert key_of(alike[0], set(alike)) == key_of(alike[1], set(alike))
    assert key_of(alike[0], set(alike)) != key_of(Keeper(1), set(alike))


def test_of_two_in_a_set_that_look_alike_it_does_not_matter_which_one_else_is_held():
    """Who holds it comes behind the set."""
    pair = {Keeper(1), Keeper(1)}
    one, other = pair
    assert key_of(pair, SimpleNamespace(first=one)) == key_of(pair, SimpleNamespace(first=other))
    assert key_of(pair, SimpleNamespace(first=one)) != key_of(pair, SimpleNamespace(first=pair))


def test_it_counts_in_which_of_two_places_a_set_of_things_that_look_alike_is():
    """Such a set is told after the other one."""
    alike, differ = {Keeper(1), Keeper(1)}, {Keeper(2), Keeper(3)}
    assert key_of([alike, differ]) != key_of([differ, alike])
    assert key_of([alike, differ]) == key_of([{Keeper(1), Keeper(1)}, {Keeper(3), Keeper(2)}])


def test_what_says_what_a_program_does_counts_by_its_class():
    """Queues, threads and locks; and nobody waits for one that is held."""
    lock = threading.Lock()
    with lock:
        held = key_of(lock, queue.Queue(), threading.local())
    waiting = queue.Queue()
    waiting.put(1)
    assert held == key_of(lock, waiting, threading.local())


@pytest.mark.parametrize("function", [randint, random.random, np.random.rand], ids=shown)
def test_functions_of_chance_count_by_name(function):
    """What they draw from is their library's own, and changes with each number."""
    before = key_of(function)
    function(*[1, 2] if function is randint else [])
    assert before == key_of(function)


class Endless(Exception):
    """Says of itself that it is made of another one."""

    def __reduce__(self):
        return Endless, (Endless(),)


@pytest.mark.parametrize(
    "thing",
    [(x for x in "ab"), np.frompyfunc(len, 1, 1), Endless()],
    ids=["generator", "function that numpy made", "endless"],
)
def test_what_nobody_can_see_into_cannot_be_told(thing):
    """Nor is it taken for another: the error names it, and who holds it."""
    with pytest.raises(UntoldError, match=rf"{type(thing).__name__} in (Keeper|Endless)$"):
        key_of(Keeper(thing))


def test_nothing_is_kept_where_the_transform_cannot_be_told(tmp_path, caplog):
    """The log says why, once; samples come as without a cache, and no file is made."""
    transform = Keeper(x for x in "ab")
    cache = open_cache({"folder": "kept"}, tmp_path, 9, lambda: key_of(transform))
    assert [3, 3] == [cache.get(0, lambda index: 3) for _ in range(2)]
    assert (0, 2, 0) == (cache.stats().hits, cache.stats().misses, cache.stats().samples)
    cache.close()
    assert [] == list(tmp_path.iterdir())
    (said,) = caplog.messages
    assert "nothing is kept in" in said
    assert "nobody can see what is in builtins.generator in Keeper" in said
    assert "fingerprint()" in said


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_every_value_of_a_tensor_is_seen(dtype):
    torch = framework("torch")
    one, same, other = (torch.tensor([n, 1]).to(getattr(torch, dtype)) for n in (1, 1, 0))
    assert key_of(one) == key_of(same) != key_of(other)
    assert key_of(one) != key_of(torch.nn.Parameter(one, requires_grad=False))
    with pytest.raises(UntoldError, match=r"torch\.Tensor"):
        key_of(one.to_sparse())


def test_a_module_of_torch_that_refuses_to_be_pickled_counts_with_its_weights():
    torch = framework("torch")
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    before = key_of(module)
    assert before == key_of(module)
    torch.nn.init.constant_(module.bias, 2)
    assert before != key_of(module)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # one of torch's own
def test_a_compiled_module_of_torch_counts_as_what_it_is_pickled_as():
    """Beside that it has what is another in each run."""
    torch = framework("torch")
    one, same, other = (key_of(torch.compile(torch.nn.Flatten(n))) for n in (1, 1, 2))
    assert one == same != other


def squarer(power):
    return lambda x: x**power


def test_a_compiled_function_of_torch_counts_as_what_it_is_made_of():
    torch = framework("torch")
    one, same, other = (key_of(torch.compile(squarer(n))) for n in (1, 1, 2))
    assert one == same != other


BODIES = {
    "a module": ("import own_a", ["own_a"]),
    "a part of a package": ("import own_p.inner as it", ["own_p.inner"]),
    "a name": ("from own_p.inner import SIZE", ["own_p.inner"]),
    "relative": ("from .. import own_a\n    from .inner import SIZE", ["..", ".inner"]),
    "by a text": ("import importlib\n    importlib.import_module('own_a')", ["own_a"]),
    "by a relative text": ("__import__('importlib').import_module('.inner')", [".inner"]),
    "by a text, of folders": ("__import__('own_n.inner')", ["own_n.inner"]),
    "by a text that a name has": ("import importlib\n    importlib.import_module(NAME)", ["own_a"]),
    "by sys.modules": ("import sys\n    sys.modules['own_a']", ["own_a"]),
    "by modules of another thing": ("sample.modules['own_a']", []),
    "the text of what is no module": (
        "__import__('.jpg'), 'data', 'data.csv', 'json', 'own_a b'",
        [],
    ),
    "a text that nothing imports": ("'own_a'", []),
    "in a function of its own": ("def inside():\n        import own_a", ["own_a"]),
    "of the standard library": ("import json.decoder, sys, os.path, zipfile", []),
    "installed": ("import numpy.fft, hypothesis", []),
    "none that is there": ("import not_there_at_all", []),
    "twice": ("import own_a\n    import own_a", ["own_a"]),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_module_that_is_imported_in_a_body_is_warned_of(body, tmp_path, monkeypatch, caplog):
    """What stands in it is seen in no key; nothing is imported to find that out.

    The package that the function belongs to is there already.
    """
    text, modules = BODIES[body]
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_a.py").write_text("raise AssertionError")
    (tmp_path / "own_p").mkdir()
    (tmp_path / "own_p" / "__init__.py").write_text("")
    (tmp_path / "own_p" / "inner.py").write_text("raise AssertionError")
    (tmp_path / "own_n").mkdir()
    (tmp_path / "own_n" / "inner.py").write_text("raise AssertionError")
    (tmp_path / "data").mkdir()
    names = {"__package__": "own_p", "NAME": "own_a"}
    exec(f"def transform(sample):\n    {text}\n", names)
    monkeypatch.setitem(sys.modules, "own_p", module_from_spec(find_spec("own_p")))
    before = set(sys.modules)
    key_of(names["transform"])
    assert set() == {name for name in sys.modules.keys() - before if name.startswith("own_")}
    begin = "cache: what is in the module {} does not count, since transform imports it in its body"
    said = [":".join(text.split(":")[:2]) for text in caplog.messages]
    assert [begin.format(name) for name in modules] == said


@pytest.mark.parametrize("many", ["    sample.n{}\n", "    a = {}.5\n"])
def test_imports_of_long_code_are_told_from_others(many, caplog):
    """Behind 256 names or constants an instruction has a part of its own before it."""
    names = {}
    body = "".join(many.format(number) for number in range(300))
    exec(f"def transform(sample):\n{body}    from json import loads\n", names)
    key_of(names["transform"])
    assert [] == caplog.messages


def test_a_module_that_counts_all_the_same_is_not_warned_of_and_another_one_once(
    tmp_path, monkeypatch, caplog
):
    """Its own, and what the module of the function imports, too."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_b", "own_c"):
        (tmp_path / f"{name}.py").write_text("")
    text = "import own_b\n"
    for name in ("one", "two"):
        text += f"def {name}(sample):\n    import own_b, own_c, own_d\n"
    (tmp_path / "own_d.py").write_text(text)
    with monkeypatch.context() as imported:
        module = types.ModuleType("own_d")
        for name in ("own_b", "own_d"):
            imported.setitem(sys.modules, name, types.ModuleType(name))
        exec(text, vars(module))
        vars(module)["__name__"] = "own_d"
        key_of([module.one, module.two])
    (said,) = caplog.messages
    assert said.startswith("cache: what is in the module own_c does not count, since one imports")
