"""Faults that let hostile inputs through, each put into the library for a test of the guard."""

import os
import subprocess
import sys

import hostile
import numpy as np


def _plant_eval():
    from threadloader.sources import _npy_header

    _npy_header.ast.literal_eval = eval


def _plant_pickle():
    from threadloader.sources import _npy_rows

    _npy_rows._checked_header = lambda path, start, size: np.load(path, allow_pickle=True)


def _plant_no_root():
    from threadloader.sources import _paths, npz

    _paths.inside = npz.inside = lambda path, root: path


def _plant_open():
    from threadloader.sources import _files

    def careless(path):
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)

    _files.open_regular = careless


def _plant_import():
    from threadloader import sources
    from threadloader.config import _check

    # The word of the config is the name of a module, and no schema knows better.
    words = [
        branch.properties["type"] for branch in _check.schema().properties["source"]._branches[1:]
    ]
    words[0]._words.extend(hostile.NAMES)
    sources._KINDS.update({name: name for name in hostile.NAMES})
    ours = sources.import_module
    sources.import_module = lambda name, package: (
        __import__(name[1:]) if name[1:] in hostile.NAMES else ours(name, package)
    )


def _plant_program():
    from threadloader.sources import _decode

    _decode._BUILT_IN["npy"] = lambda data: subprocess.run(["true"], check=True)


def _plant_memory():
    from threadloader.sources import _decode

    _decode._BUILT_IN["npy"] = lambda data: np.empty(min(1 << 40, sys.maxsize), np.uint8)


PLANTED = {
    "compile": _plant_eval,
    "pickle.find_class": _plant_pickle,
    "open": _plant_no_root,
    "no regular file": _plant_open,
    "import evil": _plant_import,
    "subprocess.Popen": _plant_program,
    "MemoryError": _plant_memory,
}
