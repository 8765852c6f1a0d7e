"""A state as plain JSON values: made, and read again."""

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..errors import ConfigError, Problem, StateError, from_signal, shown

try:  # the function that `hashlib` gives, without OpenSSL, which is 3.5 MiB
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - a Python whose `hashlib` has it from elsewhere
    from hashlib import blake2b

__all__ = [
    "FORMAT",
    "LAST_EPOCH",
    "NOTHING",
    "VERSION",
    "Cursor",
    "Excluded",
    "checksum",
    "dump",
    "hashed",
    "load",
]

FORMAT, VERSION = "threadloader.state", 1

LAST_EPOCH = 1 << 62
"""Far beyond any run, and within what keys of orders have room for."""

_MOST = (1 << 63) - 1
"""The highest value of any other count: no run comes near it."""

_BOUNDS = {"epoch": (0, LAST_EPOCH), "batch_size": (1, _MOST), "shard_count": (1, _MOST)}
"""Lowest and highest value; of a count that is not here, 0 and the most."""

_FINGERPRINT = "([0-9a-f]{32})?"

Skip = tuple[int, int, int]
"""Epoch and step at which steps were left out, and how many."""


class Cursor(NamedTuple):
    """Where a run stands: what the next batch begins with.

    Attributes:
        epoch: number of the epoch, from 0.
        position: positions of its global order that the world has been given.
        step: number of the next batch in its epoch.
        batches: batches that this shard was given in the whole run, over all resumes.
        samples: samples that this shard was given, padding not counted.
        skipped_steps: what was left out by `skip_steps`.
        fingerprint: that of all batches that this shard was given, since it is asked for; or "".
        skipped: samples that this shard left out because they failed (`on_error`).
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    batches: int = 0
    samples: int = 0
    skipped_steps: tuple[Skip, ...] = ()
    fingerprint: str = ""
    skipped: int = 0


def hashed(data: bytes) -> str:
    """Give a checksum of bytes: 32 hexadecimal digits."""
    return str(blake2b(data, digest_size=16).hexdigest())


class Excluded(NamedTuple):
    """The samples that are left out of an epoch.

    Attributes:
        text: their indices, ascending, as numbers and ranges: ``"3 7-9"``; "" for none.
        digest: the text's checksum, so that a long one is hashed once and not at every state.
    """

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> "Excluded":
        """Give a text with its checksum."""
        return cls(text, hashed(text.encode()))


NOTHING = Excluded.of("")


def dump(
    cursor: Cursor,
    run: Mapping[str, Any],
    world: Mapping[str, int],
    shard: int,
    excluded: Excluded = NOTHING,
) -> dict[str, Any]:
    """Give the state of a run.

    Args:
        cursor: where it stands.
        run: what it is: fields that must be the same to go on, plain JSON values.
        world: batch_size and shard_count; another world goes on from the same position.
        shard: index of this shard.
        excluded: what is left out of the epoch that it stands in.

    Returns:
        Plain JSON values. All but ``"shard"`` and ``"checksum"`` are the same on every
        shard after the same step.
    """
    state: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "run": dict(run),
        "world": {
            "epoch": cursor.epoch,
            "position": cursor.position,
            "step": cursor.step,
            **world,
            "skips": [list(skip) for skip in cursor.skipped_steps],
        },
        "exclude": excluded.text,
        "shard": {
            "index": shard,
            "batches": cursor.batches,
            "samples": cursor.samples,
            "skipped": cursor.skipped,
            "fingerprint": cursor.fingerprint,
        },
    }
    state["checksum"] = checksum(state, excluded)
    return state


def load(
    state: Any,
    run: Mapping[str, Any],
    world: Mapping[str, int],
    shard: int,
    allow: Collection[str] = (),
) -> tuple[Cursor, Excluded]:
    """Read a state.

    Args:
        state: what `dump` gave, perhaps through JSON.
        run: what this run is.
        world: its batch_size and shard_count.
        shard: index of this shard.
        allow: fields of `run` that may differ.

    Returns:
        Where to go on, and what is left out of that epoch. Under another world or batch size the
        steps count from there; then, and on another shard, this one's counts begin at 0.

    Raises:
        StateError: it is damaged, of another version, or of another run; for that the
            differing fields are named.
        ConfigError: there is no such field to allow.
    """
    allowed = _allowed(allow, run)
    if not isinstance(state, Mapping) or state.get("format") != FORMAT:
        there = state if isinstance(state, Mapping) else {"format": type(state).__name__}
        got = shown(there["format"]) if "format" in there else "an object without it"
        raise StateError(
            f'state: expected an object with "format": "{FORMAT}", got {got}; '
            "pass what state_dict() gave, or the file that save() wrote"
        )
    version = state.get("version")
    if not _is_count(version):
        raise _damaged("version", "an integer", version)
    if version != VERSION:
        raise StateError(
            f"state: expected version {VERSION}, got {shown(version)}; "
            "load it with the threadloader that wrote it, or begin the run anew"
        )
    if not isinstance(state.get("exclude"), str):
        raise _damaged("exclude", "a string", state.get("exclude"))
    try:
        excluded = Excluded.of(state["exclude"])
        expected = checksum(state, excluded)
    except (TypeError, ValueError, RecursionError) as error:
        if from_signal(error):
            raise
        # A TypeError is about a value that is not plain JSON, and no damage: given as it is.
        told = error if isinstance(error, TypeError) else str(error)
        raise _damaged("checksum", "plain JSON values", told) from None
    if state.get("checksum") != expected:
        raise _damaged("checksum", expected, state.get("checksum"))
    position = _counts(state, "world", ("epoch", "position", "step", "batch_size", "shard_count"))
    counted = _counts(state, "shard", ("index", "batches", "samples"))
    # The first states of this version have no `skipped`: what wrote them left no sample out.
    counted |= _counts({"shard": {"skipped": 0, **state["shard"]}}, "shard", ("skipped",))
    fingerprint = state["shard"].get("fingerprint")
    if not isinstance(fingerprint, str) or not re.fullmatch(_FINGERPRINT, fingerprint):
        raise _damaged("shard.fingerprint", '32 hexadecimal digits or ""', fingerprint)
    saved = state.get("run")
    if not isinstance(saved, Mapping):
        raise _damaged("run", "an object", saved)
    _refuse_another_run(saved, run, allowed)
    same_world = all(position[name] == world[name] for name in world)
    mine = counted["index"] == shard and same_world
    return Cursor(
        position["epoch"],
        position["position"],
        position["step"] if same_world else 0,
        counted["batches"] if mine else 0,
        counted["samples"] if mine else 0,
        _skips(state["world"].get("skips")),
        fingerprint if mine else "",
        counted["skipped"] if mine else 0,
    ), excluded


def checksum(state: Mapping[str, Any], excluded: Excluded) -> str:
    """Give the checksum of a state, made the same way in every version.

    A checksum that is in it does not count; `excluded` is what it has as ``"exclude"``.

    Raises:
        TypeError, ValueError: it holds something else than plain JSON values.
    """
    body = {name: value for name, value in state.items() if name != "checksum"}
    body["exclude"] = excluded.digest
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashed(text.encode())


def _allowed(allow: Any, run: Mapping[str, Any]) -> frozenset[str]:
    try:
        if not isinstance(allow, str) and (names := frozenset(allow)) <= set(run):
            return names
    except TypeError as error:  # not to be iterated, or what it holds cannot be names
        if from_signal(error):
            raise
    known = ", ".join(f'"{name}"' for name in run)
    raise ConfigError(Problem("allow", f"a list of fields among {known}", shown(allow)))


def _refuse_another_run(
    saved: Mapping[str, Any], run: Mapping[str, Any], allowed: frozenset[str]
) -> None:
    fields = [(name, _field(saved, name), _field(run, name)) for name in {**saved, **run}]
    differing = [field for field in fields if field[1] != field[2] and field[0] not in allowed]
    if differing:
        lines = ("{}: the state has {}, this run {}".format(*field) for field in differing)
        # With those that were allowed already, or to follow one advice would bring the other.
        named = "".join(f"{name!r}, " for name, there, here in fields if there != here)
        raise StateError(
            "the state is of another run; " + "; ".join(lines) + "; give the loader the same "
            "source, seed and sampling, or begin the run anew, or, if they are meant to differ, "
            f"load_state_dict(state, allow=({named.rstrip()}))",
            [name for name, *_ in differing],
        )


def _field(fields: Mapping[str, Any], name: str) -> str:
    """Give a field as JSON, which tells `true` and 1.0 from 1, and null from what is not there."""
    text = json.dumps(fields[name]) if name in fields else "nothing"
    return text if len(text) <= 500 else f"{text[:500]}... (checksum {hashed(text.encode())})"


def _is_count(value: Any, low: int = 0, high: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _counts(state: Mapping[str, Any], section: str, names: tuple[str, ...]) -> dict[str, int]:
    values = state.get(section)
    if not isinstance(values, Mapping):
        raise _damaged(section, "an object", values)
    for name in names:
        low, high = _BOUNDS.get(name, (0, _MOST))
        if not _is_count(values.get(name), low, high):
            expected = f"an integer from {low} to {high}"
            raise _damaged(f"{section}.{name}", expected, values.get(name))
    return {name: values[name] for name in names}


def _skips(values: Any) -> tuple[Skip, ...]:
    skips = []
    for row in values if isinstance(values, list) else [values]:
        if not (isinstance(row, list) and len(row) == 3 and all(map(_is_count, row))):
            raise _damaged("world.skips", "a list of [epoch, step, steps]", values)
        epoch, step, steps = row  # steps may reach over many epochs, and so be more than `_MOST`
        if epoch > LAST_EPOCH or step > _MOST:
            expected = f"epochs up to {LAST_EPOCH} and steps up to {_MOST}"
            raise _damaged("world.skips", expected, row)
        skips.append((epoch, step, steps))
    return tuple(skips)


def _damaged(field: str, expected: str, got: Any) -> StateError:
    plain = type(got) in (type(None), bool, int, str, list, dict)  # no float stands in a state
    hint = "use an older one, or begin the run anew" if plain else "keep json.dumps(state) instead"
    text = f"the state is damaged: {field}: expected {expected}, got {shown(got)}; {hint}"
    return StateError(text)
