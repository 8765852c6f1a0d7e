"""What is right to say about a config, worked out by other means than the library's.

Text by `json`, options by `jsonschema`, and the rules beside the schema in words of their own;
`Home.look` holds everything that reads a config against that, and against each other.
"""

import argparse
import json
import math
import re
import sqlite3
import tarfile
import time
from dataclasses import dataclass
from io import BytesIO
from itertools import chain

import jsonschema
import numpy as np
from configs import OPTIONS, SCHEMA

from threadloader import Loader, LoaderConfig
from threadloader._dry_run import examined
from threadloader._dry_run import read as read_config
from threadloader._messages import GOOD, USAGE
from threadloader.errors import ConfigError, LoaderError

VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n\r]*|/\*.*?\*/', re.DOTALL)
_BYTES = re.compile(r"(\d{1,15})(\.\d{1,15})? ?(B|[KMGT]i?B)", re.ASCII | re.IGNORECASE)

MOST_WORKERS = 64
"""A right config with more is not entered: a machine of the tests may refuse the threads."""


class Refused(Exception):
    """The text is not strict JSON, or has no such section."""


def read(data, names):
    """Give what a section of a text says, by `json`; raises `Refused`."""

    def once(pairs):
        if len(dict(pairs)) < len(pairs):
            raise Refused("a key twice")
        return dict(pairs)

    def finite(text):
        if not math.isfinite(float(text)):
            raise Refused(text)
        return float(text)

    if names is None:
        raise Refused("no JSON pointer")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        text = _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", text)
        value = json.loads(text, object_pairs_hook=once, parse_float=finite, parse_constant=finite)
        json.dumps(value, ensure_ascii=False).encode()  # no half of a character
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from error
    if _depth(value) > 64:
        raise Refused("too deep")
    for name in names:
        at = name
        if isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", name):
            at = int(name)
        if isinstance(value, list):
            value = dict(enumerate(value))
        if not isinstance(value, dict) or at not in value:
            raise Refused("no such section")
        value = value[at]
    return value


def _depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, (dict, list)) else 0


def one_away(one, other):
    """Whether one insert, delete, replacement or swap of neighbours makes one of the other."""

    def cuts(word):
        return {(word[:at], word[at + 1 :]) for at in range(len(word))}

    def swaps(word):
        return {word[:at] + word[at : at + 2][::-1] + word[at + 2 :] for at in range(len(word))}

    if abs(len(one) - len(other)) > 1:
        return False
    ways = cuts(one) & cuts(other) or one in map("".join, cuts(other))
    return one != other and bool(ways or other in map("".join, cuts(one)) or one in swaps(other))


def ours(section, unknown):
    """Give the options of a section; with "ignore" less the keys that are others'."""
    if unknown == "error" or not isinstance(section, dict):
        return section
    return {
        key: value
        for key, value in section.items()
        if key in SCHEMA["properties"] or any(one_away(key, option) for option in OPTIONS)
    }


def _named(config):
    """The texts in a config that lead to files."""
    source, on_error = config.get("source") or {}, config.get("on_error")
    found = [config.get("root"), config.get("exclude")]
    found += [on_error.get("quarantine") if isinstance(on_error, dict) else None]
    found += [(config.get("cache") or {}).get("folder")]
    found += [(config.get("sampler") or {}).get(key) for key in ("weights", "labels", "indices")]
    found += [source.get(key) for key in ("path", "folder", "pattern")]
    found += [it.get(key) for it, key in _inside(source, ("index", "folder"), ("label", "csv"))]
    if source.get("type") == "npy":
        found += (source.get("fields") or {}).values()
    lists = [it for it in found if isinstance(it, list)]
    return [it for it in (*found, *chain.from_iterable(lists)) if isinstance(it, str)]


def _inside(source, *names):
    return [(source[name], key) for name, key in names if isinstance(source.get(name), dict)]


def is_good(config, *, source_in_code=False):
    """The verdict of `jsonschema` and, in words of its own, what a schema cannot say."""
    if not VALIDATOR.is_valid(config):
        return False
    source, sampler, cache = (config.get(name) for name in ("source", "sampler", "cache"))
    shard, collate = config.get("shard", {}), config.get("collate", {})
    if source is None and not source_in_code:
        return False
    if any("\0" in name for name in _named(config)):
        return False
    if sampler is not None:
        if config.get("shuffle"):
            return False
        given = sum(sampler.get(name) is not None for name in ("field", "labels"))
        if sampler["type"] == "balanced" and given != 1:
            return False
    if not _good_bytes(config.get("max_bytes")):
        return False
    if cache is not None and not _good_cache(cache):
        return False
    if "count" in shard and not shard["index"] < shard["count"]:
        return False
    length = collate.get("length")
    if length is None:
        return not collate.get("truncate")
    return 0 == length % collate.get("multiple_of", 1)


def _good_cache(cache):
    given = {name for name, value in cache.items() if value is not None}
    both = given >= {"folder", "max_samples"}
    return bool(given) and not both and _good_bytes(cache.get("max_bytes"))


def _good_bytes(bound):
    if not isinstance(bound, str):
        return True
    match = _BYTES.fullmatch(bound)
    if not match:
        return False
    power = "BKMGT".index(match[3][0].upper())
    base = 1024 if "I" in match[3].upper() else 1000
    # As a whole number of 10**-15 bytes: floats would round.
    tiny = int(match[1]) * 10**15 + int(((match[2] or ".")[1:]).ljust(15, "0"))
    return 1 <= tiny * base**power // 10**15 < 2**53


@dataclass
class Look:
    """What came of one config: whether reading it was right, whether entering it was."""

    read: bool
    entered: bool
    seconds: float


class Home:
    """A folder with data for the configs of `fuzzed_configs`, and a file for the next one."""

    def __init__(self, folder):
        folder = folder / "in" / "side"  # "..", which a config may name, is ours, too
        self.name = str(folder / "c.json")
        make_data(folder)

    def look(self, case):
        """Read a config in every way, and enter it; what disagrees is an AssertionError."""
        with open(self.name, "wb") as file:
            file.write(case.data)
        try:
            section = ours(read(case.data, case.names), case.unknown)
            good = is_good(section)
        except Refused:
            section, good = None, False
        if good and section.get("num_workers", 0) > MOST_WORKERS:
            return Look(good, False, 0.0)
        name = self.name + case.fragment
        began = time.perf_counter()
        asked = argparse.Namespace(
            config=name, unknown=case.unknown, source_in_code=False, batch=False, cache=True
        )
        said, err = [], []
        report = read_config(asked, err)
        code = USAGE if report is None else examined(report, asked, said)
        assert (code == GOOD) == (not said and not err), (code, said, err)
        assert good == (report is not None and report.config is not None), (said, err, section)
        entered, problem = self.enter(name, case.unknown, good)
        assert entered == (code == GOOD), (said, err, problem)
        seconds = time.perf_counter() - began
        if report is not None and report.config is not None:
            assert [] == list(VALIDATOR.iter_errors(report.config.as_dict()))
        if isinstance(section, dict) and section.keys() <= set(OPTIONS):
            self.look_at_options(section)
        assert code == USAGE or all("\n" not in line for line in said)
        return Look(good, entered, seconds)

    @staticmethod
    def enter(name, unknown, good):
        """Enter a config, if it is to be entered; give whether it went, or what stopped it."""
        try:
            loader = Loader(name, unknown=unknown)
        except ConfigError as error:
            return False, error
        assert good or loader.config.transform, loader.config
        try:
            with loader:
                return True, None
        except LoaderError as error:
            return False, error

    @staticmethod
    def look_at_options(options):
        """`LoaderConfig` takes just what is right as options, a source in code or not."""
        try:
            taken = LoaderConfig(**options)
        except ConfigError:
            taken = None
        assert is_good(options, source_in_code=True) == (taken is not None), options


def make_data(folder):
    """Make the data that the sources of the configs name: four samples of each kind."""
    (folder / "f").mkdir(parents=True)
    numbers = np.arange(12, dtype=np.int32).reshape(4, 3)
    np.save(folder / "d.npy", numbers)
    np.savez(folder / "d.npz", a=numbers, y=np.array([0, 1, 0, 1]))
    texts = {
        "d.csv": "x,y\np,1\nq,2\np,3\nq,4\n",
        "d.jsonl": '{"x": 1, "y": 0}\n{"x": 2.5, "y": 1}\n{"x": 3, "y": 0}\n{"x": 4, "y": 1}\n',
        "a.txt": "one\n\ntwo\n",
        "b.txt": "three\nfour\n",
        "n.txt": "0\n1\n1\n0\n",
        "f/a/1.txt": "1",
        "f/a/2.txt": "2",
        "f/b/1.txt": "3",
        "f/b/2.txt": "4",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / "d.bin").write_bytes(np.arange(9, dtype="<u2").tobytes())
    with tarfile.open(folder / "d.tar", "w") as tar:
        for number in range(4):
            for field in ("cls", "txt"):
                info = tarfile.TarInfo(f"s/{number}.{field}")
                info.size = 1
                tar.addfile(info, BytesIO(b"%d" % number))
    with sqlite3.connect(folder / "d.db") as base:
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(n, n / 2) for n in range(4)])
    base.close()
