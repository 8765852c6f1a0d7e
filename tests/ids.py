"""What a case of a test is called."""

import re

__all__ = ["shown"]


def shown(value):
    """Shows a value without its address: a name that differs between two runs is none.

    >>> shown(len), shown(print.__call__)
    ('<built-in function len>', "<method-wrapper '__call__' of builtin_function_or_method object>")
    """
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))
