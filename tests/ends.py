"""Has programs end with a loader left open, and tells how: `exits` is what they run."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import exits

ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OPENBLAS_NUM_THREADS": "1",  # a process that has more threads should not be forked
}
ENV.pop("PYTHONUNBUFFERED", None)  # under it stderr has no buffer, whose lock matters


@dataclass(frozen=True)
class Way:
    """A way to end: `pause` are the seconds between the opening of a loader and what follows."""

    topology: str
    workers: int
    state: str
    pause: float = 0.0

    def arguments(self):
        """Give those of `exits`."""
        return [self.topology, str(self.workers), self.state, str(self.pause)]


class Ends:
    """Has ends brought about in forks of one process, in which everything is imported already.

    Args:
        folder: for what the forks write.

    Attributes:
        seconds: from the last fork to its end.
    """

    def __init__(self, folder):
        self.folder = folder
        self.seconds = 0.0
        self.process = subprocess.Popen(
            [sys.executable, exits.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENV,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def end(self, way):
        """Give exit code, stdout and stderr of a fork."""
        names = {name: str(self.folder / name) for name in ("stdout", "stderr")}
        self.process.stdin.write(json.dumps({"way": way.arguments()} | names) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        self.seconds = told["seconds"]
        return told["code"], *((self.folder / name).read_text() for name in names)


def end_alone(way):
    """Give exit code, stdout and stderr of a program with an interpreter of its own."""
    child = subprocess.run(
        [sys.executable, exits.__file__, *way.arguments()],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
    )
    return child.returncode, child.stdout, child.stderr
