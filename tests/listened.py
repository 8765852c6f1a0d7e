"""What the log of threadloader says, listened to."""

import logging

import pytest

__all__ = ["LOG", "heard"]

LOG = logging.getLogger("threadloader")


class Heard(logging.Handler):
    """Keeps what is logged, and then calls a function with it, under the handler's lock."""

    def __init__(self, then):
        super().__init__()
        self.texts = []
        self._then = then

    def emit(self, record):
        self.texts.append(record.getMessage())
        self._then(self.texts[-1])


@pytest.fixture
def heard(monkeypatch):
    """Gives a function that listens to the log, and calls another at each word."""
    handlers = []
    monkeypatch.setattr(LOG, "propagate", False)

    def listen(then=lambda text: None):
        handlers.append(Heard(then))
        LOG.addHandler(handlers[-1])
        return handlers[-1].texts

    yield listen
    for handler in handlers:
        LOG.removeHandler(handler)
