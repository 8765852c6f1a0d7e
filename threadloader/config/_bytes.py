"""Numbers of bytes as people write them: ``"2GiB"``."""

from __future__ import annotations

import re

__all__ = ["bytes_of"]

_UNITS = {
    unit.lower(): factor**power
    for power, names in enumerate(["B", "KB KiB", "MB MiB", "GB GiB", "TB TiB"])
    for unit, factor in zip(names.split(), (1000, 1024), strict=False)
}
_FORM = r"([0-9]{1,15})(?:\.([0-9]{1,15}))? ?([A-Za-z]{1,3})"
_MOST = 2**53 - 1  # the largest integer that every reader of JSON has exactly


def bytes_of(value: int | str) -> int:
    """Give a number of bytes.

    Args:
        value: the number itself, or a text of a number and a unit: B; KB, MB, GB and TB, which
            are powers of 1000; KiB, MiB, GiB and TiB, powers of 1024. Upper and lower case
            are the same, and a space may stand between the two. Parts of a byte are cut off.

    Returns:
        An integer from 1 to 2**53 - 1.

    Raises:
        ValueError: it is no such number, or none of that size.

    >>> bytes_of("2GiB"), bytes_of("1.5 kb"), bytes_of(4096)
    (2147483648, 1500, 4096)
    """
    number: int | None = None
    if isinstance(value, str):
        match = re.fullmatch(_FORM, value)
        if match and match[3].lower() in _UNITS:
            parts = match[2] or ""
            # In integers, since floats would round.
            number = int(match[1] + parts) * _UNITS[match[3].lower()] // 10 ** len(parts)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or not 1 <= number <= _MOST:
        raise ValueError(
            'expected a number of bytes from 1 to 2**53 - 1, such as 1073741824, "512MiB", '
            f'"2GiB" or "100MB", got {value!r:.40}'
        )
    return number
