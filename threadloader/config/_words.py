"""The known word that a wrong one was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

from threadloader._schema import show

__all__ = ["hint", "one_edit"]

_LONGEST = 40  # characters that count; nothing that we know is longer


def hint(word: str, known: Iterable[str], *, is_key: bool = False) -> str:
    """What to say about a wrong word: ``did you mean "seed"?``.

    Args:
        word: what stands there.
        known: what could stand there.
        is_key: whether it is a key: then the nearest known one is named in any case.

    Returns:
        A hint, or ``""`` where no known word is near.

    >>> hint("sede", ["shard", "seed"])
    'did you mean "seed"?'
    >>> hint("learning_rate", ["shard", "seed"], is_key=True)
    'the nearest known key is "shard"'
    >>> hint("zip", ["npz", "text"])
    ''
    """
    nearest = min(known, key=lambda other: _edits(word, other), default="")
    if nearest and _edits(word, nearest) <= max(1, len(nearest) // 3):
        return f"did you mean {show(nearest)}?"
    return f"the nearest known key is {show(nearest)}" if nearest and is_key else ""


def one_edit(one: str, other: str) -> bool:
    """Whether exactly one insert, delete, replacement or swap of neighbours lies between.

    >>> one_edit("num_worker", "num_workers"), one_edit("sede", "seed"), one_edit("a", "a")
    (True, True, False)
    """
    if abs(len(one) - len(other)) > 1:
        return False
    pairs = enumerate(zip(one, other, strict=False))
    at = next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
    mine, theirs = one[at:], other[at:]
    return mine != theirs and (
        mine[1:] == theirs
        or mine == theirs[1:]
        or mine[1:] == theirs[1:]
        or (mine[:2] == theirs[1::-1] and mine[2:] == theirs[2:])
    )


def _edits(one: str, other: str) -> int:
    """How many inserts, deletes, replacements and swaps of neighbours lie between.

    The optimal string alignment distance, after Damerau, "A technique for
    computer detection and correction of spelling errors", 1964.
    """
    one, other = one[:_LONGEST], other[:_LONGEST]
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, char in enumerate(one):
        row = [i + 1]
        for j, known in enumerate(other):
            least = min(row[j] + 1, last[j + 1] + 1, last[j] + (char != known))
            if i and j and char == other[j - 1] and one[i - 1] == known:
                least = min(least, before[j - 1] + 1)
            row.append(least)
        before, last = last, row
    return last[-1]
