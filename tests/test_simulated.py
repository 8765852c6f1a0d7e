"""The engine and the loader on simulated schedules."""

import pytest
from sim import replay

FOUND = [
    "engine depth=3 draw=0@222300300022000",
    "engine end=break depth=2 parts=243231 at=6@2223300223333333333333333333333000000",
    "engine end=stuck depth=3 parts=3411 fails=0.0,0.9 draw=1 ms=3000 gil=5@222000332233332222222",
    "loader end=elsewhere workers=0 ahead=3 samples=4 epochs=2 seed=0 fails=2 own=1@00001111",
    (
        "loader end=load-state batch=2 samples=4 epochs=2 fails=0 at=3"
        "@2220000022000000220000000220000033333333333000022000022222222"
    ),
]
"""Schedules on which something was wrong once. The engine has changed since; what of them still
fits is run."""


@pytest.mark.parametrize("text", FOUND)
def test_what_was_found_once_is_gone(text):
    replay(text, exact=False)
