"""A source that builds whole batches, and writes down what it was asked for."""


class Taken:
    """A source that builds whole batches, of samples so small that several are made together."""

    sample_bytes = 8

    def __init__(self, n, bad=()):
        self.n = n
        self.bad = set(bad)
        self.taken = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        raise AssertionError("read alone")

    def take(self, indices):
        self.taken.append(indices.tolist())
        if wrong := self.bad & set(indices.tolist()):
            raise OSError(f"damaged: {sorted(wrong)}")
        return {"x": indices.copy(), "name": [str(index) for index in indices.tolist()]}
