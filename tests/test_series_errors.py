"""Whatever fails or interrupts a batch of a series comes once, in its place, and costs no other."""

import gc
import itertools
import signal
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_series import BESIDE, CONFIG, Read, opened
from sweep import Interrupt, Sweep

from threadloader import Loader, SourceError, WorkerError
from threadloader.collate import Pad
from threadloader.jobs import Recipe, SeriesJob, Span
from threadloader.loader import _schedule
from threadloader.masking import MaskTokens


class Once(Read):
    """A sample that has failed is good the next time."""

    def __getitem__(self, index):
        try:
            return super().__getitem__(index)
        finally:
            self.bad.discard(index)


class Interrupted(Read):
    """While sample 21 is read for the first time, there is a Ctrl-C."""

    def __getitem__(self, index):
        if index == 21 and index not in self.read:
            self.read.append(index)
            signal.raise_signal(signal.SIGINT)
        return super().__getitem__(index)


class Many(Read):
    """Samples that are read a batch at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Whole(Read):
    """A source that builds batches so large that none are made together."""

    def take(self, indices):
        return np.array([self[index] for index in indices.tolist()])


def delivered(batches, count):
    """What came at each call: a batch, or the text of an error and of its note."""
    epoch, got = iter(batches), []
    while len(got) < count:
        try:
            got.append(next(epoch).tolist())
        except OSError as error:
            got.append((str(error), error.__notes__[0]))
    assert next(epoch, None) is None
    return got


@BESIDE
@pytest.mark.parametrize("kind", [Read, Once, Many, Whole])
@pytest.mark.parametrize("collate", [None, np.array], ids=["stack", "given"])
@given(bad=st.sets(st.integers(0, 59), max_size=5))
@settings(max_examples=25, deadline=None)
def test_each_error_comes_once_in_the_place_of_its_batch(workers, kind, collate, bad):
    """The first bad row of a batch is told; what one read has failed for is not read again."""
    source = kind(60, bad)
    with opened(workers, source, collate) as batches:
        got = delivered(batches, 30)
        stats = batches.stats()
    for step, one in enumerate(got):
        wrong = sorted(bad & {2 * step, 2 * step + 1})
        if not wrong:
            assert [2 * step, 2 * step + 1] == one
            continue
        assert f"damaged: {wrong[0]}" == one[0]
        where = f"of step {step}, epoch 0"
        if kind is Many or (kind is Whole and collate is None):
            assert f"raised for the batch {where}" in one[1]
        else:
            row, line = wrong[0] % 2, wrong[0] + 1
            assert one[1].endswith(f"sample {wrong[0]} (row {row} {where}), line {line}")
    failed = sum(type(one) is tuple for one in got)
    assert (30 - failed, failed, 2 * (30 - failed)) == (stats.batches, stats.failed, stats.samples)
    assert sorted(set(source.read)) == sorted(source.read), "a sample was read twice"


def test_an_error_of_collate_comes_once_too():
    calls = []

    def collate(samples):
        calls.append(samples)
        if 20 in samples:
            raise OSError("unfit")
        return np.array(samples)

    with Loader(CONFIG, source=range(40), collate=collate) as batches:
        got = delivered(batches, 20)
    assert 20 == len(calls)
    assert ("unfit", True) == (got[10][0], "the batch of step 10, epoch 0" in got[10][1])
    assert [[2 * i, 2 * i + 1] for i in range(20) if i != 10] == got[:10] + got[11:]


class Unfit:
    """A transform of one sample that fails for some, and says for which it was called."""

    def __init__(self, bad):
        self.bad = bad
        self.called = []

    def __call__(self, sample):
        self.called.append(sample)
        if sample in self.bad:
            raise OSError(f"unfit: {sample}")
        return -sample


@BESIDE
@given(bad=st.sets(st.integers(0, 59), max_size=5), unread=st.sets(st.integers(0, 59), max_size=3))
@settings(max_examples=25, deadline=None)
def test_an_error_of_a_transform_comes_once_in_the_place_of_its_batch(workers, bad, unread):
    """Batches and notes are those of a worker; no sample is read or transformed twice."""
    source, transform = Read(60, unread), Unfit(bad)
    with opened(workers, source, transform=transform) as batches:
        got = delivered(batches, 30)
    assert sorted(set(source.read)) == sorted(source.read)
    assert sorted(set(transform.called)) == sorted(transform.called)
    with Loader({**CONFIG, "num_workers": 2}, Read(60, unread), transform=Unfit(bad)) as batches:
        assert got == delivered(batches, 30)
    for step, one in enumerate(got):
        wrong = {2 * step, 2 * step + 1} & (bad | unread)
        assert wrong or one == [-2 * step, -2 * step - 1]


@BESIDE
def test_samples_that_are_transformed_together_fail_as_if_each_were_alone(workers):
    """The note names the sample whose tokens are none of the vocabulary, by its row."""
    masked = MaskTokens(vocabulary=100, mask_token=99)

    class Tokens(Read):
        def __getitem__(self, index):
            self.read.append(index)
            return np.full(index % 5 + 1, 100 if index in self.bad else index)

    def run(batches):
        epoch, got = iter(batches), []
        while len(got) < 20:
            try:
                got.append({name: field.tolist() for name, field in next(epoch).items()})
            except SourceError as error:
                got.append((str(error), error.__notes__[0]))
        assert next(epoch, None) is None
        return got

    bad = {7, 20, 21, 38}
    source = Tokens(40, bad)
    with opened(workers, source, Pad(), masked) as batches:
        got = run(batches)
    with Loader(
        {**CONFIG, "num_workers": 2}, Tokens(40, bad), transform=masked, collate=Pad()
    ) as batches:
        assert got == run(batches)
    assert [3, 10, 19] == [step for step, one in enumerate(got) if type(one) is tuple]
    assert got[10][1].endswith("sample 20 (row 0 of step 10, epoch 0), line 21")
    assert got[3][1].endswith("sample 7 (row 1 of step 3, epoch 0), line 8")
    assert sorted(source.read) == list(range(40))


@BESIDE
def test_an_end_behind_an_error_of_a_transform_is_of_its_batch(workers):
    """Where each sample alone is good, no row is told, nor that of the batch before."""

    class Together:
        def __call__(self, sample):
            raise AssertionError("many is called instead")

        def many(self, samples, key, positions):
            if 21 in samples:
                raise OSError("unfit")
            if 26 in samples and len(samples) > 1:
                raise SystemExit
            return samples

    with opened(workers, Read(60), np.array, Together()) as batches:
        epoch = iter(batches)
        with pytest.raises(OSError, match="unfit") as failed:
            list(epoch)
        assert "raised for sample 21 (row 1 of step 10" in failed.value.__notes__[0]
        with pytest.raises(WorkerError, match="raised for the batch of step 13"):
            list(epoch)


@BESIDE
def test_an_error_of_collate_behind_one_of_a_sample_is_of_its_batch(workers):
    def collate(samples):
        if 26 in samples:
            raise OSError("unfit")
        return np.array(samples)

    with opened(workers, Read(60, {21}), collate) as batches:
        got = delivered(batches, 30)
    assert "raised for sample 21 (row 1 of step 10, epoch 0), line 22" in got[10][1]
    assert "raised for the batch of step 13, epoch 0" in got[13][1]


@BESIDE
def test_an_error_of_collate_behind_an_interrupted_read_is_of_its_batch(workers):
    """The same job is asked again, and does not say where it was interrupted."""

    def collate(samples):
        if 21 in samples:
            raise OSError("unfit")
        return np.array(samples)

    with opened(workers, Interrupted(40), collate) as batches:
        epoch = iter(batches)
        with pytest.raises(KeyboardInterrupt):
            list(epoch)
        with pytest.raises(OSError, match="unfit") as failed:
            next(epoch)
    assert "raised for the batch of step 10, epoch 0" in failed.value.__notes__[0]


def test_a_state_between_two_errors_stands_between_their_batches():
    with Loader(CONFIG, source=Read(60, {20, 22})) as batches:
        epoch, places = iter(batches), []
        for _ in range(13):
            with suppress(OSError):
                next(epoch)
            world = batches.state_dict()["world"]
            places.append((world["step"], world["position"]))
    # After an error it stands before the failed batch, until the next one is asked for.
    steps = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 11, 13]
    assert [(step, 2 * step) for step in steps] == places


@BESIDE
def test_an_interrupt_while_a_batch_is_made_loses_nothing(workers):
    with opened(workers, Interrupted(40)) as batches:
        epoch, got, places = iter(batches), [], []
        while len(got) < 20:
            try:
                got.append(next(epoch).tolist())
            except KeyboardInterrupt:
                places.append(batches.state_dict()["world"]["step"])
        assert 0 == batches.stats().failed
    assert [10] == places
    assert [[i, i + 1] for i in range(0, 40, 2)] == got


# What CPython swallows, in any program: a signal in a generator that nobody holds any more.
@pytest.mark.filterwarnings("ignore:Exception ignored.*<generator object")
@pytest.mark.parametrize(
    ("workers", "bad", "step"), [(0, {1}, 3), (0, {2}, 3), (0, {1, 2}, 1), (1, {1, 2}, 3)]
)
def test_a_ctrl_c_at_any_line_beside_an_error_loses_no_batch(workers, bad, step):
    """Of a series of two the first batch fails, the second, or both, as one and the other."""
    for at in itertools.count(1, step):
        got, over = [], False
        with Interrupt() as interrupt, opened(workers, Read(7, bad), batch_size=1) as batches:
            epoch, sweep = iter(batches), Sweep(at, interrupt)
            while not over:
                try:
                    with sweep:
                        for got[0:0] in epoch:
                            pass
                        over = True
                except OSError:
                    pass
                except KeyboardInterrupt as error:
                    interrupt.came_as(error)
        assert [index for index in range(7) if index not in bad] == got[::-1], sweep.where
        interrupt.look()
        if not sweep.where:
            break
    assert at > 200


def test_an_error_has_no_order_worked_out_anew(monkeypatch):
    """What is left of its block is at hand."""
    asked, order = [], _schedule.Plan.order

    def noted(plan, epoch):
        asked.append(epoch)
        return order(plan, epoch)

    monkeypatch.setattr(_schedule.Plan, "order", noted)
    with Loader(CONFIG, source=Read(400, range(0, 400, 6))) as batches:
        assert 200 == len(delivered(batches, 200))
    assert [0] == asked


def series():
    """Give the series that there are, those of other tests' garbage apart."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is _schedule.SeriesJob]


def test_errors_one_behind_the_other_leave_nothing_of_their_series():
    before = len(series())
    with Loader(CONFIG, source=Read(4000, range(0, 4000, 6))) as batches:
        epoch = iter(batches)
        while batches.stats().failed < 600:
            with suppress(OSError):
                next(epoch)
        assert len(series()) - before <= 3


def test_what_fails_before_the_first_row_of_a_batch_names_no_row():
    class Short:
        def tolist(self):
            raise MemoryError

    recipe = Recipe(range(4), lambda sample, key, position: sample, list)
    span = Span(0, 0, 2, 0, 2, 4, last=True, over=True)
    rows = np.arange(4).reshape(2, 2), [np.arange(2), Short()]
    series = SeriesJob(recipe, span, *rows, np.ones(2, np.bool_), 0)
    with pytest.raises(MemoryError):
        series.more(1)
    assert series.part is None
