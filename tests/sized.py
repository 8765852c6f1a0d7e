"""Work whose results have sizes, and a count of what is ready that no part of the engine does."""

import threading

__all__ = ["Ledger", "Sized"]


class Ledger:
    """Counts the bytes that were made and lie behind what the consumer has asked for last.

    What it asks for is in its hands any moment, and not ahead of it any more.

    Attributes:
        peak: the most bytes that were ahead of the consumer at once.
    """

    def __init__(self):
        self._guard = threading.Lock()
        self._made = {}
        self._ahead = 0
        self._asked = -1
        self.peak = 0

    def made(self, number, size):
        with self._guard:
            if number > self._asked:
                self._made[number] = size
                self._ahead += size
                self.peak = max(self.peak, self._ahead)

    def ask(self, number):
        with self._guard:
            self._asked = number
            self._ahead -= self._made.pop(number, 0)


class Sized:
    """A job whose result has a size, or that fails.

    Args:
        ledger: is told when it is made.
        number: of the job, and its result.
        size: in bytes.
        fails: whether it fails.
        parts: of the job.
    """

    light = False

    def __init__(self, ledger, number, size, fails=False, parts=1):
        self._ledger, self._number, self._fails = ledger, number, fails
        self.size, self.parts = size, parts

    def run(self, parts):
        for _ in parts:
            if self._fails:
                raise ValueError(self._number)

    def finish(self):
        self._ledger.made(self._number, self.size)
        return self._number

    def failed(self, part):
        pass

    def describe(self, part):
        return f"job {self._number}"
