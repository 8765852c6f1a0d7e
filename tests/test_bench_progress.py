"""How far a measurement is shows on stderr: in lines, in one that is wiped out, or by tqdm."""

import os
import signal
import sys

import pytest

from threadloader.adapters import progress as adapter
from threadloader.bench._progress import Bar, Lines, progress


class Screen:
    """A stream that keeps what is written; perhaps a terminal, perhaps one that has gone."""

    def __init__(self, *, terminal, gone=False):
        self.text, self.terminal, self.gone = "", terminal, gone

    def isatty(self):
        return self.terminal

    def write(self, text):
        if self.gone:
            raise BrokenPipeError
        self.text += text

    def flush(self): ...


@pytest.mark.parametrize(
    ("terminal", "as_json", "expected"),
    [
        (False, False, "run 1 of 9: num_workers 10 ...\nrun 2 of 9: num_workers 2 ...\n"),
        (False, True, ""),
        (
            True,
            True,
            "\rrun 1 of 9: num_workers 10 ...\rrun 2 of 9: num_workers 2 ... \r" + 29 * " " + "\r",
        ),
    ],
)
def test_progress_is_lines_or_one_line_that_is_wiped_out(monkeypatch, terminal, as_json, expected):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    screen = Screen(terminal=terminal)
    shown = progress(screen, 9, json=as_json)
    shown.begin(1, "num_workers 10")
    shown.begin(2, "num_workers 2")
    shown.close()
    shown.close()
    assert expected == screen.text


def test_a_line_of_progress_stays_in_its_line(monkeypatch):
    """What a terminal goes on with in another one would not be wiped out."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    sizes = {7: os.terminal_size((20, 5))}
    screen = Screen(terminal=True)
    screen.fileno = lambda: 7
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    shown = progress(screen, 9, json=False)
    shown.begin(1, "num_workers 10")
    sizes[7] = os.terminal_size((15, 5))  # whoever looks on has made it narrower
    shown.begin(2, "num_workers 2")
    shown.close()
    lines = ["", "run 1 of 9: num_wor", "run 2 of 9: nu", 14 * " ", ""]
    assert "\r".join(lines) == screen.text


@pytest.mark.parametrize(
    ("size", "expected"), [((0, 0), Lines), ((0, 24), Lines), ((80, 0), Lines), ((80, 24), Bar)]
)
def test_a_bar_is_for_a_terminal_that_has_a_size(monkeypatch, size, expected):
    """On one that says it has no columns, or no lines, tqdm draws nothing at all."""
    sizes = {7: os.terminal_size(size)}
    screen = Screen(terminal=True)
    screen.fileno = lambda: 7
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    monkeypatch.setattr("threadloader.bench._progress.bar", lambda total, stream: object())
    assert expected is type(progress(screen, 2, json=False))


def test_progress_nobody_can_see_is_no_error():
    for shown in (
        progress(None, 9, json=False),
        progress(Screen(terminal=False, gone=True), 9, json=False),
    ):
        shown.begin(1, "num_workers 1")
        shown.close()


def test_tqdm_draws_the_bar_where_it_is_installed(monkeypatch):
    drawn = []

    class Tqdm:
        n = 0

        def __init__(self, **options):
            drawn.append(options["total"])

        def set_description_str(self, text, refresh):
            drawn.append(text)

        def update(self, runs):
            self.n += runs
            drawn.append(self.n)

        def refresh(self):
            drawn.append("shown")

        def close(self):
            drawn.append("closed")

    fake = type(sys)("tqdm")
    fake.tqdm = Tqdm
    monkeypatch.setitem(sys.modules, "tqdm", fake)
    shown = progress(Screen(terminal=True), 3, json=False)
    assert isinstance(shown, Bar)
    for number, what in enumerate("abc", 1):
        shown.begin(number, what)
    shown.close()
    assert [3, "a", 0, "shown", "b", 1, "shown", "c", 2, "shown", "closed"] == drawn


def test_what_a_signal_handler_raises_while_a_bar_is_made_passes(rung, monkeypatch):
    """It is no tqdm that does not work."""

    def ring(name):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(adapter.importlib, "import_module", ring)
    with pytest.raises(TimeoutError, match="rung"):
        adapter.bar(3, sys.stderr)
