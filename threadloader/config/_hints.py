"""What to do about a wrong word or value: the known word that is near, or where it belongs."""

from __future__ import annotations

from collections.abc import Iterable

from .._schema import Place, show

__all__ = ["belongs", "hint", "one_edit"]

_LONGEST = 40  # characters that count; nothing that we know is longer
_IN_CODE = ("source", "transform", "collate", "sampler")  # what Loader takes of any kind
_MEANT = {"float": "float64", "double": "float64", "int": "int64"}  # dtypes, as numpy has them
_SUFFIXES = {"txt": "text"} | {kind: kind for kind in ("npz", "npy", "csv", "jsonl", "tar")}
_LISTS = dict.fromkeys(("range", "dict_keys", "dict_values", "deque", "generator"), "list(...)")
_ARRAYS = "ndarray", "Tensor", "ArrayImpl", "Series"  # whose tolist() gives a list
_LISTS |= dict.fromkeys(("set", "frozenset"), "sorted(...)")  # types as `show` names them


def hint(word: str, known: Iterable[str], *, is_key: bool = False) -> str:
    """What to say about a wrong word: ``did you mean "seed"?``.

    Args:
        word: what stands there.
        known: what could stand there.
        is_key: whether it is a key: then the nearest known one is named even if it is more
            than a slip away, as long as half of the letters of the longer one are the same.

    Returns:
        A hint, or ``""`` where no known word is near.

    >>> hint("sede", ["shard", "seed"])
    'did you mean "seed"?'
    >>> hint("workers", ["seed", "num_workers"], is_key=True)
    'the nearest known key is "num_workers"'
    >>> hint("BATCH_SIZE", ["batch_size", "seed"])
    'did you mean "batch_size"?'
    >>> hint("zip", ["npz", "text"]), hint("learning_rate", ["shard", "seed"], is_key=True)
    ('', '')
    """
    known = list(known)
    if word in _MEANT and _MEANT[word] in known:  # not "float16", which is nearer
        return f"did you mean {show(_MEANT[word])}?"
    word = word[:_LONGEST]
    for other in known:
        if other.lower() == word.lower():  # in capitals, say, as variables of the shell are
            return f"did you mean {show(other)}?"

    def apart(other: str) -> float:
        return _edits(word, other) / max(len(word), len(other[:_LONGEST]), 1)

    # Near is told by the share of letters that differ: by their number, short words are near most.
    nearest = min(known, key=apart, default="")
    if nearest and _edits(word, nearest) <= max(1, len(nearest) // 3):
        return f"did you mean {show(nearest)}?"
    near = nearest and is_key and apart(nearest) <= 1 / 2
    return f"the nearest known key is {show(nearest)}" if near else ""


def belongs(place: Place, expected: str, got: str) -> str:
    """What to do about a value that a config cannot have in this form, but a loader can take.

    Args:
        place: the path of the value.
        expected: what would be right there.
        got: what stands there, as `show` shows it.

    Returns:
        Where it belongs, or how it is written; ``""`` where that is not known.

    >>> belongs(("source",), "null or an object", '"x.npz"')
    'write {"type": "npz", "path": "x.npz"}'
    >>> belongs(("transform",), "a JSON value", "a Python function")
    'give it in code: Loader(config, transform=...)'
    >>> belongs(("exclude",), "a JSON value", "a Python range")
    'give list(...) of it'
    """
    option = place[0] if place else ""
    foreign, array = expected == "a JSON value", got.removeprefix("a Python ") in _ARRAYS
    items = array or got.startswith(("an array", "an empty array"))
    if len(place) > 1 or option not in _IN_CODE:
        list_of = _LISTS.get(got.removeprefix("a Python ")) if foreign else None
        # Where lists may stand: in `exclude`, and inside of the objects of `source` and the like.
        if list_of and (place == ("exclude",) or (len(place) == 2 and option in _IN_CODE)):
            return f"give {list_of} of it"
        data = ", or data in code: Loader(config, source=...)" if option == "source" else ""
        return f"give the list that its tolist() makes{data}" if foreign and array else ""
    if foreign or (items and option in ("source", "sampler")):
        subset = ', or write {"type": "subset", "indices": [...]}'
        also = subset if items and option == "sampler" else ""
        return f"give it in code: Loader(config, {option}=...){also}"
    if option == "source" and expected == "null or an object":
        kind = _SUFFIXES.get(got.strip('"').rpartition(".")[2].lower())
        if kind:
            return f'write {{"type": "{kind}", "path": {got}}}'
        return 'write an object with its type, as in {"type": "npz", "path": "x.npz"}'
    return ""


def one_edit(one: str, other: str) -> bool:
    """Whether just one insert, delete, replacement or swap of neighbours turns one into the other.

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
    """How many inserts, deletes, replacements and swaps of neighbours turn one into the other.

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
