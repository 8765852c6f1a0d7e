"""What to write down so that a run can go on exactly where it was.

A state is plain JSON: who the run is (source, seed, order), where the world stands (epoch,
position in its global order), what this shard has counted, and a checksum over it all.
It says what was *delivered*; what was only prefetched is not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from .errors import StateError

__all__ = ["FORMAT", "VERSION", "Cursor", "dump", "load"]

FORMAT = "threadloader.state"
VERSION = 1


class Cursor(NamedTuple):
    """Where a run stands: what the next batch begins with.

    Attributes:
        epoch: number of the epoch, from 0.
        position: positions of its global order that the world has been given.
        step: number of the next batch in its epoch.
        batches: batches that this shard was given in the whole run, over all resumes.
        samples: samples that this shard was given, padding not counted.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    batches: int = 0
    samples: int = 0


def dump(
    cursor: Cursor, run: Mapping[str, Any], world: Mapping[str, int], shard: int
) -> dict[str, Any]:
    """Give the state of a run.

    Args:
        cursor: where it stands.
        run: what it is: fields that must be the same to go on, plain JSON values.
        world: batch_size and shard_count; another world goes on from the same position.
        shard: index of this shard.

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
        },
        "shard": {"index": shard, "batches": cursor.batches, "samples": cursor.samples},
    }
    state["checksum"] = _checksum(state)
    return state


def load(state: Any, run: Mapping[str, Any], world: Mapping[str, int], shard: int) -> Cursor:
    """Read a state.

    Args:
        state: what `dump` gave, perhaps through JSON.
        run: what this run is.
        world: its batch_size and shard_count.
        shard: index of this shard.

    Returns:
        Where to go on. Under another world or batch size the steps count from the cut, and
        on another shard the counts of this one begin at 0.

    Raises:
        StateError: it is damaged, of another version, or of another run; for that the
            differing fields are named.
    """
    if not isinstance(state, Mapping) or state.get("format") != FORMAT:
        got = type(state).__name__ if not isinstance(state, Mapping) else state.get("format")
        raise StateError(
            f'state: expected an object with "format": "{FORMAT}", got {got!r}; '
            "pass what state_dict() gave"
        )
    version = state.get("version")
    if not _is_count(version):
        raise _damaged("version", "an integer", version)
    if version != VERSION:
        raise StateError(
            f"state: expected version {VERSION}, got {version}; "
            "load it with the threadloader that wrote it, or begin the run anew"
        )
    body = {name: value for name, value in state.items() if name != "checksum"}
    try:
        checksum = _checksum(body)
    except (TypeError, ValueError) as error:
        raise _damaged("checksum", "plain JSON values", str(error)) from None
    if state.get("checksum") != checksum:
        raise _damaged("checksum", checksum, state.get("checksum"))
    position = _counts(state, "world", ("epoch", "position", "step", "batch_size", "shard_count"))
    counted = _counts(state, "shard", ("index", "batches", "samples"))
    saved = state.get("run")
    if not isinstance(saved, Mapping):
        raise _damaged("run", "an object", saved)
    differing = [name for name in {**saved, **run} if saved.get(name) != run.get(name)]
    if differing:
        lines = (
            f"{name}: the state has {saved.get(name)!r}, this run {run.get(name)!r}"
            for name in differing
        )
        raise StateError(
            "the state is of another run; " + "; ".join(lines) + "; "
            "give the loader the same source, seed and sampling, or begin the run anew",
            differing,
        )
    same_world = all(position[name] == world[name] for name in world)
    mine = counted["index"] == shard and same_world
    return Cursor(
        position["epoch"],
        position["position"],
        position["step"] if same_world else 0,
        counted["batches"] if mine else 0,
        counted["samples"] if mine else 0,
    )


def _checksum(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counts(state: Mapping[str, Any], section: str, names: tuple[str, ...]) -> dict[str, int]:
    values = state.get(section)
    if not isinstance(values, Mapping):
        raise _damaged(section, "an object", values)
    for name in names:
        if not _is_count(values.get(name)):
            raise _damaged(f"{section}.{name}", "an integer >= 0", values.get(name))
    return {name: values[name] for name in names}


def _damaged(field: str, expected: str, got: Any) -> StateError:
    return StateError(
        f"the state is damaged: {field}: expected {expected}, got {got!r:.80}; "
        "use an older one, or begin the run anew"
    )
