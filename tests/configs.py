"""What the tests of the config share."""

import json
from pathlib import Path

from threadloader.config import read_config
from threadloader.errors import ConfigError

SCHEMA = json.loads((Path(__file__).parent.parent / "config_schema.json").read_text("utf-8"))
OPTIONS = [name for name in SCHEMA["properties"] if name != "$schema"]
SOURCE = {"type": "npz", "path": "x.npz"}


def told(config, **options):
    """Lists what is wrong with a config, as a person reads it."""
    try:
        read_config(config, **{"source_in_code": True, **options})
    except ConfigError as error:
        return str(error).split("\n")
    return []
