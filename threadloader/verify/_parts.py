"""The parts that a user may give in code, each with calls of it that can be made one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import samplers
from ..errors import ends, from_signal
from ..sources import fingerprint
from ._case import Case
from ._result import Call, result

__all__ = ["KEY", "Part", "again", "parts_of", "results"]

KEY = 1
"""The key of a transform's random generator: any would do."""

POSITIONS = 1 << 20
"""How many positions of an epoch's order are looked at: a `range` may have any length."""


class Part(NamedTuple):
    """A part of the user's, with calls of it that can be made one by one.

    Attributes:
        name: one of `CODE`.
        function: the part itself, to see what it keeps.
        calls: each call, by the name of its sample or batch.
    """

    name: str
    function: Any
    calls: Mapping[str, Call]


def parts_of(case: Case, source: Any, indices: Sequence[int]) -> list[Part]:
    """Give the parts, with calls of them on those of the samples that do not fail."""
    read = partial(again, case.retries, case.reader(source))
    calls: dict[int, Call] = {index: partial(read, index) for index in indices}
    fresh = _fresh(calls)
    calls = {index: calls[index] for index in fresh}
    parts = [Part("source", source, {f"source[{index}]": it for index, it in calls.items()})]
    bound = case.bound_transform()
    if bound is not None:
        calls = {
            index: partial(again, case.retries, _call, bound, it, KEY, index)
            for index, it in fresh.items()
        }
        if case.transform is not None:  # that of a config is ours, and needs no experiments
            named = {f"transform(source[{index}])": it for index, it in calls.items()}
            parts.append(Part("transform", case.transform, named))
        fresh = _fresh(calls)
    if case.collate is not None:
        batches: dict[str, Call] = {}
        for pair in zip(fresh, [*list(fresh)[1:], *list(fresh)[:1]], strict=True):
            name = f"collate of the samples {', '.join(map(str, pair))}"
            batches[name] = partial(_collate, case.collate, [fresh[index] for index in pair])
        parts.append(Part("collate", case.collate, batches))
    if callable(case.sampler):
        orders = partial(_orders, case.sampler, len(source))
        parts.append(Part("sampler", case.sampler, {"the order of epochs 0 and 1": orders}))
    return parts


def results(case: Case, indices: Sequence[int]) -> dict[str, dict[str, str]]:
    """Make each call of each part once, and give its digest, by part and by name of the call.

    As text, to be compared with that of another process.
    """
    with case.source() as source:
        found = {
            part.name: {name: result(call).hex() for name, call in part.calls.items()}
            for part in parts_of(case, source, indices)
        }
        found["source"] |= {
            "the source's length": f"{len(source)}",
            "the source's fingerprint": fingerprint(source),
        }
    return found


def _fresh(calls: Mapping[int, Call]) -> dict[int, Call]:
    """Make each call; for those that do not fail, give a function that copies what it gave.

    Code that changes its input, or writes its buffer again, must not change what others get.
    """
    found: dict[int, Call] = {}
    for index, call in calls.items():
        try:
            given = call()
        except BaseException as error:  # whatever the data does to its reader
            if ends(error):
                raise
            continue
        try:
            found[index] = partial(copy.deepcopy, copy.deepcopy(given))
        except Exception as error:  # of what cannot be copied, a new one is asked for
            if from_signal(error):
                raise
            found[index] = call
    return found


def _call(function: Callable[..., Any], fresh: Call, *others: Any) -> Any:
    return function(fresh(), *others)


def again(retries: int, call: Callable[..., Any], *args: Any) -> Any:
    """Make a call, with the retries of `on_error` where it fails, but without their pauses."""
    for _ in range(retries):
        try:
            return call(*args)
        except Exception as error:
            if from_signal(error):
                raise
    return call(*args)


def _orders(sampler: Callable[..., Any], n: int) -> list[Any]:
    asked = samplers.given(sampler, n, samplers.Kept(n, np.empty(0, np.int64)))
    orders = asked.order(0), asked.order(1)
    return [(order.n, order.at(np.arange(min(order.n, POSITIONS)))) for order in orders]


def _collate(collate: Callable[[list[Any]], Any], fresh: list[Call]) -> Any:
    return collate([call() for call in fresh])
