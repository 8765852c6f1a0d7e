"""The file of a state, damaged in every small way; and which of that is not refused."""

from threadloader import StateError
from threadloader.state import read

__all__ = ["accepted", "cut", "flipped"]


def cut(saved):
    """Give what is left of some bytes, cut at each of them, by length."""
    return [(length, saved[:length]) for length in range(len(saved))]


def flipped(saved):
    """Give some bytes with each bit flipped in turn, by byte and bit."""
    flips = []
    for place in range(len(saved)):
        for bit in range(8):
            other = bytearray(saved)
            other[place] ^= 1 << bit
            flips.append(((place, bit), bytes(other)))
    return flips


def accepted(texts, path):
    """List those of some contents of a file that are not refused as damaged."""
    wrong = []
    with path.open("wb", buffering=0) as file:
        for name, text in texts:
            file.seek(0)
            file.write(text)
            file.truncate()
            try:
                read(path)
            except StateError as error:
                if "the state is damaged" in str(error) and error.fields == ():
                    continue
            wrong.append(name)
    return wrong
