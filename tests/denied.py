"""Calls that Windows refuses while somebody else is at a file."""

import errno


def denied_at_first(call, times=3):
    """Gives a function that does as `call`, but for the first times, when it is refused."""
    left = [PermissionError(errno.EACCES, "Access is denied") for _ in range(times)]

    def refused(*args, **options):
        if left:
            raise left.pop()
        return call(*args, **options)

    return refused
