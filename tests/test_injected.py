"""Each point that can fail does, at each of its hits, with every exception of the zoo.

What must hold then is in injected.py, the points in points.py, the exceptions in zoo.py.
`python3 tools/campaign faults` runs as many more, drawn at random, as one likes.
"""

import random
import threading

import pytest
from campaigns import faults
from failing import Source
from injected import Case, Wrong, cases, drawn, hits, run, sure, undisturbed
from points import POINTS
from zoo import ZOO, kind

LEAST = 230
"""How many failures each point has, at least."""


def test_there_are_at_least_5000_failures():
    assert LEAST * len(POINTS) >= 5000


def test_the_zoo_has_at_least_40_members_and_each_gives_an_exception():
    assert len(ZOO) >= 40
    assert [] == [name for name in ZOO if not issubclass(kind(name), BaseException)]


@pytest.mark.parametrize("point", POINTS)
def test_each_failure_comes_out_in_its_place_and_harms_nothing_else(point):
    """With every exception, at 0 to 3 workers, once and from then on."""
    failed, seen = 0, set()
    with undisturbed():
        for case in cases(point):
            failed += run(case) > 0
            seen.add((case.workers, case.always, case.hit))
    assert failed >= LEAST
    for workers in POINTS[point].workers:
        every = set(range(1, hits(point, workers) + 1))
        for always in (0, 1):
            assert every == {hit for *key, hit in seen if key == [workers, always]}


class TestWhatIsLookedAt:
    """Each thing that is looked at, seen to be wrong."""

    def wrong(self, monkeypatch, place, name, value, case, match):
        with undisturbed(), monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            with pytest.raises(Wrong, match=match) as caught:
                run(case)
        assert [f"the case: {case}"] == caught.value.__notes__

    def test_a_batch_of_other_samples(self, monkeypatch):
        read = Source.__getitem__
        swapped = lambda self, index: read(self, {7: 8}.get(index, index))  # noqa: E731
        case = Case("read", 2)
        self.wrong(monkeypatch, Source, "__getitem__", swapped, case, "step 2, .* another batch")

    def test_an_exception_without_its_note(self, monkeypatch):
        from threadloader.loader import _failure

        case = Case("collate", 2)
        mute = lambda error, *said: error.add_note("threadloader: somewhere") or True  # noqa: E731
        self.wrong(monkeypatch, _failure, "noted", mute, case, "it says threadloader: somewhere")

    def test_an_exception_that_is_taken_for_an_end(self, monkeypatch):
        from threadloader.loader import _failure

        case = Case("read", 9, error="stop-iteration")
        self.wrong(monkeypatch, _failure, "WRAPPED", (), case, "epoch 0 ends at 2|as it is")

    def test_another_row_than_the_lowest(self, monkeypatch):
        from threadloader.engine import _slots

        def last(self, worker, error):
            self._failed = (worker.part or 0, error)

        case = Case("read", 1, always=1, workers=3)
        with undisturbed(), monkeypatch.context() as patch:
            patch.setattr(_slots.Slot, "fail", last)
            with pytest.raises(Wrong, match="lowest row"):  # noqa: PT012 - which comes last is chance
                for _ in range(500):
                    run(case)

    def test_a_failed_batch_that_is_delivered(self, monkeypatch):
        from threadloader.loader import _place, _run

        def delivery(*args, lost=False, **options):
            return _place.Delivery(*args, **options)

        case = Case("read", 4)
        self.wrong(monkeypatch, _run, "Delivery", delivery, case, "another batch")

    def test_a_cycle(self, monkeypatch):
        made = Source.__init__

        def init(self, *args):
            made(self, *args)
            self.me = self

        case = Case("read", 1)
        self.wrong(monkeypatch, Source, "__init__", init, case, "objects were in cycles")

    def test_an_object_that_is_kept(self, monkeypatch):
        kept, made = [], Source.__init__

        def init(self, *args):
            made(self, *args)
            kept.append(self)

        case = Case("read", 1)
        self.wrong(monkeypatch, Source, "__init__", init, case, r"objects are left: \[.*Source")

    def test_a_thread_that_is_left(self, monkeypatch):
        go = threading.Event()
        threads, made = [], Source.__init__

        def init(self, *args):
            made(self, *args)
            threads.append(threading.Thread(target=go.wait))
            threads[-1].start()

        try:
            case = Case("read", 1)
            self.wrong(monkeypatch, Source, "__init__", init, case, "threads are left")
        finally:
            go.set()
            for thread in threads:
                thread.join()

    def test_a_file_that_is_left_open(self, monkeypatch):
        files, made = [], Source.__init__

        def init(self, *args):
            made(self, *args)
            files.append(open(__file__, "rb"))  # noqa: SIM115 - closed below

        try:
            case = Case("read", 1)
            self.wrong(monkeypatch, Source, "__init__", init, case, "files are left open")
        finally:
            for file in files:
                file.close()

    def test_a_point_that_is_never_passed(self):
        with undisturbed(), pytest.raises(Wrong, match="not passed so often"):
            run(Case("read", 100))


class TestTheCampaign:
    def test_it_counts_the_failures(self):
        part = faults.work(3, range(40))
        assert (40, []) == (part.cases, part.failures)
        least = sum(sure(drawn(random.Random(f"3/{number}"))) for number in range(40))
        assert least <= part.sums["with a failure raised"] <= 40

    def test_a_case_is_replayed_from_its_text(self, capsys):
        assert 0 == faults.main(["--replay", "point=take hit=2 always=1 error=memory workers=1"])
        assert "faults: nothing wrong, with 7 failures raised\n" == capsys.readouterr().out

    def test_a_failure_tells_what_replays_it(self, capsys):
        assert 1 == faults.main(["--replay", "point=read hit=21"])
        told = "to replay it: python3 tools/campaign faults --replay 'point=read hit=21 always=0 "
        assert told in capsys.readouterr().err

    @pytest.mark.parametrize(
        "text", ["point=nothing", "point=read error=x", "hit=1", "x", "point=read hit=y"]
    )
    def test_a_text_that_tells_no_case_is_refused(self, text, capsys):
        with pytest.raises(SystemExit, match="2"):
            faults.main(["--replay", text])
        assert "expected a case as a failure tells it" in capsys.readouterr().err


def test_a_case_can_be_read_from_its_text():
    case = Case("close", 3, 1, "memory", 2, 4, 1)
    assert case == Case.read(str(case))
