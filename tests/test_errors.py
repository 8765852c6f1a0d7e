"""An error that is sent from one process to another says there what it said here."""

import pickle

import pytest

from threadloader.errors import CollateError, SourceError, StalledError, StateError


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
