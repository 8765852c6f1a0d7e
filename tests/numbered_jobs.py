"""Jobs that are told apart by their numbers, what their stream gives, and how long a test waits."""

import time

WAIT = 30.0
"""Seconds after which a gate that should have opened fails its test; never waited out."""


class Job:
    """A job whose parts call a function of (number, part) and keep what it gives."""

    light = False

    def __init__(self, number, parts=1, do=lambda number, part: part, finish=None):
        self.number = number
        self.parts = parts
        self.do = do
        self.results = [None] * parts
        self.finished = 0
        self.finish_with = finish

    def run(self, parts):
        for part in parts:
            self.results[part] = self.do(self.number, part)

    def finish(self):
        self.finished += 1
        if self.finish_with is not None:
            return self.finish_with(self.number)
        return self.number, self.results

    def failed(self, part):
        pass

    def describe(self, part):
        return f"job {self.number}, part {part}"


def results(stream, count):
    return [stream.result(number) for number in range(count)]


def until(seen):
    """Wait for what another thread stores."""
    deadline = time.monotonic() + WAIT
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0)
