"""Calls that are refused while somebody else is at a file."""

import errno

DENIED = PermissionError(errno.EACCES, "Access is denied")
"""What Windows says."""


def denied_at_first(call, error=DENIED, times=3):
    """Gives a function that does as `call`, but for the first times, when it is refused."""
    left = [type(error)(*error.args) for _ in range(times)]

    def refused(*args, **options):
        if left:
            raise left.pop()
        return call(*args, **options)

    return refused
