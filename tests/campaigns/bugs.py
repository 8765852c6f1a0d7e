"""Bugs for the campaign `planted`: each a small change of the library that its tests must see.

They were chosen by somebody who had not written the tests, from the ways in which loaders of
data are known to fail. A replaced text is short, so that other changes to its file let it
stand; where one does go, `planted` says so, and the bug is to be planted anew.
"""

from typing import NamedTuple


class Bug(NamedTuple):
    """A bug.

    Attributes:
        says: what is wrong then, in a sentence.
        file: the file, from the root of the repository.
        old: what stands there, in one place.
        new: what is put there instead.
        tests: what is expected to see it, as arguments of pytest.
    """

    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _bug(says: str, file: str, old: str, new: str, *tests: str) -> Bug:
    return Bug(says, file, old, new, tuple(f"tests/test_{name}" for name in tests))


SCHEDULES = "simulated.py::test_every_promise_is_kept_on_random_schedules[engine full]"
SCHEDULES_OF_A_STUCK_JOB = SCHEDULES.replace("full", "stuck")

ENGINE = [
    _bug(
        "A slot is filled, and whoever waits for it is not woken.",
        "threadloader/engine/_slots.py",
        "        self._filled.release()",
        "        pass",
        SCHEDULES,
    ),
    _bug(
        "A stop does not wake those who wait for a batch.",
        "threadloader/engine/_feeder.py",
        "        slot.fill(word)",
        "        pass",
        SCHEDULES_OF_A_STUCK_JOB,
    ),
    _bug(
        "The threads are joined before they are told to end.",
        "threadloader/engine/_engine.py",
        "        self.tell()\n",
        "        if self._feeder is not None and here.shared is not self._shared:\n"
        "            self._feeder.join()\n"
        "        self.tell()\n",
        SCHEDULES,
    ),
    _bug(
        "One worker gets no sentinel.",
        "threadloader/engine/_feeder.py",
        "[STOP] * shared.num_workers",
        "[STOP] * (shared.num_workers - 1)",
        SCHEDULES,
    ),
    _bug(
        "A stop does not end the batch that a worker is at.",
        "threadloader/engine/_slots.py",
        "return worker.stopped() or self.origin.cancelled",
        "return self.origin.cancelled",
        "engine_stop.py",
    ),
    _bug(
        "The jobs of a stream that was left are done all the same.",
        "threadloader/engine/_slots.py",
        "return worker.stopped() or self.origin.cancelled",
        "return worker.stopped()",
        "engine_stop.py",
    ),
    _bug(
        "Only an Exception is caught in a worker, and a BaseException ends it.",
        "threadloader/engine/_outcome.py",
        "    except BaseException as error:",
        "    except Exception as error:",
        "engine_errors.py",
    ),
    _bug(
        "Of several rows that fail, the highest one's error wins.",
        "threadloader/engine/_slots.py",
        "part < self._failed[0]",
        "part > self._failed[0]",
        "engine_errors.py",
    ),
    _bug(
        "One batch more than the depth is begun.",
        "threadloader/engine/_stream.py",
        "while self._sent < number + self._depth:",
        "while self._sent <= number + self._depth:",
        "engine.py",
    ),
    _bug(
        "A slot that is sent a second time, after a Ctrl-C, gets a second job.",
        "threadloader/engine/_feeder.py",
        " or slot.number != origin.dealt:",
        ":",
        "engine.py",
    ),
    _bug(
        "A slot counts as sent before it is, so a Ctrl-C in between loses it.",
        "threadloader/engine/_stream.py",
        "            self._shared.inbox.put(line[-1])\n            self._sent += 1",
        "            self._sent += 1\n            self._shared.inbox.put(line[-1])",
        "engine.py",
    ),
    _bug(
        "A slot's guard is held while a batch is collated.",
        "threadloader/engine/_finishing.py",
        "        value, error = caught(job.finish)",
        "        with slot._guard:\n            value, error = caught(job.finish)",
        "engine.py",
    ),
    _bug(
        "A batch is left to the feeder, which is not told.",
        "threadloader/engine/_finishing.py",
        "        shared.inbox.put(LOOK)\n        return True",
        "        return True",
        SCHEDULES,
    ),
    _bug(
        "A batch that is done waits for the order of the samples.",
        "threadloader/engine/_finishing.py",
        "    if not shared.asking:",
        "    if True:",
        "finishing.py",
    ),
    _bug(
        "A user's collate runs in the feeder.",
        "threadloader/engine/_feeder.py",
        "slot.by_feeder = job.light and",
        "slot.by_feeder =",
        "finishing.py",
    ),
    _bug(
        "The threads of a loader that was dropped run on.",
        "threadloader/engine/_engine.py",
        "    shared.inbox.put(STOP)",
        "    pass",
        "engine_stop.py",
    ),
    _bug(
        "A loader is taken for open in a forked child, which waits for ever.",
        "threadloader/engine/_engine.py",
        "not (self._shared.stopping or forked(self._shared))",
        "not self._shared.stopping",
        "exit.py",
    ),
    _bug(
        "Each stuck worker is given the whole of close_timeout, one after the other.",
        "threadloader/engine/_joining.py",
        "left -= _wait(",
        "_wait(",
        "engine_stuck.py",
    ),
    _bug(
        "Times come from a clock that can be set back.",
        "threadloader/_runtime.py",
        "monotonic = staticmethod(time.perf_counter)",
        "monotonic = staticmethod(time.time)",
        "engine.py",
    ),
    _bug(
        "Without workers, a Ctrl-C and a KeyboardInterrupt of the source are mixed up.",
        "threadloader/errors/_handlers.py",
        "code[at] not in _RAISING",
        "code[at] in _RAISING",
        "inline.py",
    ),
]
"""In threads, queues and locks."""

LOADER = [
    _bug(
        "An epoch that was left by break delivers its last batches to the next one.",
        "threadloader/loader/_run.py",
        "(place.over and cursor.epoch == place.begun + 1)",
        "cursor.epoch == place.begun + 1",
        "loader.py",
    ),
    _bug(
        "What lies ready counts as delivered.",
        "threadloader/loader/_place.py",
        "        served = delivery.served\n",
        "        served = delivery.size\n",
        "loader.py",
    ),
    _bug(
        "Behind one batch of a group, the run stands behind the whole group.",
        "threadloader/jobs/_recipe.py",
        "self.position + count * self.stride",
        "self.position + self.size * self.stride",
        "loader_groups.py",
    ),
    _bug(
        "A StopIteration of the source ends the epoch.",
        "threadloader/loader/_failure.py",
        "WRAPPED = (StopIteration, ",
        "WRAPPED = (",
        "loader_errors.py",
    ),
    _bug(
        "An exception is remembered where its own traceback leads: a cycle.",
        "threadloader/loader/_run.py",
        "            outcome.error = outcome.job = None",
        "            outcome.job = None",
        "loader_errors.py",
    ),
    _bug(
        "Batches of an epoch behind the last one are prepared.",
        "threadloader/loader/_schedule.py",
        "    while end is None or cut.epoch < end:",
        "    while end is None or cut.epoch <= end:",
        "loader.py",
    ),
    _bug(
        "The wait for the first batch counts as data wait.",
        "threadloader/stats/_tally.py",
        "        if batches:\n            wait += now - called",
        "        if True:\n            wait += now - called",
        "stats.py",
        "loader.py",
    ),
    _bug(
        "A fraction of the time is divided by zero before time has passed.",
        "threadloader/stats/_stats.py",
        "return min(1.0, self.data_wait_seconds / time) if time > 0 else 0.0",
        "return min(1.0, self.data_wait_seconds / time)",
        "stats.py",
    ),
    _bug(
        "What a transform draws at one position overlaps with what it draws at the next.",
        "threadloader/transforms.py",
        "self._counter[1] = position",
        "self._counter[0] = position",
        "transforms.py",
        "random_state.py",
    ),
]
"""In what is delivered, counted and told."""

ORDER = [
    _bug(
        "Seed and epoch are added: seed 0 in epoch 1 is seed 1 in epoch 0.",
        "threadloader/order/_shuffle.py",
        "for word in (seed, epoch, n)",
        "for word in (seed + epoch, n)",
        "order.py",
    ),
    _bug(
        "A shard begins one position too late.",
        "threadloader/order/_deal.py",
        "        mine = start + self.shard_index * size\n",
        "        mine = start + self.shard_index * size + (self.shard_index > 0)\n",
        "order.py",
    ),
    _bug(
        "The first row of padding is said to be a real one.",
        "threadloader/order/_deal.py",
        "_frozen(positions < order.n)",
        "_frozen(positions <= order.n)",
        "order.py",
    ),
    _bug(
        "Behind an excluded sample stands that sample itself.",
        "threadloader/samplers/_excluding.py",
        'ranks, side="right")',
        'ranks, side="left")',
        "samplers.py",
        "excluded.py",
    ),
]
"""In which samples come, and when."""

STATE = [
    _bug(
        "The file of the state is written in place.",
        "threadloader/state/_file.py",
        "once_free(os.replace, temporary, place)",
        'once_free(__import__("pathlib").Path(place).write_bytes, text)',
        "state_files.py",
    ),
    _bug(
        "The file of the state is renamed before it is on the disk.",
        "threadloader/state/_file.py",
        "                os.fsync(file.fileno())\n",
        "",
        "state_files.py",
    ),
    _bug(
        "A save that fails leaves its temporary file.",
        "threadloader/state/_file.py",
        "            _attempt(os.unlink, temporary)  #",
        "            pass  #",
        "state_files.py",
    ),
    _bug(
        "The checksum of a state is not compared.",
        "threadloader/state/_state.py",
        '    if state.get("checksum") != expected:',
        '    if state.get("checksum") is None:',
        "state.py",
    ),
    _bug(
        "Steps go on counting though the batch size is another.",
        "threadloader/state/_state.py",
        "same_world = all(",
        "same_world = any(",
        "state.py",
    ),
]
"""In what is written down, so that a run can go on."""

MEMORY = [
    _bug(
        "The memory of a batch is used again while somebody holds it.",
        "threadloader/buffers.py",
        "        self._memory = memory",
        "        self._memory = memory[:]",
        "buffers_held.py",
    ),
    _bug(
        "Kept samples take more than the bound of the cache, by one.",
        "threadloader/cache/_memory.py",
        "return self._bytes + size <= max_bytes",
        "return self._bytes <= max_bytes",
        "cache.py",
    ),
    _bug(
        "A cached sample's dicts and lists are everybody's.",
        "threadloader/cache/_memory.py",
        "        return give(owned)",
        "        return owned",
        "cache.py",
    ),
    _bug(
        "What a cache keeps in a folder does not depend on the transform.",
        "threadloader/loader/_caching.py",
        "stamp, spec, transform)",
        "stamp, spec)",
        "caching.py",
    ),
    _bug(
        "The checksum of a kept sample is not compared.",
        "threadloader/cache/_segments.py",
        "    return made[:RECORD_HEAD] == _checksum(contents, key, index)",
        "    return len(contents) > 0",
        "cache_folder_damage.py",
    ),
]
"""In what is kept."""

INPUT = [
    _bug(
        "A file that turns out damaged when it is opened stays open.",
        "threadloader/sources/_npy_rows.py",
        "            undo.callback(self._reader.close)\n",
        "",
        "npy.py",
    ),
    _bug(
        "A link leads out of the folder that bounds a config.",
        "threadloader/sources/_paths.py",
        "there = real(path, option)",
        "there = os.path.abspath(path)",
        "files_root.py",
        "files.py",
    ),
    _bug(
        "A file that has grown since it was opened is read on.",
        "threadloader/sources/_files.py",
        "if size != self.size:",
        "if size < self.size:",
        "text.py",
    ),
    _bug(
        "The second block of zeros at the end of an archive may be missing.",
        "threadloader/sources/_tar_headers.py",
        "        if self._block(at) != _ZEROS:",
        "        if at < 0:",
        "tar_headers.py",
    ),
    _bug(
        "A lock is held while a factory opens a thread's own source.",
        "threadloader/sources/_per_thread.py",
        "        part.made = made = self._factory()\n",
        "        with here.lock:\n            part.made = made = self._factory()\n",
        "per_thread.py",
    ),
    _bug(
        "A key that is no option is let through.",
        "threadloader/_schema.py",
        '            elif self._schema.get("additionalProperties") is False:',
        '            elif self._schema.get("additionalProperties") is False and path:',
        "config.py",
        "schema.py",
    ),
    _bug(
        "Of a key that comes twice, the first one counts.",
        "threadloader/config/_text.py",
        "            again = key in value",
        "            again = False",
        "config_text.py",
    ),
    _bug(
        "By default, 4 batches are prepared ahead.",
        "config_schema.json",
        '      "default": 3\n',
        '      "default": 4\n',
        "config.py",
        "schema.py",
        "docs.py",
    ),
    _bug(
        "Arrays of another dtype are cast to that of row 0.",
        "threadloader/collate/_stack.py",
        'uniform and have_all(rows, "dtype", dtype) and have_all(',
        "uniform and have_all(",
        "collate.py",
    ),
]
"""In what is read: configs, files, samples."""

BUGS = [*ENGINE, *LOADER, *ORDER, *STATE, *MEMORY, *INPUT]
