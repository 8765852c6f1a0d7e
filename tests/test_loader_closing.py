"""When a loader or an epoch ends, what is under way ends too, and nothing stays that it made."""

import os
import signal
import threading

import pytest
from conftest import our_threads
from freeing import free_at_once
from numbered import WAIT, WORKERS, Numbers, lists, load

from threadloader import Batches, BusyError, ClosedError, Loader, per_thread
from threadloader.engine import _engine, _joining
from threadloader.loader._supply import Supply


class TestClosing:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_after_the_with_nothing_can_be_had(self, workers):
        with load(Numbers(6), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            next(epoch)
        for call in (
            lambda: next(epoch),
            lambda: iter(batches),
            lambda: next(batches.epochs(1)),
            lambda: batches.load_state_dict(batches.state_dict()),
        ):
            with pytest.raises(ClosedError, match="closed"):
                call()
        assert 1 == batches.stats().batches
        assert 3 == len(batches)

    def test_it_waits_for_another_thread_that_makes_a_batch_itself(self, monkeypatch):
        """And for what that one closes: behind the `with` nobody reads any more."""
        begun, waited, told, wait = threading.Event(), threading.Event(), [], Supply.wait

        def waits(supply):
            waited.set()
            wait(supply)

        class Handle(Numbers):
            def __getitem__(self, index):
                begun.set()
                assert waited.wait(WAIT)
                return index

            def close(self):
                told.append("closed")

        monkeypatch.setattr(Supply, "wait", waits)
        asking = threading.Thread(target=lambda: next(iter(batches)))
        with load(per_thread(lambda: Handle(3)), num_workers=0) as batches:
            asking.start()
            assert begun.wait(WAIT)
        assert told
        asking.join(WAIT)

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("way", ["break", "return", "raise", "never", "generator", "close"])
    def test_every_way_out_leaves_nothing(self, workers, way):
        """Checked by the fixture that counts threads and files around every test."""

        def run():
            with load(Numbers(50), batch_size=2, num_workers=workers) as batches:
                if way == "never":
                    return
                for number, _ in enumerate(batches):
                    if number == 3:
                        if way == "break":
                            break
                        if way == "return":
                            return
                        if way == "raise":
                            raise LookupError("body")
                        if way == "close":
                            batches.close()
                            batches.close()
                            return
                    if way == "generator":
                        yield number

        generator = run()
        if way == "generator":
            next(generator)
            generator.close()
        elif way == "raise":
            with pytest.raises(LookupError, match="body"):
                list(generator)
        else:
            list(generator)

    def test_a_batch_that_asks_in_its_finalizer_is_refused_and_harms_no_close(self):
        refused = []

        class Batch:
            def __init__(self, samples):
                pass

            def __del__(self):
                try:
                    iter(batches)
                except (BusyError, ClosedError):
                    refused.append(self)

        with load(Numbers(9), collate=Batch, batch_size=1) as batches:
            next(iter(batches))
            while not batches._run.results.place.stream.ready(1):
                pass
        assert refused

    def test_workers_that_are_idle_end_beside_a_sampler_that_hangs(self, monkeypatch):
        """They are gone when the ``with`` is left; a busy machine has all the time it needs."""
        monkeypatch.setattr(_joining, "IDLE_SECONDS", WAIT)
        asked, going_on = threading.Event(), threading.Event()

        def sampler(epoch, n):
            if epoch:
                asked.set()
                going_on.wait()
            return range(n)

        config = {"batch_size": 1, "close_timeout": 0.01}
        with Loader(config, Numbers(4), sampler=sampler) as batches:
            assert 4 == len(list(batches))
            assert asked.wait(WAIT)
            names = our_threads()
            threads = {each.name: each for each in threading.enumerate() if each.name in names}
        left = our_threads()
        feeder = threads.pop("threadloader-feeder")
        going_on.set()
        feeder.join(WAIT)
        assert (2, {feeder.name}) == (len(threads), left)

    def test_closing_in_a_transform_ends_the_epoch_with_closed_error(self):
        held = []

        def transform(sample):
            if sample == 4:
                held[0].close()
            return sample

        with load(Numbers(20), transform=transform, batch_size=2) as batches:
            held.append(batches)
            with pytest.raises(ClosedError):
                lists(batches)

    def test_the_end_of_an_epoch_is_the_end_for_whoever_asks(self):
        """Another thread comes to the end while this one is about to take its turn."""
        with load(Numbers(0), num_workers=0) as batches:
            epoch, new_turn = iter(batches), batches._run.turn.new

            def overtaken():
                batches._run.turn.new = new_turn
                with pytest.raises(StopIteration):
                    next(epoch)
                return new_turn()

            batches._run.turn.new = overtaken
            with pytest.raises(StopIteration):
                next(epoch)

    def test_closing_wakes_a_consumer_in_another_thread(self):
        inside, go_on, got = threading.Event(), threading.Event(), []

        class Slow(Numbers):
            def __getitem__(self, index):
                inside.set()
                assert go_on.wait(WAIT)
                return index

        def consume():
            try:
                next(iter(batches))
            except ClosedError as error:
                got.append(type(error))
            go_on.set()

        with load(Slow(4), num_workers=1) as batches:
            consumer = threading.Thread(target=consume)
            consumer.start()
            assert inside.wait(WAIT)
            batches.close()
            consumer.join(WAIT)
        assert [ClosedError] == got

    @pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signal")
    def test_a_handler_that_closes_or_asks_during_next_corrupts_nothing(self):
        """A signal handler runs in the consumer's thread, in the middle of its next."""

        def once(call):
            raised, asked = [], threading.Event()

            class Signalling(Numbers):
                def __getitem__(self, index):
                    if index == 2 and not raised:
                        raised.append(asked.wait(WAIT))
                        os.kill(os.getpid(), signal.SIGUSR1)
                    return index

            errors = []

            def handler(number, frame):
                try:
                    call(held)
                except BusyError as error:
                    errors.append(error)

            before = signal.signal(signal.SIGUSR1, handler)
            held, got = [], []
            try:
                with load(Signalling(8), batch_size=2, num_workers=1) as batches:
                    held += [batches, iter(batches)]
                    asked.set()
                    got.extend(batch.tolist() for batch in held[1])
            except ClosedError:
                got.append("closed")
            finally:
                signal.signal(signal.SIGUSR1, before)
            return got, len(errors)

        whole = [[0, 1], [2, 3], [4, 5], [6, 7]]
        for _ in range(20):
            got, _ = once(lambda held: held[0].close())
            assert got in [[*whole[:n], "closed"] for n in range(5)] + [whole]
            # Asked in the middle of a next it is refused; between two of them it is a batch.
            got, refused = once(lambda held: next(held[1]))
            assert len(got) == (4 if refused else 3)

    def test_a_factorys_objects_are_not_closed_under_their_readers(self):
        """A close in one worker leaves the objects to the one who leaves the with."""
        held, inside, go_on, closed = [], threading.Event(), threading.Event(), []

        class Reading(Numbers):
            def __getitem__(self, index):
                if index == 0:
                    inside.set()
                    assert go_on.wait(WAIT)
                    assert [] == closed
                else:
                    assert inside.wait(WAIT)
                    held[0].close()
                    go_on.set()
                return index

            def close(self):
                closed.append(self)

        with load(per_thread(lambda: Reading(2)), batch_size=1, num_workers=2) as batches:
            held.append(batches)
            with pytest.raises(ClosedError):
                lists(batches)
            assert [] == closed
        assert closed

    def test_a_state_taken_after_the_with_opens_nothing(self):
        made = []

        def factory():
            made.append(0)
            return Numbers(4)

        with load(per_thread(factory), num_workers=0) as batches:
            lists(batches)
        count = len(made)
        batches.state_dict()
        assert count == len(made)

    def test_without_a_moment_to_close_an_idle_worker_is_not_called_stuck(
        self, caplog, monkeypatch
    ):
        # The moment that it has in any case; a machine that is busy with others may need more.
        monkeypatch.setattr(_joining, "IDLE_SECONDS", 30)
        monkeypatch.setattr(_engine, "GRACE_SECONDS", 30)
        for _ in range(20):
            with load(Numbers(4), close_timeout=0) as batches:
                lists(batches)
        assert [] == caplog.records

    def test_a_source_given_in_code_is_not_closed(self):
        class Closing(Numbers):
            closed = 0

            def close(self):
                self.closed += 1

        source = Closing(4)
        with load(source) as batches:
            lists(batches)
        assert 0 == source.closed

    @pytest.mark.parametrize("workers", WORKERS)
    def test_every_instance_of_a_factory_is_closed_once(self, workers):
        made = []

        class Closing(Numbers):
            def __init__(self):
                super().__init__(20)
                self.closed = 0
                made.append(self)

            def close(self):
                self.closed += 1

        with load(per_thread(Closing), batch_size=2, num_workers=workers) as batches:
            assert [[i, i + 1] for i in range(0, 20, 2)] == lists(batches)
        assert {1} == {each.closed for each in made}

    def test_the_bodys_exception_passes_whatever_closing_does(self):
        class Bad(Numbers):
            def close(self):
                raise OSError("cannot close")

        with pytest.raises(LookupError, match="body") as caught:
            with load(per_thread(lambda: Bad(4))):
                raise LookupError("body")
        assert "cannot close" in caught.value.__notes__[0]
        with pytest.raises(OSError, match="cannot close"), load(per_thread(lambda: Bad(4))):
            pass

    def test_a_batch_that_was_delivered_is_not_kept(self):
        """When the consumer lets go of a batch it is gone, though nothing else was asked for."""
        import weakref

        class Batch(list):
            pass

        with load(Numbers(8), batch_size=2, collate=Batch) as batches:
            epoch = iter(batches)
            gone = weakref.ref(next(epoch))
            free_at_once()
            assert gone() is None


@pytest.mark.parametrize("body", [None, KeyError("the body's")])
def test_a_ctrl_c_at_the_door_leaves_no_thread(monkeypatch, body):
    """It comes before the threads were told to end. They are told all the same."""
    close, came = Batches._close, []

    def interrupted(batches):
        if not came:
            came.append(True)
            signal.raise_signal(signal.SIGINT)
        return close(batches)

    monkeypatch.setattr(Batches, "_close", interrupted)
    loader = Loader({}, range(9))
    batches = loader.__enter__()
    epoch = iter(batches)
    next(epoch)
    with pytest.raises(KeyboardInterrupt):
        loader.__exit__(type(body), body, None)
    with pytest.raises(ClosedError):
        next(epoch)
