"""Tells whether a callable of the user's can be called as the loader is going to call it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from ._handlers import from_signal

__all__ = ["has_order", "innermost", "misfit", "signature"]

_NO_LIST = str, bytes, set, frozenset, Mapping

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def signature(called: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Give the parameters of a callable, as `inspect.signature`, whatever its annotations name."""
    if sys.version_info >= (3, 14):
        # Here annotations are evaluated, and may name what only a type checker knows (PEP 649).
        try:
            return inspect.signature(called, follow_wrapped=follow_wrapped)
        except Exception as error:
            if from_signal(error):
                raise
        # Only then as texts: that evaluates nothing, but leaves a reference cycle.
        from annotationlib import Format

        text = Format.STRING
        return inspect.signature(called, follow_wrapped=follow_wrapped, annotation_format=text)
    return inspect.signature(called, follow_wrapped=follow_wrapped)


def innermost(called: Any) -> Any:
    """Give what a `functools.partial` calls in the end; anything else as it is."""
    while isinstance(called, partial):
        called = called.func
    return called


def misfit(
    called: Callable[..., Any], hint: str, *args: Any, **keywords: Any
) -> tuple[str, str] | None:
    """Tell what is wrong with a callable, as far as that can be told before it is called.

    Args:
        called: what the user gave.
        hint: what to do where it surely cannot be called with these.
        args: what it is going to be called with, or something in the place of each.
        keywords: likewise.

    Returns:
        What came, and what to do, for a `Problem`, if the result would have to be awaited or the
        callable takes other arguments. Else None, also if it does not say what it takes.
    """
    if (function := _awaited(called)) is not None:
        advice = "nothing awaits it: give a plain function, which may call asyncio.run(...)"
        return f"the async function {function.__qualname__}", advice
    if (why := _refused(called, args, keywords)) is not None:
        return f"one that cannot be called so: {why}", hint
    return None


def _awaited(called: Callable[..., Any]) -> FunctionType | None:
    """Give the function behind a callable if its result would have to be awaited, or else None.

    A generator function is none: a collate may take what a transform yields.
    """
    called = innermost(called)
    for each in (called, type(called).__call__):
        # By `type`: isinstance would ask the object, and a mock says that it is a function.
        function = each.__func__ if type(each) is MethodType else each
        if type(function) is FunctionType and function.__code__.co_flags & _ASYNC:
            return function
    return None


def _refused(called: Callable[..., Any], args: Any, keywords: Any) -> str | None:
    """Say why it surely cannot be called with these; None where it may be."""
    inner = innermost(called)
    try:
        # Perhaps that of what it wraps, and adds to.
        if any(hasattr(it, "__signature__") for it in (called, inner, type(inner).__call__)):
            return None
        takes = signature(called, follow_wrapped=False)
    except (TypeError, ValueError) as error:  # a builtin that does not say what it takes
        if from_signal(error):
            raise
        return None
    try:
        takes.bind(*args, **keywords)
    except TypeError as error:
        if from_signal(error):
            raise
        return str(error)
    return None


def has_order(given: Any) -> bool:
    """Tell whether something has items in an order of its own, as a list has.

    A number or a text has none; a set may have another order in another process; of a mapping the
    names would come.
    """
    if isinstance(given, _NO_LIST) or getattr(given, "ndim", 1) == 0:
        return False
    return hasattr(type(given), "__iter__") or hasattr(type(given), "__getitem__")
