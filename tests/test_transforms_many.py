"""A transform's `many` is given a batch's samples at once; its errors are told where they are."""

import signal

import numpy as np
import pytest

from threadloader import CollateError, ConfigError, Loader
from threadloader.order import key
from threadloader.transforms import bind


class Counting:
    """Adds to each sample its position and the key; knows how many it was given at once."""

    def __init__(self):
        self.sizes = []

    def __call__(self, sample):
        raise AssertionError("many is called instead")

    def many(self, samples, key, positions):
        self.sizes.append(len(samples))
        assert np.dtype(np.int64) == positions.dtype
        adding = (key % 1000 + at for at in positions.tolist())
        return [sample + more for sample, more in zip(samples, adding, strict=True)]


class AtOnce(list):
    """Samples that are read at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Two(Counting):
    """Cannot make anything of a sample 2 or 3."""

    def many(self, samples, key, positions):
        if 2 in samples or 3 in samples:
            raise ValueError(f"{len(samples)} samples, the first is {samples[0]}")
        return super().many(samples, key, positions)


class Rows:
    """Two samples, by their number alone."""

    def __getitem__(self, index):
        return (5, 6)[index]


def test_a_many_may_give_anything_that_has_an_order():
    class Lazy(Counting):
        def many(self, samples, key, positions):
            return Rows()

    assert [5, 6] == bind(Lazy()).many([0, 0], 1, np.arange(2))


@pytest.mark.parametrize("given", [{"x": [1, 2], "y": [3, 4]}, {1, 2}, "ab", b"ab", None, 2])
def test_a_many_that_gives_no_list_is_refused(given):
    """As columns, whose names would be taken for samples."""

    class Columns(Counting):
        def many(self, samples, key, positions):
            return given

    with pytest.raises(CollateError, match=r"many: expected a list of 2 samples, got \w+; return"):
        bind(Columns()).many([0, 0], 1, np.arange(2))


def test_a_many_that_has_to_be_awaited_is_refused_by_its_name():
    class Later(Counting):
        async def many(self, samples, key, positions):
            """Nobody awaits it."""

    with pytest.raises(ConfigError, match=r"the async function .*Later\.many"):
        bind(Later())


def test_a_method_many_of_another_meaning_is_not_called():
    class Scaled:
        def __call__(self, sample):
            return 10 * sample

        def many(self, samples):
            raise AssertionError("the transform itself is called")

    assert 70 == bind(Scaled())(7, 0, 0)


def test_a_many_that_does_not_say_what_it_takes_is_not_called():
    """As what is written in C may not."""

    class Largest:
        many = staticmethod(max)

        def __call__(self, sample):
            return 10 * sample

    assert 70 == bind(Largest())(7, 0, 0)


def test_a_bound_many_is_given_one_sample_at_a_time():
    assert 5 + 100 + 7 == bind(Counting())(5, 100, 7)


@pytest.mark.parametrize("workers", [0, 2])
def test_all_samples_of_a_batch_are_given_to_many(workers):
    transform = Counting()
    config = {"batch_size": 4, "shuffle": False, "seed": 9, "num_epochs": 1}
    with Loader({**config, "num_workers": workers}, range(10), transform=transform) as batches:
        got = [batch.tolist() for batch in batches]
    first = key("transform", 9, 0) % 1000
    expected = [2 * at + first for at in range(10)]
    assert expected == [value for batch in got for value in batch]
    assert [2, 4, 4] == sorted(transform.sizes)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [range(4), AtOnce(range(4))])
def test_an_error_of_many_is_that_of_the_lowest_row(source, workers):
    with Loader({"num_workers": workers, "shuffle": False}, source, transform=Two()) as batches:
        with pytest.raises(ValueError, match="1 samples, the first is 2") as caught:
            next(iter(batches))
    assert "sample 2 (row 2 of step 0, epoch 0)" in "".join(caught.value.__notes__)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_for_which_no_sample_is_to_blame_is_raised_for_the_batch(workers):
    class Together(Counting):
        def many(self, samples, key, positions):
            if len(samples) > 1:
                raise OSError("too many")
            return samples

    with Loader({"num_workers": workers}, range(3), transform=Together()) as batches:
        with pytest.raises(OSError, match="too many") as caught:
            next(iter(batches))
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collate_behind_many_is_called_once(workers):
    """Also where it raises: what is asked again is the transform alone."""
    calls = []

    def collate(samples):
        calls.append(len(samples))
        raise KeyError("no")

    config = {"num_workers": workers, "num_epochs": 1}
    with Loader(config, range(3), transform=Counting(), collate=collate) as batches:
        with pytest.raises(KeyError, match="no") as caught:
            next(iter(batches))
    assert [3] == calls
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, SystemExit])
def test_what_would_be_taken_for_an_end_is_of_the_lowest_row_too(kind, workers):
    """A higher row that raises it first does not win, and the sample is named."""

    class Backwards(Counting):
        def many(self, samples, key, positions):
            for sample in reversed(samples):
                if sample == 3:
                    raise kind
                if sample == 1:
                    raise ValueError("the lowest")
            return samples

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers}
    with (
        Loader(config, list(range(4)), transform=Backwards()) as batches,
        pytest.raises(ValueError, match="the lowest") as caught,
    ):
        next(iter(batches))
    assert "sample 1 (row 1" in caught.value.__notes__[0]


def test_a_many_that_loses_samples_is_refused():
    class Losing(Counting):
        def many(self, samples, key, positions):
            return samples[:2]

    with Loader({"num_workers": 0}, range(5), transform=Losing()) as batches:
        with pytest.raises(CollateError, match="expected a list of 5 samples, got 2"):
            next(iter(batches))


def test_a_subclass_with_a_call_of_its_own_offers_no_many():
    class Own(Counting):
        def __call__(self, sample):
            return -sample

    assert -5 == bind(Own())(5, 1, 2)
    assert [1, 2] == bind(list)((1, 2), 1, 2)


def test_a_subclass_that_changes_neither_offers_the_many_of_its_base():
    class Same(Counting):
        pass

    transform = Same()
    with Loader({"num_workers": 0, "num_epochs": 1}, range(3), transform=transform) as batches:
        assert 1 == len(list(batches))
    assert [3] == transform.sizes


def test_what_many_makes_is_never_kept():
    """It may depend on the position, as what is made by `rng`."""
    config = {"batch_size": 4, "cache": {"max_samples": 100}, "num_workers": 0, "shuffle": False}
    with Loader(config, range(4), transform=Counting()) as batches:
        epochs = [next(iter(epoch)).tolist() for epoch in batches.epochs(2)]
    assert epochs[0] != epochs[1]


def test_what_a_signal_handler_raises_in_many_passes_and_consumes_no_batch(rung):
    """Without workers it runs in the main thread. No sample is to blame for it."""

    class Rung(Counting):
        def many(self, samples, key, positions):
            if not self.sizes:
                self.sizes.append(0)
                signal.raise_signal(signal.SIGINT)
            return samples

    with Loader({"num_workers": 0, "shuffle": False}, range(3), transform=Rung()) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung") as caught:
            next(epoch)
        assert not hasattr(caught.value, "__notes__")
        assert [0, 1, 2] == next(epoch).tolist()


def test_a_row_at_which_a_signal_came_is_not_blamed_for_what_fails_later(rung):
    """The batch is asked for again, and now its samples cannot be read."""

    class Fails(AtOnce):
        reads = 0

        def __getitems__(self, indices):
            self.reads += 1
            if self.reads == 2:
                raise OSError("gone")
            return super().__getitems__(indices)

    class Rung(Counting):
        def many(self, samples, key, positions):
            if len(samples) > 1:
                raise ValueError("one by one")
            if samples == [1]:
                signal.raise_signal(signal.SIGINT)
            return samples

    config = {"num_workers": 0, "shuffle": False}
    with Loader(config, Fails(range(3)), transform=Rung()) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        with pytest.raises(OSError, match="gone") as caught:
            next(epoch)
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [range(5), AtOnce(range(5))])
def test_a_sample_that_many_refuses_is_left_out_where_that_is_asked_for(source, workers):
    """The others are what they are without the budget."""
    config = {"num_workers": workers, "shuffle": False, "seed": 9, "on_error": {"skip": 2}}
    with Loader(config, source, transform=Two()) as batches:
        got = next(iter(batches)).tolist()
        assert (2, 3) == batches.info.skipped
    first = key("transform", 9, 0) % 1000
    assert [first, 2 + first, 8 + first] == got
