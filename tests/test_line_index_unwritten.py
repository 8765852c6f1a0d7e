"""An index of lines that cannot be kept stays in memory; a write cut short leaves no half."""

import errno
import logging
import os
from pathlib import Path

import pytest
from denied import denied_at_first
from line_indexes import DATA, LINES, file, index_of, passes, read

from threadloader.errors import SourceError, _open_files
from threadloader.sources import _index_cache
from threadloader.sources._lines import LineFiles

__all__ = ["file", "passes"]  # the fixtures


def test_a_folder_that_cannot_be_written_is_one_warning_and_the_index_stays_in_memory(
    tmp_path, caplog
):
    """Its name is that of a file, so that even root cannot write into it."""
    for name in "abc":
        (tmp_path / name).write_bytes(DATA)
    (tmp_path / "no folder").write_bytes(b"")
    lines = LineFiles([tmp_path / name for name in "abc"], index=tmp_path / "no folder")
    assert LINES * 3 == [lines.line(i).text() for i in range(len(lines))]
    lines.close()
    (record,) = caplog.records
    assert logging.WARNING == record.levelno
    named = tmp_path / "no folder" / ".a."
    assert record.message.startswith(str(named))
    assert ": expected to keep an index of lines, got: " in record.message
    assert record.message.endswith("; going on with the index in memory")


@pytest.mark.parametrize("system", ["Windows", "another"])
def test_where_another_process_is_at_an_index_windows_waits_for_it(
    file, passes, caplog, monkeypatch, system
):
    """It replaces no file that is open, and opens none that is being replaced."""
    windows = system == "Windows"
    monkeypatch.setattr(_open_files, "_WINDOWS", windows)
    monkeypatch.setattr(_index_cache, "_WINDOWS", windows)
    monkeypatch.setattr(_open_files, "_PAUSE_SECONDS", 0)
    opened = _index_cache.open_regular

    def denied(path):
        try:
            raise PermissionError(errno.EACCES, "Access is denied")
        except PermissionError as error:
            raise SourceError("expected a file that can be read", path) from error

    monkeypatch.setattr(_index_cache, "open_regular", denied)
    monkeypatch.setattr(os, "replace", denied_at_first(os.replace))
    assert LINES == read(file)
    assert (windows, 0 if windows else 1) == (index_of(file).exists(), len(caplog.records))
    monkeypatch.setattr(_index_cache, "open_regular", opened)
    assert LINES == read(file)
    assert (1 if windows else 2) == len(passes)


def test_a_write_that_fails_names_the_index(file, caplog, monkeypatch):
    """As where the disk is full: the system names no file then."""

    def fsync(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(_index_cache.os, "fsync", fsync)
        assert LINES == read(file)
    (record,) = caplog.records
    reason = os.strerror(errno.ENOSPC)
    said = f"{index_of(file)}: expected to keep an index of lines, got: {reason}; going on"
    assert record.message.startswith(said)


def test_a_folder_that_no_system_has_is_one_warning_and_the_index_stays_in_memory(file, caplog):
    assert LINES == read(file, file.parent / "no\0folder")
    (record,) = caplog.records
    assert ": expected to keep an index of lines, got: " in record.message


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_index_or_none_and_no_other_file(
    file, monkeypatch, caplog, step
):
    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    for had_one in (False, True):
        if had_one:
            read(file)
            os.utime(file, ns=(0, 0))
        with monkeypatch.context() as patch:
            if step == "fsync":
                patch.setattr(os, "fsync", fail)
            elif step == "replace":
                patch.setattr(os, "replace", fail)
            elif step == "write":
                patch.setattr(_index_cache, "_checksum", fail)
            else:
                patch.setattr(_index_cache.secrets, "token_hex", lambda _: "x" * 300)
            caplog.clear()
            assert LINES == read(file)
            assert 1 == sum(record.levelno == logging.WARNING for record in caplog.records)
        assert had_one == index_of(file).exists()
        assert {file, index_of(file)} >= set(file.parent.iterdir())


def test_an_interrupt_while_it_is_written_leaves_no_file(file, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read(file)
    assert [file] == list(file.parent.iterdir())


def test_an_interrupt_right_behind_the_opening_leaves_no_file(file, monkeypatch):
    """The file is there; nothing has been told of it yet."""
    real = Path.open

    def interrupted(path, mode="r", **options):
        opened = real(path, mode, **options)
        if mode != "xb":
            return opened
        opened.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(file)
    assert [file] == list(file.parent.iterdir())


@pytest.mark.parametrize("step", ["load", "fsync", "unlink"])
def test_what_a_signal_handler_raises_passes_as_it_is(file, monkeypatch, step):
    """It is not taken for an index that cannot be read or written."""
    if step == "load":
        read(file)
    rung = TimeoutError("rung")

    def ring(*args, **options):
        raise rung

    place = {"load": (_index_cache, "_fill"), "fsync": (os, "fsync"), "unlink": (Path, "unlink")}
    with monkeypatch.context() as patch:
        patch.setattr(*place[step], ring)
        with pytest.raises(TimeoutError) as caught:
            read(file)
    assert rung is caught.value
    assert {file, index_of(file)} >= set(file.parent.iterdir())
