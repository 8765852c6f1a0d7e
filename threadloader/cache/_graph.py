"""Things that hold each other, in circles too, as one digest: `Node` and `digest_of`.

The digest goes through the things breadth first and says of each what it is and which ones it
holds, by the numbers in which they come. Lists and dicts have an order; sets have none that
the next run has too. What is in a set is therefore put in order by colours, as in the
refinement of graphs (B. Weisfeiler and A. Leman, 1968): each thing's colour is a digest of what
it is and of the colours of what it holds, again and again, until those in each set differ. Things
in a set that look alike all the same differ by who else holds them: so such a set comes last.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

__all__ = ["Node", "digest_of"]

_MOST_COLOURS = 500_000
_FEWEST_ROUNDS = 8
"""The most colours to work out, but so many rounds in any case. Chosen: a second or two.
Where two things in a set differ only in what lies farther away among very many, another run may
put them in another order, and prepare anew what was kept."""


class Node:
    """What is told of a thing: numbers of those it holds, and a digest of everything else.

    Attributes:
        parts: the numbers.
        any_order: whether the order of its parts does not count.
        label: the digest, once the node has ended.
    """

    __slots__ = ("_hash", "any_order", "label", "parts")

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.any_order = False
        self.label = b""
        self._hash = hashlib.blake2b(digest_size=16)

    def put(self, *words: str | bytes | memoryview) -> None:
        """Tell something, in words; in a memoryview an item is a byte."""
        for word in words:
            data = word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word
            self._hash.update(b"%d:" % len(data))
            self._hash.update(data)  # not joined: it may be a large array's

    def hold(self, number: int) -> None:
        """Tell that the thing of this number comes next in it."""
        self._hash.update(b"#")  # no word begins with it
        self.parts.append(number)

    def end(self) -> None:
        """Tell no more: the label is set, and the hash given back."""
        self.label = self._hash.digest()
        del self._hash


def digest_of(nodes: Sequence[Node]) -> str:
    """Give one digest of all things that the first one leads to.

    It has 64 hexadecimal digits, the same for any numbering of the nodes (all of which have
    ended) and any order of what is in sets.
    """
    colours = _colours(nodes)
    places = {0: 0}  # by number of a thing: its place in the digest
    digest = hashlib.blake2b(digest_size=32)
    order, late = deque([0]), deque[int]()
    while order or late:
        number = order.popleft() if order else late.popleft()
        node = nodes[number]
        parts = node.parts
        if node.any_order:
            new = [colours[part] for part in parts if part not in places]
            if order and len(set(new)) < len(new):  # what is still to come may tell them apart
                late.append(number)
                continue
            # Among parts of one colour, those that came before, elsewhere, are first.
            parts = sorted(parts, key=lambda part: (colours[part], places.get(part, len(nodes))))
        for part in parts:
            if part not in places:
                places[part] = len(places)
                order.append(part)
        held = ",".join([str(places[part]) for part in parts])
        digest.update(node.label + f"{held};".encode())
    return digest.hexdigest()


def _colours(nodes: Sequence[Node]) -> list[bytes]:
    """Give each thing a colour, so that things in one set have different colours if they differ."""
    colours = [node.label for node in nodes]
    sets = [node.parts for node in nodes if node.any_order and len(node.parts) > 1]
    count = 0
    for _ in range(max(_FEWEST_ROUNDS, _MOST_COLOURS // len(nodes))):
        if all(len({colours[part] for part in parts}) == len(parts) for parts in sets):
            break
        if len(set(colours)) == count:  # no more than before: another round adds none
            break
        count = len(set(colours))
        colours = [_colour(node, [colours[part] for part in node.parts]) for node in nodes]
    return colours


def _colour(node: Node, held: list[bytes]) -> bytes:
    if node.any_order:
        held.sort()
    return hashlib.blake2b(node.label + b"".join(held), digest_size=16).digest()
