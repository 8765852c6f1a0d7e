"""Errors of ours: what they say in another process, as errors of the system, and in the log."""

import errno
import pickle
from pathlib import Path

import pytest

from threadloader.errors import CollateError, SourceError, StalledError, StateError, log, shown
from threadloader.sources import open_source


def collate_error():
    error = CollateError("expected one shape", (0, 3))
    error.samples = (17, 4)
    return error


@pytest.mark.parametrize(
    "error",
    [
        SourceError("expected a file", "data/x.npy", "row 3", "/path"),
        CollateError("expected one shape", (0, 3)),
        collate_error(),
        StateError("the state is of another run", ("seed", "source")),
        StalledError("nothing has moved", 300.5),
    ],
    ids=str,
)
def test_a_copy_has_the_message_and_the_facts(error):
    error.add_note("raised for sample 3")
    copy = pickle.loads(pickle.dumps(error))
    assert ["raised for sample 3"] == copy.__notes__
    assert (type(error), str(error), vars(error)) == (type(copy), str(copy), vars(copy))


def test_an_error_of_a_source_has_the_number_of_the_systems_and_its_file(tmp_path):
    """Through further errors of ours, as where several files are missing."""
    with pytest.raises(SourceError) as caught:
        open_source({"type": "npy", "path": "none.npy"}, tmp_path)
    assert (errno.ENOENT, str(tmp_path / "none.npy")) == (caught.value.errno, caught.value.filename)
    copy = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(caught.value))))
    assert (errno.ENOENT, None) == (copy.errno, copy.__cause__)
    bare = SourceError("what is wrong")
    assert (None, None, "what is wrong") == (bare.errno, bare.filename, str(bare))
    bare.__cause__ = ValueError("not the system's")
    assert bare.errno is None


def test_a_log_quotes_paths_and_errors_in_one_line_that_is_safe_for_a_terminal(caplog):
    """Whatever they are called: a file's name may have a line of its own, and colours."""
    with caplog.at_level("INFO", "threadloader"):
        log("info", "%s: %s, %s", Path("a\x1b[31m\nb"), ValueError("x\x07"), "two\nlines")
    assert [r"a\x1b[31m\nb: x\x07, two" + "\nlines"] == [it.getMessage() for it in caplog.records]


def test_what_cannot_be_shown_is_told_by_its_class_whatever_that_does():
    class Mute(type):
        @property
        def __name__(cls):
            raise KeyError("no name")

    class Odd(metaclass=Mute):
        def __repr__(self):
            raise KeyError("no text")

    assert "a value of type Odd" == shown(Odd())
