"""A quarantine lists each sample that a run has left out, once and no other, whatever fails."""

import errno
import io
import json

import numpy as np
import pytest
from bad_samples import Failing, lines, raising

from threadloader import CollateError, Loader
from threadloader.cli import main
from threadloader.quarantine import Quarantine


def test_of_a_long_message_the_file_has_the_beginning(tmp_path):
    class Talkative(list):
        def __getitem__(self, index):
            raise ValueError("x" * 10**6)

    path = tmp_path / "bad.jsonl"
    with Loader({"on_error": {"skip": 1, "quarantine": str(path)}}, Talkative([0])) as batches:
        assert [] == list(batches)
    (line,) = lines(path)
    assert ("ValueError: xxx", 20_000) == (line["error"][:15], len(line["error"]))


def test_the_quarantine_file_lists_each_sample_once_and_exclude_takes_it(tmp_path):
    path = tmp_path / "bad.jsonl"
    options = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "seed": 5, "on_error": options}
    with Loader(config, source=Failing(20, {3, 7, 11})) as batches:
        list(batches)
        left_out = {line["index"]: line for line in lines(path)}
    assert ({3, 7, 11}, 3) == (set(left_out), len(lines(path)))
    assert left_out[7]["path"] == "data/7.bin"
    assert left_out[7]["error"] == "ValueError: sample 7 is bad"
    assert "in __getitem__" in left_out[7]["traceback"]
    with Loader({"batch_size": 4, "exclude": str(path)}, source=Failing(20, {3, 7, 11})) as batches:
        got = np.concatenate(list(batches)).tolist()
    assert sorted(set(range(20)) - {3, 7, 11}) == sorted(got)


def test_what_is_prefetched_and_never_asked_for_is_not_listed(tmp_path):
    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "shuffle": False, "prefetch_batches": 8}
    config["on_error"] = {"skip": 9, "quarantine": str(path)}
    with Loader(config, source=Failing(8, {4})) as batches:
        next(iter(batches))
    assert not path.exists()


def test_a_quarantine_that_cannot_be_written_loses_nothing(tmp_path):
    """The error comes out of `next`; once it is mended, the same batch comes, and its line."""
    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 2, "shuffle": False}
    config["on_error"] = {"skip": 9, "quarantine": str(path)}
    with Loader(config, source=Failing(4, {1})) as batches:
        epoch = iter(batches)
        path.mkdir()
        with pytest.raises(OSError, match=r"bad\.jsonl"):
            next(epoch)
        path.rmdir()
        assert [0] == next(epoch).tolist()
        assert (1,) == batches.info.skipped
    assert [1] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("check", "--batch"),
        ("bench", "--workers", "0", "--batches", "2", "--repeat", "1"),
    ],
)
def test_commands_write_nothing_into_a_quarantine_file(command, tmp_path, capsys):
    """Their runs are not the user's."""
    (tmp_path / "x.jsonl").write_text('{"x": 1}\n{"x": "two"}\n{"x": 3}\n', "utf-8")
    config = {"source": {"type": "jsonl", "path": "x.jsonl", "dtypes": {"x": "int64"}}}
    config |= {"batch_size": 1, "on_error": {"skip": 99, "quarantine": "bad.jsonl"}}
    (tmp_path / "c.json").write_text(json.dumps(config), "utf-8")
    with Loader(tmp_path / "c.json") as batches:
        assert len(list(batches)) == 2
    before = (tmp_path / "bad.jsonl").read_bytes()
    assert main([*command, str(tmp_path / "c.json")]) < 2
    assert before == (tmp_path / "bad.jsonl").read_bytes()


@pytest.mark.parametrize("text", ["Bad(None)", "", "\ud800 half", "two\nlines"])
def test_any_text_of_an_error_is_listed(tmp_path, text):
    def transform(sample):
        raise ValueError(text)

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=range(1), transform=transform) as batches:
        assert [] == list(batches)
    assert f"ValueError: {text}".strip().rstrip(":") == lines(path)[0]["error"].rstrip(":")


def test_an_error_that_cannot_be_printed_is_listed_by_its_type(tmp_path):
    class Odd(Exception):
        def __str__(self):
            raise self

        __repr__ = __str__

    def transform(sample):
        raise Odd

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=range(1), transform=transform) as batches:
        assert [] == list(batches)
    assert "Odd" in lines(path)[0]["error"]


def test_an_error_whose_class_answers_nothing_is_listed_by_its_type(tmp_path):
    """Python itself fails when it is to print such an exception."""

    class Mute(type):
        def __getattribute__(cls, name):
            if name in ("__module__", "__qualname__"):
                raise RuntimeError(f"no {name}")
            return super().__getattribute__(name)

    class Odd(Exception, metaclass=Mute):
        pass

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Failing(1), transform=raising(Odd)) as batches:
        assert [] == list(batches)
    assert "Odd (not printable: RuntimeError)" == lines(path)[0]["error"]


def test_a_place_that_cannot_be_told_does_not_hide_the_failure(tmp_path):
    class Lost(Failing):
        def locate(self, index):
            raise OSError("no place")

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Lost(1, {0})) as batches:
        assert [] == list(batches)
    (line,) = lines(path)
    assert "(its place could not be told: OSError)" == line["path"]
    assert "ValueError: sample 0 is bad" == line["error"]


def test_a_place_that_the_source_does_not_know_is_none(tmp_path):
    class Lost(Failing):
        def locate(self, index):
            return None

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(path)}}
    with Loader(config, source=Lost(2, {0, 1})) as batches:
        with pytest.raises(ValueError, match="is bad") as caught:
            list(batches)
    assert "(row 0 of step 1, epoch 0); " in caught.value.__notes__[0]
    (line,) = lines(path)
    assert line["path"] is None


def test_a_batch_that_fails_beside_a_sample_lists_none(tmp_path):
    """Within the budget the batch is not delivered short: it is not delivered."""

    def transform(index):
        if index == 0:
            raise OSError("sample 0 is damaged")
        return np.zeros(index)

    path = tmp_path / "bad.jsonl"
    on_error = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "shuffle": False, "on_error": on_error}
    with Loader(config, source=range(4), transform=transform) as batches:
        with pytest.raises(CollateError):
            next(iter(batches))
        assert 0 == batches.stats().skipped
    assert not path.exists()


def test_a_line_that_was_written_in_part_is_an_error(tmp_path, monkeypatch):
    """As on a full disk; it is not there then, nor any before it of the same batch."""
    path = tmp_path / "bad.jsonl"
    quarantine = Quarantine(path)

    class Full(io.FileIO):
        def write(self, data):
            return super().write(data[:20])

    with monkeypatch.context() as full:
        full.setattr(type(path), "open", lambda path, mode, buffering: Full(path, "a+"))
        with pytest.raises(OSError, match=r"expected to write \d+ bytes, wrote") as caught:
            quarantine.add([{"index": 1}, {"index": 3}])
    assert (errno.ENOSPC, str(path)) == (caught.value.errno, caught.value.filename)
    assert b"" == path.read_bytes()
    quarantine.add([{"index": 2}])
    assert [{"index": 2}] == lines(path)


def test_what_the_system_says_of_the_file_names_it_and_its_option(tmp_path, monkeypatch):
    """As on a full disk; the batch waits, and comes when its lines can be written."""
    failing = [True]

    class Full(io.FileIO):
        def write(self, data):
            if failing.pop():
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    path = tmp_path / "bad.jsonl"
    config = {"batch_size": 2, "on_error": {"skip": 1, "quarantine": str(path)}, "num_workers": 0}
    with Loader(config, [1, "x"], transform=abs) as batches:
        epoch = iter(batches)
        monkeypatch.setattr(type(path), "open", lambda path, mode, buffering: Full(path, "a+"))
        with pytest.raises(OSError, match=r"No space left on device: '.*bad\.jsonl'") as caught:
            next(epoch)
        failing[:] = [False]
        assert [1] == next(epoch).tolist()
    note = 'threadloader: of "on_error/quarantine"; next tries to write again'
    assert (str(path), [note]) == (caught.value.filename, caught.value.__notes__)


def test_a_quarantine_whose_folder_is_gone_is_told_as_such(tmp_path):
    """A reader would take it for the data's."""
    folder = tmp_path / "lists"
    folder.mkdir()
    on_error = {"skip": 1, "quarantine": str(folder / "bad.jsonl")}
    with Loader({"on_error": on_error, "num_workers": 0}, [1, "x"], transform=abs) as batches:
        folder.rmdir()
        epoch = iter(batches)
        with pytest.raises(FileNotFoundError) as caught:
            next(epoch)
        assert ['threadloader: of "on_error/quarantine"; next tries to write again'] == (
            caught.value.__notes__
        )
        folder.mkdir()
        assert [1] == next(epoch).tolist()
