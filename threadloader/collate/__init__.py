"""Samples of one batch, in the order of the batch, become one batch of arrays.

`stack` is the default; `Pad` is for fields whose length differs from sample to
sample. Both are strict: row 0 says what a field is, and a row that differs in
structure, shape or dtype is an error that names it. Nothing is cast or promoted, nor cut
unless `Pad` is told to, and a batch has the same structure and dtypes whatever the samples in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Problem, at_need
from ._rows import RowsMaker
from ._stack import stack

if TYPE_CHECKING:
    from ._pad import Pad

__all__ = ["Pad", "RowsMaker", "make_collate", "stack"]


def make_collate(
    spec: Mapping[str, Any], fills: Mapping[str, float] | None = None
) -> Callable[[list[Any]], Any]:
    """Make the function that a config describes, safe to call in several threads.

    ``spec`` is ``{"type": "stack"}``, or ``{"type": "pad"}`` with the options of `Pad`; what is not
    given has its default there. ``fills`` are numbers that pad some fields, unless ``value`` names
    one for that field; they come before a number for all fields. Options that contradict each
    other, or another type, are a ConfigError.

    >>> make_collate({"type": "stack"})([1.5, 2.5])
    array([1.5, 2.5])
    """
    options = dict(spec)
    kind = options.pop("type", None)
    if kind == "stack":
        return stack
    if kind == "pad":
        from ._pad import Pad

        return Pad(**options).filling(fills or {})
    raise ConfigError(Problem("/collate/type", '"stack" or "pad"', repr(kind)))


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(globals(), {"Pad": "._pad"})
