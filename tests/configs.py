"""What the tests of the config share."""

import json
from pathlib import Path

from threadloader.config import examine
from threadloader.config._text import parse
from threadloader.errors import ConfigError

SCHEMA = json.loads((Path(__file__).parent.parent / "config_schema.json").read_text("utf-8"))
OPTIONS = [name for name in SCHEMA["properties"] if name != "$schema"]
SOURCE = {"type": "npz", "path": "x.npz"}


def read_config(config, **options):
    """Give the config, and the folder that relative paths in it are relative to."""
    report = examine(config, **options)
    return report.checked(), report.base.path


def told(config, **options):
    """Lists what is wrong with a config, as a person reads it."""
    try:
        read_config(config, **{"source_in_code": True, **options})
    except ConfigError as error:
        return str(error).split("\n")
    return []


def problems(text):
    """Lists (line, column, pointer, what is said) of what is wrong with a text."""
    try:
        found = parse(text).problems
    except ConfigError as error:
        found = error.problems
    return [
        (it.line, it.column, it.pointer, f"expected {it.expected}, got {it.got}") for it in found
    ]
