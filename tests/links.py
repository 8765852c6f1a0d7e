"""Symbolic links, where a system lets a test make them."""

import os

import pytest


def make_link(path, target):
    """Makes a link, or skips the test: Windows asks for a privilege."""
    try:
        path.symlink_to(target, target_is_directory=(path.parent / target).is_dir())
    except OSError as error:
        if os.name != "nt":
            raise
        pytest.skip(f"no symbolic links here: {error}")
    if os.name == "nt" and not path.is_symlink():
        pytest.skip("no symbolic links here")
