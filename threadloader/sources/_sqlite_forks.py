"""What a forked child does with its parent's connections to an SQLite database: nothing.

SQLite forbids to use them there, and even to close them; and what is freed is closed.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._closing import Held
    from ._sqlite_connections import Connections, _Connection

__all__ = ["follow"]

_all: dict[weakref.ref[Connections], None] = {}
"""Those that there are. Without a lock: each use is one operation of a dict. And not a WeakSet,
whose callbacks are Python code and would swallow a Ctrl-C that lands in them."""

_of_parents: dict[Held[_Connection], None] = {}
"""What the parents of this process have opened, held for as long as it runs."""


def follow(connections: Connections) -> None:
    """Take its connections from it in each child that is forked, and keep them alive there."""
    _all[weakref.ref(connections, _all.pop)] = None


def _forked() -> None:
    for there in _all.copy():
        if (connections := there()) is not None:
            _of_parents.update(connections._made)
            connections._made.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)
