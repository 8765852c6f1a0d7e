"""Without workers, jobs give what they give with them, and what a signal handler raises passes."""

import signal

import pytest
from numbered_jobs import Job, results

from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Inline, _inline


class TestInline:
    def test_it_gives_what_the_threads_give(self):
        """Same values, errors, parts and end, without a thread."""

        def do(number, part):
            if (number, part) == (1, 2):
                raise ValueError("bad")
            return part

        stream = Inline().stream(iter([Job(n, parts=3, do=do) for n in range(3)]), depth=9)
        first, second, third = results(stream, 3)
        assert (0, [0, 1, 2]) == first.value
        assert ("bad", 2) == (str(second.error), second.part)
        assert (2, [0, 1, 2]) == third.value
        assert ENDED is stream.result(3)

    def test_asking_again_runs_nothing_again(self):
        ran = []
        stream = Inline().stream(iter([Job(0, do=lambda n, p: ran.append(p))]), depth=1)
        assert stream.result(0) is stream.result(0)
        assert [0] == ran

    def test_an_interrupt_that_the_job_raises_itself_is_an_error_of_the_job(self):
        def do(number, part):
            raise KeyboardInterrupt

        outcome = Inline().stream(iter([Job(0, do=do)]), depth=1).result(0)
        assert KeyboardInterrupt is type(outcome.error)

    def test_after_a_stop_it_runs_nothing_however_often_it_is_asked(self):
        """Whoever waits for its end is woken once."""
        engine, ran = Inline(), []
        stream = engine.stream(iter([]), depth=1)
        assert engine.stop()
        assert (None, None) == (stream.run(ran.append, 0), stream.run(ran.append, 1))
        assert ([], None) == (ran, engine.left)

    def test_a_real_interrupt_passes_and_the_job_is_run_again(self):
        """A signal during the job is the user's own, and consumes no result."""
        runs = []

        def do(number, part):
            runs.append(part)
            if len(runs) == 1:
                signal.raise_signal(signal.SIGINT)
            return part

        stream = Inline().stream(iter([Job(0, do=do)]), depth=1)
        with pytest.raises(KeyboardInterrupt):
            stream.result(0)
        assert (0, [0]) == stream.result(0).value
        assert [0, 0] == runs

    def test_what_a_handler_in_python_raises_passes_too(self):
        def handler(number, frame):
            raise SystemExit("told to end")

        def do(number, part):
            signal.raise_signal(signal.SIGTERM)

        before = signal.signal(signal.SIGTERM, handler)
        try:
            with pytest.raises(SystemExit, match="told to end"):
                Inline().stream(iter([Job(0, do=do)]), depth=1).result(0)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_an_interrupted_draw_ends_the_stream(self):
        """The job that the iterator gave is lost: the consumer must begin anew where it stands."""

        def jobs():
            yield Job(0)
            signal.raise_signal(signal.SIGINT)
            yield Job(1)

        stream = Inline().stream(jobs(), depth=1)
        assert (0, [0]) == stream.result(0).value
        with pytest.raises(KeyboardInterrupt):
            stream.result(1)
        assert ENDED is stream.result(1)

    @pytest.mark.parametrize("kind", ["method", "partial", "object"])
    def test_a_handler_of_any_kind_is_known(self, kind):
        """As asyncio's is a partial of a method."""
        import functools

        class Handler:
            def __call__(self, number, frame):
                raise KeyboardInterrupt

            def method(self, number, frame):
                raise KeyboardInterrupt

        made = {
            "method": Handler().method,
            "partial": functools.partial(Handler().method),
            "object": Handler(),
        }
        before = signal.signal(signal.SIGINT, made[kind])
        try:
            job = Job(0, do=lambda number, part: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                Inline().stream(iter([job]), depth=1).result(0)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_stop_that_comes_as_a_job_begins_is_told_of_it(self):
        """Another thread stops it right behind the look whether it is usable: the job is run."""

        class Stopped(Inline):
            said = None

            def __getattribute__(self, name):
                found = super().__getattribute__(name)
                if name == "usable" and found and self.said is None:
                    self.said = False  # so that the stop itself is not looked at
                    self.said = self.stop()
                return found

        ran = []
        inline = Stopped()
        job = Job(0, do=lambda number, part: ran.append(part))
        inline.stream(iter([job]), depth=1).result(0)
        assert (False, [0]) == (inline.said, ran)

    def test_what_is_left_behind_a_job_may_be_taken_back_as_it_is_looked_at(self):
        """Another thread closes right behind the look whether there is something: it is done."""
        done = []

        class Taken(Inline):
            def __getattribute__(self, name):
                found = super().__getattribute__(name)
                if name == "behind":
                    self.behind = None
                return found

        inline = Taken()

        def close(number, part):
            inline.stop()
            inline.behind = lambda *error: done.append(error)

        inline.stream(iter([Job(0, do=close)]), depth=1).result(0)
        assert 1 == len(done)

    def test_after_a_stop_nothing_is_run(self):
        inline = Inline()
        stream = inline.stream(iter([Job(0)]), depth=1)
        inline.stop()
        assert ENDED is stream.result(0)

    @pytest.mark.parametrize(("told", "bound"), [(False, 2.0), (True, 0.5)])
    def test_what_is_stuck_is_waited_for_once(self, told, bound, monkeypatch):
        """Up to the bound from the first wait on, or from when it was told, as at the very end."""
        runtime, said = Slow(), []
        monkeypatch.setattr(_inline, "say", lambda *text: said.append(text))
        inline = Inline(runtime)
        inline.running = 1
        if told:
            inline.tell()
        assert not inline.stop()  # as by the very thread that is at work
        runtime.now = 1.5
        for _ in range(3):
            assert not inline.stop()
            inline.wait(2.0)
        assert ([bound, 0, 0], 1) == (runtime.bounds, len(said))


class Slow(Runtime):
    """What is waited for does not come; the clock stands still otherwise."""

    def __init__(self):
        self.now, self.bounds = 0.0, []

    def monotonic(self):
        return self.now

    def wait(self, lock, bound):
        self.bounds.append(bound)
        self.now += bound
        return False

    def stack(self, ident):
        return ""
