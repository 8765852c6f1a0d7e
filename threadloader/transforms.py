"""What is done to a sample, and the random generator it is given.

A transform is any callable of a sample. One that has a parameter named ``rng`` is
given a numpy `Generator` by that keyword, whose stream depends on a key (made of
seed and epoch) and the sample's position in the global order: the same on any
thread, at any number of workers, before and after a resume. Each thread has one
generator and sets it anew for each sample, so it is used only inside the call.

A transform may also offer ``many(samples, key, positions)``, which gives a list of what it
makes of several samples, where one large operation is faster than many small ones. Key and
position take the generator's place: what is made of a sample may depend on them, and must
not depend on the other samples. The samples stay as they are. If it raises, each sample is
given to it alone, so that the error is that of the lowest row.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import (
    CollateError,
    ConfigError,
    Problem,
    from_signal,
    has_order,
    innermost,
    misfit,
    signature,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OffersMany", "Transform", "bind", "takes_rng"]

Transform = Callable[[Any, int, int], Any]
"""A bound transform: (sample, key of the epoch, position) -> sample."""


def bind(transform: Callable[..., Any] | None) -> Transform | None:
    """Give a transform the form in which the loader calls it, sample by sample.

    Args:
        transform: callable of one sample, with or without a parameter ``rng``; if it offers
            ``many``, that is called, with one sample at a time.

    Returns:
        A callable of (sample, key, position), or None for None.

    Raises:
        ConfigError: it is not callable, is an async function, takes ``rng`` by position only or
            though it is a generator function, or surely cannot be called so.

    >>> jitter = bind(lambda sample, rng: sample + int(rng.integers(1000)))
    >>> jitter(0, 7, 0) == jitter(0, 7, 0), jitter(0, 7, 0) == jitter(0, 7, 1)
    (True, False)
    """
    if transform is None:
        return None
    if not callable(transform):
        # Options of a transform, {"type": "mlm"}, are right elsewhere.
        options = isinstance(transform, Mapping)
        hint = "an object of options stands in the config" if options else ""
        raise _refusal(type(transform).__name__, hint)
    if _offers_many(transform):
        many: Any = getattr(transform, "many")  # noqa: B009 (a checker knows of none)
        if (got := misfit(many, "", [], 0, [])) is not None:
            raise _refusal(*got)
        return OffersMany(transform)
    rng = takes_rng(transform)
    hint, keywords = "its first parameter is the sample", {"rng": None} if rng else {}
    if (got := misfit(transform, hint, None, **keywords)) is not None:
        raise _refusal(*got)
    if not rng:
        return lambda sample, key, position: transform(sample)
    called = innermost(transform)
    if any(map(inspect.isgeneratorfunction, (called, type(called).__call__))):
        hint = "its body would run when rng is another sample's: return a list of what it yields"
        raise _refusal("a generator function that takes rng", hint)
    generators = _Generators()
    return lambda sample, key, position: transform(sample, rng=generators.at(key, position))


def takes_rng(transform: Callable[..., Any]) -> bool:
    """Tell whether a transform is given a generator.

    Of a wrapper by `functools.wraps` its own parameters count, and, if it takes any keyword, which
    it may pass on, those of what it wraps. An ``rng`` given to `functools.partial` is kept.

    Raises:
        ConfigError: it takes ``rng`` by position only.
    """
    try:
        parameter = _parameters(transform).get("rng")
    except (TypeError, ValueError) as error:  # a builtin that does not say what it takes
        if from_signal(error):
            raise
        return False
    if parameter is None or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return False
    if parameter.kind is parameter.POSITIONAL_ONLY:
        got = "one that takes rng by position only"
        raise _refusal(got, "make it a keyword, as in def transform(sample, *, rng)")
    return True


def _parameters(transform: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters: Mapping[str, inspect.Parameter] = {}
    # From 3.14 on, a partial that stands in a class is a method of the class's objects.
    partial = transform.__func__ if isinstance(transform, MethodType) else transform
    if isinstance(partial, functools.partial) and "rng" in partial.keywords:
        return parameters
    passes_on = True
    try:
        parameters = signature(transform, follow_wrapped=False).parameters
        passes_on = any(it.kind is it.VAR_KEYWORD for it in parameters.values())
    except ValueError as error:  # as of `functools.lru_cache`, which passes on all it is given
        if from_signal(error):
            raise
    if "rng" in parameters or not passes_on:
        return parameters
    inspect.unwrap(transform)  # raises a ValueError where they wrap each other in a circle
    # One level at a time: another wrapper may come between this one and the innermost function.
    wrapped = getattr(transform, "__wrapped__", None)
    return signature(transform).parameters if wrapped is None else _parameters(wrapped)


def _refusal(got: str, hint: str) -> ConfigError:
    expected = "a callable of one sample, or of a sample and rng"
    return ConfigError(Problem("transform", expected, got, hint))


def _offers_many(transform: Any) -> bool:
    kind = type(transform)
    # The lowest class with either decides: a subclass that overrides only __call__ means that one.
    defining = (base for base in kind.__mro__ if not {"many", "__call__"}.isdisjoint(vars(base)))
    if "many" not in vars(next(defining, kind)):
        return False
    try:
        signature(transform.many).bind([], 0, [])
    except (TypeError, ValueError) as error:
        # A `many` that is for something else; or a builtin that does not say what it takes.
        if from_signal(error):
            raise
        return False
    return True


class OffersMany:
    """A bound transform that offers ``many``; `given` is that transform."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __call__(self, sample: Any, key: int, position: int) -> Any:
        """Transform one sample."""
        return self.many([sample], key, np.array([position], np.int64))[0]

    def many(self, samples: Sequence[Any], key: int, positions: NDArray[np.int64]) -> list[Any]:
        """Transform several samples.

        Args:
            samples: the samples, which stay as they are.
            key: 128 bits, of the epoch.
            positions: int64, shape (samples,), their places in the global order.

        Raises:
            CollateError: the transform gives more or fewer, or no list of them at all.
        """
        given = self.given.many(samples, key, positions)
        if has_order(given):
            made = list(given)
            if len(made) == len(samples):
                return made
            got = f"{len(made)}"
        else:
            got = "None" if given is None else type(given).__name__
        raise CollateError(
            f"the transform's many: expected a list of {len(samples)} samples, got {got}; return "
            "one for each that it is given, in their order"
        )


class _Generators(threading.local):
    """One generator a thread, set to a new stream for each sample.

    Philox is counter-based: a stream is a key and a counter, and setting both costs an
    eighth of building a generator (docs/design.md, "Transforms"). The counter's low word
    counts within a sample, its second word holds the position, so streams do not meet before
    2**64 draws.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        # Setting a whole state also forgets what an earlier sample left half used. What is
        # drawn changes the generator's own copy; here only key and position ever change.
        self._state = self._bits.state
        self._words = self._state["state"]["key"]
        self._counter = self._state["state"]["counter"]
        self._key = 0

    def at(self, key: int, position: int) -> np.random.Generator:
        """Give this thread's generator at the start of a sample's stream."""
        if key != self._key:
            self._key = -1  # no key: a Ctrl-C may come before the next lines are done
            self._words[:] = (key & (2**64 - 1), key >> 64)
            self._key = key
        self._counter[1] = position
        self._bits.state = self._state
        return self._generator
