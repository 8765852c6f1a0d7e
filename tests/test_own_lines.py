"""An exception of the user's own, raised by a signal handler at each line of a call."""

import json
import os
import signal
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import threadloader
from threadloader import Loader
from threadloader.state import _file

HOME = str(Path(threadloader.__file__).parent)


class Mine(FileNotFoundError, ValueError, TypeError, OverflowError, KeyError, IndexError):
    """Caught by whatever catches one of these."""


class Taking(list):
    """A source that may be read by a ``take`` of its own, and tells nothing of its fields."""

    def take(self, indices):
        return np.array([self[index]["x"] for index in indices])


def jitter(sample, rng=None):
    return sample


def saving():
    """Saves over a file that is there, beside what a process that was killed has left behind."""
    Path("run.state.0.1-00000000.tmp").touch()
    with Loader({"num_workers": 0}, range(4)) as batches:
        batches.save("run.state")


def resuming():
    with Loader({"num_workers": 0}, range(4), resume="run.state"):
        pass


def making():
    """Makes a loader of a file's section and of what is given in code, and looks at all of it."""
    source = Taking({"x": number} for number in range(4))
    with Loader("train.json#/training", source, transform=jitter, skip_steps=0):
        pass


class Named(list):
    """A source that a cache in a folder may keep from one run to the next."""

    def fingerprint(self):
        return "named"


WORDS = [None, True, 1.5, 2j, -3, "text", b"bytes", np.str_("a"), np.bytes_(b"b"), np.float32(1)]
KEPT = Named({"array": np.arange(number), "words": (number, *WORDS)} for number in range(2))


def reading_kept():
    """Reads samples that are kept in a folder, with every kind of value, or first keeps them."""
    config = {"num_workers": 0, "batch_size": 2, "cache": {"folder": "kept"}}
    with Loader(config, KEPT, collate=list) as batches:
        for epoch in batches.epochs(2):
            for _ in epoch:
                pass


RAGGED = [
    {"x": np.arange(number + 1.0), "i": np.arange(number + 1), "y": number, "text": "a"}
    for number in range(2)
]


def padding():
    """Pads fields with a fraction and with an integer, and stacks the others."""
    config = {"num_workers": 0, "batch_size": 2, "exclude": "excluded"}
    value = {"x": 0.1, "i": -1}
    with Loader({**config, "collate": {"type": "pad", "value": value}}, RAGGED) as batches:
        for _ in batches:
            pass


TRAINING = {
    "num_workers": 0,
    "max_bytes": "1MiB",
    "on_error": {"skip": 1, "quarantine": "q"},
    "sampler": {"type": "balanced", "field": "x"},
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # between `open` and `with`
@pytest.mark.parametrize(
    ("run", "own"),
    [
        *product([saving, resuming, making], [ValueError, TypeError, FileNotFoundError]),
        (reading_kept, Mine),
        (padding, Mine),
    ],
)
def test_at_each_line_of_the_library_it_comes_out_itself(run, own, tmp_path, monkeypatch):
    """Also where no signal is looked for, as at the `finally` of an open folder: none is opened."""
    monkeypatch.setattr(_file, "_open_folder", lambda folder, numbers: None)
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is for another test
    monkeypatch.chdir(tmp_path)
    Path("train.json").write_text(json.dumps({"training": TRAINING}))
    Path("excluded").touch()
    Path("q").write_text('{"index": 3}\n')
    saving()
    run()  # what is imported or made once is there
    lost = [
        f"{Path(code.co_filename).name}:{line}: {got!r}"
        for code, line in lines(run)
        if type(got := ended(run, code, line, own(2, "mine"))) is not Rung
    ]
    assert [] == lost


class Rung(Exception):
    """What the handler has raised has come out."""


def lines(run):
    """Give each line of the library that a call comes to, with its code."""
    places = {}

    def trace(frame, event, argument):
        if event == "line":
            places[frame.f_code, frame.f_lineno] = None
        return trace if frame.f_code.co_filename.startswith(HOME) else None

    traced(trace, run)
    assert places
    return list(places)


def ended(run, code, line, own):
    """Interrupt a call where it first comes to a line; give what it raises, or None."""

    def ring(number, frame):
        raise own

    def trace(frame, event, argument):
        if event == "line" and frame.f_lineno == line:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace if frame.f_code is code else None

    before = signal.signal(signal.SIGINT, ring)
    try:
        traced(trace, run)
    except Exception as error:
        return Rung() if error is own else error
    finally:
        signal.signal(signal.SIGINT, before)
    return None


def traced(trace, run):
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
