"""What is seldom said, and where no file can be opened any more."""

import logging
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from threadloader import per_thread
from threadloader.errors import log
from threadloader.quarantine import is_torn
from threadloader.sources import _progress
from threadloader.sources._progress import ProgressLog
from threadloader.sources.columns import read_numbers

WAIT = 30.0
"""Seconds after which a test gives up."""


@pytest.fixture
def no_import(monkeypatch):
    """`logging` cannot be imported, as where no file can be opened any more."""
    monkeypatch.setitem(sys.modules, "logging", None)


class Slow:
    """Two numbers, of which a worker reads none before it is let go on."""

    def __init__(self):
        self.reading, self.over = threading.Event(), threading.Event()

    def __len__(self):
        return 2

    def __getitem__(self, index):
        self.reading.set()
        assert self.over.wait(WAIT)
        return index

    def close(self):
        pass


@pytest.mark.usefixtures("no_import")
def test_what_stays_open_is_told_where_the_log_cannot_be_imported(capsys):
    slow = Slow()
    source = per_thread(lambda: slow)
    with ThreadPoolExecutor(1) as pool:
        try:
            reading = pool.submit(source.__getitem__, 1)
            assert slow.reading.wait(WAIT)
            source.close()
        finally:
            slow.over.set()
        assert 1 == reading.result()
    told = capsys.readouterr().err
    assert told.startswith("threadloader: per_thread: an object of the class Slow stays open")


@pytest.mark.usefixtures("no_import")
def test_a_torn_line_is_told_where_the_log_cannot_be_imported(tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text('{"index": 3, "step": 0}\n{"index": ')
    assert [3] == read_numbers("bad.jsonl", tmp_path, None, whole=True, torn=is_torn).tolist()
    assert ": line 2 is cut short, and passed over\n" in capsys.readouterr().err


@pytest.mark.usefixtures("no_import")
def test_progress_is_not_told_where_the_log_cannot_be_imported(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    ProgressLog().tell("read %d", 1)
    assert "" == capsys.readouterr().err


@pytest.mark.usefixtures("no_import")
def test_nothing_is_raised_where_there_is_no_standard_error_either(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    log("warning", "a word")


def test_what_a_signal_handler_raises_passes_while_the_log_is_imported(monkeypatch, rung):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "logging":
                signal.raise_signal(signal.SIGINT)

    monkeypatch.delitem(sys.modules, "logging")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(TimeoutError, match="rung"):
        log("warning", "a word")


def test_a_record_names_the_module_that_logs(caplog):
    with caplog.at_level(logging.INFO, "threadloader"):
        log("info", "a %s", "word")
    assert [("a word", os.path.basename(__file__))] == [
        (record.getMessage(), record.filename) for record in caplog.records
    ]
