"""Things that hold each other, in circles too, as one digest: `Node` and `digest_of`.

The digest goes through the things breadth first and says of each what it is and which ones it
holds, by the numbers in which they come. Lists and dicts have an order; sets have none that
the next run has too. What is in a set is therefore put in order by colours, as in the
refinement of graphs (B. Weisfeiler and A. Leman, 1968): each thing's colour is a digest of what
it is and of the colours of what it holds, and of who holds it, again and again, until those in
each set differ. Where that tells no more apart, one thing of several that look alike is given a
colour of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["Node", "digest_of"]

_MOST_COLOURS = 1_000_000
_FEWEST_ROUNDS = 8
"""The most colours to look at, but so many rounds in any case. Chosen: a second or two.
Where two things in a set differ only in what lies farther away among very many, another run may
put them in another order, and prepare anew what was kept."""

_MOST_GIVEN = 100_000
"""Likewise where colours are given to things that look alike: some tenths of a second."""


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
    ended) and any order of what is in sets; but of very many things that look alike it may be
    another one in another run.
    """
    colours = _colours(nodes)
    places = {0: 0}  # by number of a thing: its place in the digest

    def rank(part: int) -> tuple[bytes, int]:
        # Among parts of one colour, those that came before, elsewhere, are first.
        return colours[part], places.get(part, len(nodes))

    digest = hashlib.blake2b(digest_size=32)
    for number in (order := [0]):  # the loop appends to it
        node = nodes[number]
        parts = sorted(node.parts, key=rank) if node.any_order else node.parts
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
    colours[0] += b"first"  # it is the one that the digest begins with
    sets = [node.parts for node in nodes if node.any_order and len(node.parts) > 1]
    looked_at = sum(1 + len(node.parts) for node in nodes)  # in a round
    given, count = _MOST_GIVEN // looked_at, 0
    for _ in range(max(_FEWEST_ROUNDS, _MOST_COLOURS // looked_at)):
        alike = _alike(sets, colours)
        if alike is None:
            break
        if len(set(colours)) == count:  # no more than before: another round adds none
            if not given:
                break
            given -= 1
            colours[alike] = hashlib.blake2b(colours[alike] + b"!", digest_size=16).digest()
        count = len(set(colours))
        colours = _next_colours(nodes, colours)
    return colours


def _alike(sets: Sequence[Sequence[int]], colours: Sequence[bytes]) -> int | None:
    """Give a thing that has the colour of another one in its set, the least such colour."""
    found: int | None = None
    for parts in sets:
        seen: set[bytes] = set()
        for part in parts:
            if colours[part] in seen and (found is None or colours[part] < colours[found]):
                found = part
            seen.add(colours[part])
    return found


def _next_colours(nodes: Sequence[Node], colours: list[bytes]) -> list[bytes]:
    """Give colours by what each thing holds, and by who holds it, and where."""
    holders: list[list[bytes]] = [[] for _ in nodes]
    for node, colour in zip(nodes, colours, strict=True):
        for at, part in enumerate(node.parts):
            holders[part].append(colour + (b"" if node.any_order else b"%d" % at))
    made = []
    for node, colour, by in zip(nodes, colours, holders, strict=True):
        held = [colours[part] for part in node.parts]
        if node.any_order:
            held.sort()
        by.sort()
        lengths = b"%d,%d:" % (len(held), len(by))
        told = b"".join([lengths, colour, *held, b" ".join(by)])
        made.append(hashlib.blake2b(told, digest_size=16).digest())
    return made
