"""Sources as a program brings them along, and a pair of fields with names."""

import collections

Pair = collections.namedtuple("Pair", "image label")


class Squares:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index * index


class Part:
    """Samples; closing it does what the class is told to."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index

    def close(self):
        type(self).closing()


class Delegating:
    """Changes what `[]` gives, and has all else of another object."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index] * 10

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Slotted:
    """Likewise, and even its `__dict__` is the other object's."""

    __slots__ = ("inner",)
    __init__ = Delegating.__init__
    __len__ = Delegating.__len__
    __getitem__ = Delegating.__getitem__
    __getattr__ = Delegating.__getattr__
