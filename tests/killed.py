"""A trainer that is killed, again and again; `lives` looks at what is left.

A *life* resumes if there is a state, and for each batch first writes an entry into its record
and then saves the state. So whoever looks after a kill finds, in the record up to the batch
that the state counts, what had been delivered when the state was durable. What the record has
behind that, one batch at most, the next life must deliver again.

    python killed.py JOB     one life; JOB is JSON
    python killed.py         a server: for each line with a job on stdin, one life in a fork, so
                             that a life begins in a millisecond and not with an interpreter

A job has the life's folder, the options of its loader, and how it ends: `delay`, the seconds
after which the server kills it (null: it is left alone), or `die`, a step of a save and the
number of the save in which it kills itself there.
"""

import builtins
import json
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import numpy as np

from threadloader import Loader

ENTERING, WAITING, RECORDING, SAVING = b"ewrs"
"""What a life is at; one byte in memory that it shares with whoever looks after it was killed."""

STEPS = ("open", "opened", "half", "fsync", "fsynced", "replace", "replaced", "folder")
"""The steps of a save at which a life can kill itself: before, and behind, each call."""


def noisy(sample, rng):
    """A transform whose result tells its place in the order."""
    return int(sample) + (int(rng.bit_generator.random_raw()) >> 2)


def loader(job, resume=None, **options):
    """The loader of a life, of a source with `take`, without, or of a file."""
    values = np.arange(job["n"]) * 3 + 1
    config = {**job["config"], **options}
    given = {
        "array": {"source": values},
        "list": {"source": values.tolist(), "transform": noisy},
        "file": {"transform": noisy},
    }[job["source"]]
    if job["source"] == "file":
        config["source"] = {"type": "npy", "path": str(Path(job["folder"]) / "values.npy")}
    return Loader(config, resume=resume, **given)


def entries(batches):
    """Goes through a run and tells each batch: its number in all lives, its place, its content."""
    for epoch in batches.epochs():
        for batch in epoch:
            info = batches.info
            number = batches.state_dict()["shard"]["batches"]
            content = zlib.crc32(np.ascontiguousarray(batch))
            yield [number, info.epoch, info.step, info.indices.tolist(), content]


def live(job):
    """One life."""
    folder = Path(job["folder"])
    with (folder / "phase").open("r+b") as file:
        phase = mmap.mmap(file.fileno(), 1)
    if not job.get("disk", True):
        os.fsync = lambda handle: None
    if job.get("die"):
        arm(*job["die"])
    state = folder / "run.state"
    resume = state if state.exists() else None
    with (folder / job["record"]).open("w", encoding="ascii") as record:
        with loader(job, resume) as batches:
            phase[0] = WAITING
            for entry in entries(batches):
                phase[0] = RECORDING
                record.write(json.dumps(entry) + "\n")
                record.flush()
                phase[0] = SAVING
                batches.save(state)
                phase[0] = WAITING


def arm(step, number):
    """Have this process kill itself at a step of its save of that number, from 1."""
    calls = dict.fromkeys(("open", "fsync", "replace"), 0)
    opened, fsync, replace = open, os.fsync, os.replace

    def here(*steps):
        if step in steps:
            os.kill(os.getpid(), signal.SIGKILL)

    class Half:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, text):
            self.file.write(text[: len(text) // 2])
            self.file.flush()
            here("half")

    def dying_open(path, mode="r", *args, **options):
        if mode != "xb":
            return opened(path, mode, *args, **options)
        calls["open"] += 1
        if calls["open"] != number:
            return opened(path, mode, *args, **options)
        here("open")
        file = opened(path, mode, *args, **options)
        here("opened")
        return Half(file) if step == "half" else file

    def dying_fsync(handle):
        calls["fsync"] += 1  # of the file and, but in the first call behind it, of its folder
        if calls["fsync"] == 2 * number - 1:
            here("fsync")
        if calls["fsync"] == 2 * number:
            here("folder")
        fsync(handle)
        if calls["fsync"] == 2 * number - 1:
            here("fsynced")

    def dying_replace(path, target):
        calls["replace"] += 1
        if calls["replace"] == number:
            here("replace")
        replace(path, target)
        if calls["replace"] == number:
            here("replaced")

    builtins.open, os.fsync, os.replace = dying_open, dying_fsync, dying_replace


def warm():
    """Import all that a life imports, by one of each kind, without threads."""
    config = {"num_workers": 0, "num_epochs": 1, "fingerprint": True}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "phase").write_bytes(b"-")
        np.save(Path(folder) / "values.npy", np.arange(2))
        for source in ("array", "list", "file"):
            job = {"folder": folder, "source": source, "n": 2, "config": config}
            live({**job, "record": source})
            (Path(folder) / "run.state").unlink()


def serve():
    """Give the lives that are asked for on stdin, one after the other."""
    warm()
    for line in sys.stdin:
        job = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                live(job)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        if job.get("delay") is not None:
            time.sleep(job["delay"])  # the random moment of the kill
            os.kill(child, signal.SIGKILL)  # not waited for yet, so its number is still its own
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        live(json.loads(sys.argv[1]))
    else:
        serve()
