"""Configs by number: written right, then changed at random in structure, text and bytes.

A case is told by a seed and a number. `verdicts` says what is right about it.
"""

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from configs import SCHEMA

SOURCES = [
    {"type": "npz", "path": "d.npz"},
    {"type": "npz", "path": ["*.npz"], "fields": {"x": "a"}},
    {"type": "npy", "path": "d.npy", "mmap": True},
    {"type": "npy", "fields": {"a": "d.npy", "b": "d.npy"}},
    {"type": "csv", "path": ["d.csv"], "dtypes": {"y": "int64"}, "categories": {"x": ["p", "q"]}},
    {"type": "csv", "path": "d.csv", "missing": {"y": None}, "fields": ["y"], "quote": None},
    {"type": "jsonl", "path": "d.jsonl", "fields": ["x"], "dtypes": {"x": "float32"}},
    {"type": "text", "path": "*.txt", "skip_blank": True},
    {"type": "tokens", "path": "d.bin", "dtype": "uint16", "window": 2, "targets": True},
    {"type": "files", "folder": "f", "label": "folder", "decode": "int"},
    {"type": "tar", "path": ["d.tar"], "decode": {"cls": "text"}},
    {"type": "sqlite", "path": ["*.db"], "query": "SELECT id, x FROM t", "key": "id"},
]
OTHERS = {
    "$schema": ["s.json"],
    "root": [None, ".", "f"],
    "transform": [
        None,
        {"type": "mlm", "vocabulary": 9, "mask_token": 3, "special": [0], "probability": 0.5},
    ],
    "batch_size": [1, 2, 4.0],
    "shuffle": [True, False],
    "sampler": [
        None,
        {"type": "weighted", "weights": [1, 2, 0.5, 1], "num_samples": 5},
        {"type": "weighted_without_replacement", "weights": [1, 0, 1, 1]},
        {"type": "balanced", "field": "y"},
        {"type": "balanced", "labels": "n.txt"},
        {"type": "subset", "indices": [0, 2], "shuffle": True},
    ],
    "exclude": [None, [1], "n.txt"],
    "seed": [7, 2**64 - 1],
    "drop_last": [True],
    "shard": ["auto", {"index": 1, "count": 2}, {"remainder": "keep"}],
    "collate": [
        {"type": "stack"},
        {"type": "pad", "length": 8, "multiple_of": 4, "truncate": True, "value": {"x": 1}},
    ],
    "pin_memory": ["auto"],
    "fingerprint": [True],
    "on_error": ["raise", {"retry": 1, "backoff": 0.5}],
    "max_bytes": [None, "1MiB", 10**6],
    "stall_seconds": [None, 5],
    "stall_action": ["raise"],
    "cache": [None, {"max_bytes": "1KiB"}, {"max_samples": 2, "max_bytes": 10**6}],
    "prefetch_batches": [1],
    "switch_interval": [None, "auto", 0.001],
    "num_epochs": [None, 3],
    "close_timeout": [0, 2.5],
}
ODD = [
    *(None, True, False, 0, 1, -1, 2, 2.0, 0.5, 1.5, -0.0, 1e300, 5e-324, 10**400),
    *(2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64 - 1, 2**64, -(2**63)),
    *(
        "",
        "x",
        "auto",
        "a\0b",
        "é",
        "😀",
        "..",
        "/x",
        "*",
        "**/*",
        "nan",
        "2GiB",
        "0B",
        "1 XB",
        "\\",
    ),
    *([], {}, [None], [1, 1], [1, 1.0], [True, 1], ["a", "a"], {"type": "stack"}, {"": 0}),
    *({"type": "pad"}, {"type": ["pad"]}, {"index": 1, "count": 1}, {"folder": None}),
]


def _words(schema, words, least):
    """Collect the words and bounds that stand in a schema, and the names of its keys."""
    words.update(schema.get("properties", ()))
    named = [schema["const"]] if "const" in schema else schema.get("enum", [])
    words.update(word for word in named if isinstance(word, str))
    for bound in ("minimum", "maximum"):
        if bound in schema:
            least += [schema[bound] - 1, schema[bound], schema[bound] + 1]
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for child in [*inner, schema.get("items"), schema.get("additionalProperties")]:
        if child:
            _words(child, words, least)


WORDS, BOUNDS = set(), []
_words(SCHEMA, WORDS, BOUNDS)
WORDS = sorted(WORDS)


def edited(draw, word):
    """Give a word with one edit, or none where the edit changes nothing."""
    at = draw.randrange(len(word) + 1)
    new = draw.choice(["", "s", "_", "x", word[at : at + 1].upper(), word[at - 1 : at]])
    return word[:at] + new + word[at + draw.randrange(2) :]


def valid(draw):
    """Give a config of which nothing is known to be wrong."""
    config = {"source": draw.choice(SOURCES), "num_workers": 0 if draw.random() < 0.95 else 1}
    for name in draw.sample(sorted(OTHERS), draw.choice([0, 1, 1, 2, 4, 8])):
        config[name] = draw.choice(OTHERS[name])
    if "sampler" in config and draw.random() < 0.8:
        config.pop("shuffle", None)
    return json.loads(json.dumps(config))


def _places(value, found):
    """List all (container, key) in a value."""
    for key, item in list(value.items()) if isinstance(value, dict) else [*enumerate(value)]:
        found.append((value, key))
        if isinstance(item, (dict, list)):
            _places(item, found)
    return found


def odd(draw):
    """Give a value that has no business where it will stand."""
    return deepcopy(draw.choice(ODD))


def mutate(draw, config):
    """Change a config at one place, in place."""
    places = _places(config, [])
    if not places:
        return
    at, key = draw.choice(places)
    kind = draw.randrange(8)
    if kind < 3:
        other, name = draw.choice(places)
        at[key] = draw.choice(
            [odd(draw), odd(draw), draw.choice(BOUNDS), draw.choice(WORDS), deepcopy(other[name])]
        )
    elif kind == 3:
        del at[key]
    elif isinstance(at, list):
        at.insert(key, deepcopy(draw.choice([*at, *ODD])))
    elif kind == 4:
        at[edited(draw, str(key))] = at.pop(key)
    elif kind == 5:
        at[draw.choice(WORDS)] = draw.choice([deepcopy(at[key]), odd(draw)])
    elif kind == 6 and isinstance(at[key], str):
        at[key] = edited(draw, at[key])
    else:
        at[key] = {draw.choice(WORDS): at[key]} if draw.random() < 0.5 else [at[key]]


BLANKS = [" ", "\n", "\t", "\r\n", "/**/", "// {\n", '/* "a": [ */', "//\r", "/* * / */"]
ODD_TEXT = [
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e999",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "0x1",
        "--1",
    ),
    *("True", "None", "nul", "'a'", '"a', '"\\x"', '"\\ud800"', '"\\ud83d\\ude00"', '"\t"', "/*"),
    *("1,", "{}}", "[[]", '{"a" 1}', '{"a":}', "{,}", "[1,]", "9" * 5000, "-" + "9" * 4300),
    *("[" * 70 + "]" * 70, "[" * 100_000, '{"a":' * 70 + "0" + "}" * 70, "0 /", "1e-400", "\ufeff"),
]


def written(draw, value):
    """Write a value as JSON text, with odd blanks, comments, keys twice and wrong words."""
    odd = draw.random() < 0.3

    def blank():
        return draw.choice(BLANKS) if odd and draw.random() < 0.2 else ""

    def text(it):
        if odd and draw.random() < 0.03:
            return draw.choice(ODD_TEXT)
        if isinstance(it, dict):
            pairs = [(string(key), text(item)) for key, item in it.items()]
            if odd and pairs and draw.random() < 0.05:
                pairs.insert(draw.randrange(len(pairs) + 1), draw.choice(pairs))
            inner = ",".join(f"{blank()}{key}{blank()}:{blank()}{item}" for key, item in pairs)
            return "{" + inner + blank() + "}"
        if isinstance(it, list):
            return "[" + ",".join(blank() + text(item) + blank() for item in it) + "]"
        return string(it) if isinstance(it, str) else json.dumps(it)

    def string(it):
        if odd and it and draw.random() < 0.1:
            escaped = "".join(f"\\u{ord(char):04x}" for char in it[:1] if ord(char) < 2**16)
            return f'"{escaped}{json.dumps(it[len(escaped) > 0 :])[1:]}'
        return json.dumps(it, ensure_ascii=draw.random() < 0.5)

    return blank() + text(value) + blank()


def damaged(draw, data):
    """Give bytes with one damage."""
    at = draw.randrange(len(data) + 1)
    kind = draw.randrange(9)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + draw.choice([1, 1, 3, 30]) :]
    if kind == 2:
        return data[:at] + draw.choice([*b'{}[]:,"/*\\\n\0 1e', 0xFF, 0xC3]).to_bytes() + data[at:]
    if kind == 3 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 4:
        return data[:at] + data[draw.randrange(len(data) + 1) :]
    if kind == 5:
        return b"\xef\xbb\xbf" * draw.choice([1, 1, 2]) + data
    if kind == 6:
        return data.decode("utf-8", "replace").encode(draw.choice(["utf-16", "utf-32-le"]))
    if kind == 7:
        return data + draw.choice([b" ", b"\n{}", b"//", b"/*", b"\0", b"null", data])
    return data[:at] + b" " * draw.choice([1, 5000]) + data[at:]


@dataclass
class Case:
    """A config file.

    Attributes:
        data: its bytes.
        fragment: what stands behind its name: ``#/a/0``.
        names: the keys that the fragment means.
        unknown: "error" or "ignore".
    """

    data: bytes
    fragment: str
    names: list[str]
    unknown: str


WRAPS = ["", "#", "#/training", "#/a~1b/0"]


def case(seed, number):
    """Give the case of a number."""
    draw = Random(f"{seed}, {number}")
    config = valid(draw)
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2, 3])):
        mutate(draw, config)
    fragment = draw.choice(WRAPS) if draw.random() < 0.2 else ""
    if fragment == "#/training":
        config = {"lr": 0.1, "training": {"lr": 1, **config}}
    elif fragment == "#/a~1b/0":
        config = {"a/b": [config, 1]}
    data = written(draw, config).encode("utf-8", "surrogatepass")
    while draw.random() < 0.15:
        data = damaged(draw, data)
    data = data.replace(b'"/"', b'"/x"')  # no test searches the whole machine
    if draw.random() < 0.02 and fragment:
        fragment = "#" + edited(draw, fragment[1:])
    if re.fullmatch(r"(#(/([^~]|~[01])*)?)?", fragment):
        names = [key.replace("~1", "/").replace("~0", "~") for key in fragment.split("/")[1:]]
    else:
        names = None  # no JSON pointer
    return Case(data, fragment, names, draw.choice(["error", "error", "ignore"]))
