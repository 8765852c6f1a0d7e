"""As much of torch as bench uses, faked: tensors, samplers and a DataLoader in one process."""

import pytest

from threadloader.adapters import torch_loader


class FakeData:
    """As much of torch.utils.data as is used, in one process."""

    class RandomSampler:
        def __init__(self, source, generator):
            self.order = [*range(len(source))][:: -1 if generator.seed else 1]

        def __iter__(self):
            return iter(self.order)

    class SequentialSampler(RandomSampler):
        def __init__(self, source):
            self.order = range(len(source))

    class BatchSampler:
        def __init__(self, sampler, size, drop_last):
            self.sampler, self.size, self.drop_last = sampler, size, drop_last

        def __iter__(self):
            order = list(self.sampler)
            for start in range(0, len(order), self.size):
                if not self.drop_last or start + self.size <= len(order):
                    yield order[start : start + self.size]

    class DistributedSampler(SequentialSampler):
        def __init__(self, source, count, index, **options):
            self.source, self.count, self.index, self.options = source, count, index, options
            self.set_epoch(0)

        def set_epoch(self, epoch):
            self.order = [(i + epoch) % len(self.source) for i in range(len(self.source))]
            self.order = self.order[self.index :: self.count]

    class DataLoader:
        def __init__(self, dataset, sampler, batch_size, collate_fn=None, drop_last=False, **kw):
            self.dataset, self.collate, self.options = dataset, collate_fn, kw
            self.batches = sampler
            if batch_size is not None:
                self.batches = FakeData.BatchSampler(sampler, batch_size, drop_last)

        def __len__(self):
            return len(list(self.batches))

        def __iter__(self):
            for indices in self.batches:
                if self.collate is None:
                    yield self.dataset[indices]
                elif hasattr(self.dataset, "__getitems__"):
                    yield self.collate(self.dataset.__getitems__(indices))
                else:
                    yield self.collate([self.dataset[index] for index in indices])


class FakeTorch:
    """As much of torch as is used; a tensor is what tells that it is one."""

    __version__ = "9.9"

    class Generator:
        def manual_seed(self, seed):
            self.seed = seed

    class cuda:  # noqa: N801 - its name there
        @staticmethod
        def is_available():
            return True

    @staticmethod
    def from_numpy(array):
        if not array.dtype.isnative:
            raise ValueError("given numpy array has byte order different from the native one")
        if array.dtype.kind not in "biuf":
            raise TypeError(f"can't convert np.ndarray of type {array.dtype}")
        return ("tensor", array.tolist())

    class utils:  # noqa: N801
        data = FakeData


@pytest.fixture
def fake_torch(monkeypatch):
    monkeypatch.setattr(torch_loader, "import_torch", lambda: FakeTorch)
