"""Goes through things that hold each other, however deep they lie, and makes a `Node` of each."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from typing import Any

from ..errors import from_signal
from ._graph import Node
from ._kinds import full_name, home, installed
from ._samples import CONSTANTS

__all__ = ["LONGEST", "NAME", "UntoldError", "Walk", "held"]

_MOST_STEPS = 1000
"""The longest chain of objects of which each is found in what the one before is pickled as.
Chosen: pickle itself goes no deeper; and an object could give new ones of its kind for ever."""


LONGEST = 10_000
"""Characters of the longest text that is searched for names. Chosen: formulas and templates are
shorter, and the longer texts of a dataset would take time."""
NAME = re.compile(r"[^\W\d]\w*")
"""A name in a text, which may be code."""


_LAZY: Any = getattr(types, "LazyImportType", None)
"""What stands for ``lazy import`` (PEP 810), from CPython 3.15 on, until the name is used."""


def held(namespace: dict[str, Any], name: str) -> Any:
    """Give what a module's namespace has under a name; what that imports lazily is imported now.

    Where it cannot be imported, give the name of the error: whoever uses the name gets it.
    """
    value = namespace[name]
    if type(value) is not _LAZY:
        return value
    try:
        return value.resolve()
    except Exception as error:  # of the imported module, which may raise anything
        if from_signal(error):
            raise
        return full_name(type(error))


class UntoldError(Exception):
    """An object whose contents nobody can see; the text says its class, and what holds it."""


class Walk:
    """Meets each thing once, and has ``tell`` say what it is when its turn comes.

    ``tell`` is given the walk and the thing, and says with `put` and `add` what it is. ``nodes``
    has a node for each thing that was met, by number; ``imports`` has the modules, imported by
    functions in their bodies, that were warned of.
    """

    def __init__(self, tell: Callable[[Walk, Any], None]) -> None:
        self.nodes: list[Node] = []
        self.imports: set[str] = set()
        self._tell = tell
        # By number. They are kept alive, so that no id is reused.
        self._things: list[Any] = []
        self._numbers: dict[int, int] = {}  # by id
        self._holders: list[int] = []  # by number: who held it when it was met first
        self._steps: list[int] = []  # by number: see _MOST_STEPS
        self._now = 0  # the number of what is being told
        # All texts that were met, names in code among them, and the names in them. `__getattr__`
        # always counts: a module's own gives the values of names that do not stand in the module.
        self._words = {"__getattr__"}
        self._modules: dict[int, dict[str, Any]] = {}  # by number: values of the names that count
        self._libraries: dict[str, bool] = {}  # by name of a module

    def go(self, first: list[Any]) -> list[Node]:
        """Begin with these things, and give the nodes of all that are met."""
        self._number(first, 0)
        turn = 0
        while turn < len(self._things):
            self._now = turn
            self._tell(self, self._things[turn])
            turn += 1
            if turn == len(self._things):
                self._look_into_modules()
        for number, values in self._modules.items():
            self._now = number
            for name in sorted(values):
                self.put(name)
                self.add(values[name])
        for node in self.nodes:
            node.end()
        return self.nodes

    def put(self, *words: str | bytes | memoryview) -> None:
        """Say something of the thing that is told; see `Node.put`."""
        self.nodes[self._now].put(*words)

    def add(self, *things: Any, more_steps: int = 0) -> None:
        """Say what the thing that is told holds: constants at once, others in their turn.

        ``more_steps`` is 1 if it is pickled as these; more than `_MOST_STEPS` are an UntoldError.
        """
        steps = self._steps[self._now] + more_steps
        if steps > _MOST_STEPS:
            raise self.untold()
        node = self.nodes[self._now]
        for thing in things:
            text = self.text(thing)
            if text is None:
                node.hold(self._number(thing, steps))
            else:
                node.put(text)

    def text(self, thing: Any, deepest: int = 4) -> str | None:
        """Give a constant as text, or a tuple or frozenset of such; None for anything else.

        A str counts as a word from now on, and so do the names in it: they may name something in a
        module.
        """
        kind = type(thing)
        if kind is str:
            self._words.add(thing)
            if len(thing) <= LONGEST and not thing.isidentifier():  # as "S * x", for `eval`
                self._words.update(NAME.findall(thing))
        if kind is int:
            return hex(thing)  # in hexadecimal there is no bound
        if kind in CONSTANTS:
            return repr(thing)
        if (kind is tuple or kind is frozenset) and deepest:
            texts = []
            for each in thing:
                text = self.text(each, deepest - 1)
                if text is None:
                    return None
                texts.append(text)
            if kind is tuple:
                return f"({','.join(texts)})"
            return f"{{{','.join(sorted(texts))}}}"
        return None

    def any_order(self) -> None:
        """Say that the order in which the thing that is told holds others means nothing."""
        self.nodes[self._now].any_order = True

    def name_in(self) -> None:
        """Say that the thing that is told is a module; of its names those count that are met."""
        self._modules[self._now] = {}

    def library(self, module: str) -> bool:
        """Tell whether a module is of the standard library or of an installed package."""
        found = self._libraries.get(module)
        if found is None:
            found = self._libraries[module] = installed(module)
        return found

    def stands(self, thing: Any) -> bool:
        """Tell whether a library's module has this very thing under the thing's name."""
        module = getattr(thing, "__module__", None)
        if module is None:  # a method of what the module has, as `random.random`
            module = home(type(getattr(thing, "__self__", None)))
        name = getattr(thing, "__name__", None)
        return (
            isinstance(module, str)
            and isinstance(name, str)
            and self.library(module)
            and getattr(sys.modules.get(module), "__dict__", {}).get(name) is thing
        )

    def untold(self) -> UntoldError:
        """Give an error that says what is told now, and which thing of yours holds it."""
        what = full_name(type(self._things[self._now]))
        number = self._now
        while number := self._holders[number]:
            holder = self._things[number]
            named = holder if isinstance(holder, (type, types.FunctionType)) else type(holder)
            if not self.library(home(named)):
                return UntoldError(f"{what} in {named.__qualname__}")
        return UntoldError(what)

    def _number(self, thing: Any, steps: int) -> int:
        number = self._numbers.get(id(thing))
        if number is None:
            number = self._numbers[id(thing)] = len(self._things)
            self._things.append(thing)
            self.nodes.append(Node())
            self._holders.append(self._now)
            self._steps.append(steps)
        return number

    def _look_into_modules(self) -> None:
        """Meet what modules have under names that have been met."""
        found = True
        while found:  # what is found can be a text, and so another name
            found = False
            for number, values in self._modules.items():
                self._now = number
                namespace = vars(self._things[number])
                for name in sorted((namespace.keys() & self._words) - values.keys()):
                    found = True
                    values[name] = held(namespace, name)
                    if self.text(values[name]) is None:
                        self._number(values[name], self._steps[number])
