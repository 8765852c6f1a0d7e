"""Finds what is wrong with the options of a config: by the schema, and what that cannot say."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

from .._schema import Mismatch, Place, Schema, pointer, show
from ..errors import ConfigError, Problem, by_handler
from ._combinations import wrong_together
from ._elsewhere import here
from ._file import DEEPEST, LARGEST_TEXT, half_in
from ._hints import belongs, hint, one_edit

__all__ = ["NO_SOURCE", "check", "filled", "ours", "plain", "problems", "schema"]

_MOST_VALUES = LARGEST_TEXT // 2 + 1000  # what a file can hold ("0,"), and the defaults
_HINTS = 100  # problems that get a hint, so that a section of unknown keys alone stays cheap


NO_SOURCE = "a source here or source=... in code"
"""What is expected where there is no source."""


@cache
def schema() -> Schema:
    """The contract of the config, from the one file that says it."""
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 (no Path: see `Base`)
    # A wheel carries the file inside the package; in the repository it stands beside it.
    inside, beside = f"{package}/config_schema.json", f"{package}/../config_schema.json"
    loader: Any = __spec__.loader  # reads it out of a zip archive, too
    for file in (inside, beside):
        try:
            data = loader.get_data(file)
        except OSError as error:
            # 0 is what zipimport says of a file that is not in its archive.
            if by_handler(error) or error.errno not in (0, errno.ENOENT, errno.ENOTDIR):
                raise
        else:
            return Schema(json.loads(data))
    options = "--collect-data threadloader --collect-submodules threadloader"
    hint = "install threadloader again; in a checkout the file lies beside the folder threadloader"
    hint += f", so copy both; in a bundle of PyInstaller, {options}"
    raise FileNotFoundError(f"{inside}: {hint}")


def ours(section: Mapping[Any, Any], *, ignore: bool) -> dict[Any, Any]:
    """The options of a section.

    Args:
        section: an object of the config.
        ignore: whether keys that are not ours are left out, so that nothing reports them,
            unless they are one edit away from one of ours.
    """
    known = schema().properties
    options = known.keys() - {"$schema"}
    return {
        key: value
        for key, value in section.items()
        if not ignore
        or key in known
        or (isinstance(key, str) and any(one_edit(key, option) for option in options))
    }


def plain(options: Mapping[Any, Any]) -> tuple[dict[str, Any], list[Mismatch]]:
    """Options that were given in code, as JSON has them.

    Returns:
        A copy made of nothing but plain JSON values, ``None`` in place of what is no
        such value; and what is wrong there.

    Raises:
        ConfigError: the options hold too many values, or hold themselves many times.
    """
    found: list[Mismatch] = []
    left = iter(range(_MOST_VALUES))
    known = schema().properties
    return {
        key: _plain(value if key in known else None, (key,), found, left)
        for key, value in _with_text_keys(options, (), found)
    }, found


def _plain(value: Any, path: Place, found: list[Mismatch], left: Iterator[int]) -> Any:
    if next(left, None) is None:
        raise ConfigError(Problem(pointer(path[:1]), f"at most {_MOST_VALUES} values", "more"))
    # `item` would make an integer of a numpy time, which stands for none.
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.item()
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool):
        return value
    # The conversions of the base types: a subclass may have others of its own.
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float) and isfinite(value):
        return float.__float__(value)
    if isinstance(value, str) and not half_in(value):
        return str.__str__(value)
    if not isinstance(value, (Mapping, list, tuple)):
        kinds = {str: "text without lone surrogates", float: "a finite number"}
        kind = next((kind for kind in kinds if isinstance(value, kind)), object)
        found.append(Mismatch(path, kinds.get(kind, "a JSON value"), show(value)))
    elif len(path) > DEEPEST:
        found.append(Mismatch(path, f"at most {DEEPEST} levels of arrays and objects", "one more"))
    elif isinstance(value, Mapping):
        return {
            key: _plain(item, (*path, key), found, left)
            for key, item in _with_text_keys(value, path, found)
        }
    else:
        return [_plain(item, (*path, number), found, left) for number, item in enumerate(value)]
    return None


def _with_text_keys(
    value: Mapping[Any, Any], path: Place, found: list[Mismatch]
) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(key, str) and not half_in(key):
            yield str.__str__(key), item
        else:
            found.append(Mismatch(path, "keys that are text", show(key)))


def filled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Valid options, with their defaults filled in."""
    whole: dict[str, Any] = schema().fill(options)
    if whole["sampler"] is not None:  # a sampler's order is not shuffled
        whole["shuffle"] = False
    return whole


def check(
    options: object, refused: Collection[Place], in_code: Mapping[str, bool]
) -> list[Mismatch]:
    """All that is wrong with plain options.

    Args:
        options: the options; JSON values.
        refused: paths at which something is known to be wrong already: not said again.
        in_code: which options are given in code. Without a source in code, the config must
            have one; with a sampler, in code or in the config, it may not ask to shuffle.

    Returns:
        What is wrong; `problems` puts it in order.
    """
    found = schema().check(options)
    if isinstance(options, dict):
        wrong = {mismatch.path for mismatch in found}.union(refused)
        needs_source = not in_code.get("source")
        if options.get("source") is None and needs_source and ("source",) not in wrong:
            got = "null" if "source" in options else "nothing"
            found.append(Mismatch(("source",), NO_SOURCE, got))
        # Nor is anything said of what is in a wrong value.
        found += [
            it
            for it in wrong_together(options, wrong)
            if not any(
                it.path[:end] in wrong for end in range(min(2, len(it.path)), len(it.path) + 1)
            )
        ]
        sampled = in_code.get("sampler") or options.get("sampler") is not None
        if sampled and options.get("shuffle") is True:
            expected = "false or nothing, since there is a sampler, whose order it is"
            sampler = None if in_code.get("sampler") else options.get("sampler")
            if isinstance(sampler, dict) and sampler.get("type") == "subset":
                expected += ' (a subset is shuffled by the "shuffle" inside it)'
            found.append(Mismatch(("shuffle",), expected, "true"))
    return [mismatch for mismatch in found if mismatch.path not in refused]


def problems(
    found: Iterable[Mismatch],
    options: Iterable[object],
    section: Place = (),
    place: Callable[..., tuple[int, int]] | None = None,
) -> list[Problem]:
    """What is wrong, as it is told to people, in the order of the document.

    Args:
        found: what is wrong; paths begin at the options.
        options: the options that were checked.
        section: where the options stand in the document.
        place: gives line and column of a path of the document; ``None`` without a file.
    """
    order = {name: number for number, name in enumerate(options)} if not place else {}
    told, root = [], pointer(section)
    for number, mismatch in enumerate(found):
        at = (0, order.get(mismatch.path[0], -1) if mismatch.path else -1)
        line, column = 0, 0
        if place:
            at = line, column = place((*section, *mismatch.path), at_key=mismatch.at_key)
        advice = _advice(mismatch) if number < _HINTS else ""
        where = root + pointer(mismatch.path)
        problem = Problem(where, mismatch.expected, mismatch.got, advice, line, column)
        told.append((at, problem))
    return [problem for _, problem in sorted(told, key=lambda pair: pair[0])]


def _advice(mismatch: Mismatch) -> str:
    if not mismatch.at_key:
        near = hint(mismatch.got.strip('"'), mismatch.known)
        return near or belongs(mismatch.path, mismatch.expected, mismatch.got)
    key = str(mismatch.path[-1])
    # The nearest word may be another thing: close_timeout is no timeout.
    near = here(key) if len(mismatch.path) == 1 else ""
    near = near or hint(key, mismatch.known, is_key=True)
    if len(mismatch.path) > 1 or near.startswith("did you mean"):
        return near
    # The hint has the whole call: the key may have come by `replace`, which takes no `unknown`.
    own = (
        'Loader(config, unknown="ignore") (in a command: --unknown ignore) '
        "lets keys of your own through"
    )
    return f"{near}; {own}" if near else own
