"""Programs given as texts, as modules of their own would have them."""

import types

from threadloader.cache import key_of


def defined(text, **names):
    """Gives the function `f` of a program text, as a module of its own would have it."""
    module = types.ModuleType("written_here")
    vars(module).update(names)
    exec(text, vars(module))
    return module.f


def keys(*texts):
    return len({key_of(defined(text)) for text in texts})
