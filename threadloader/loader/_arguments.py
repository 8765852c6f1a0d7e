"""Arguments given in code, checked."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Collection, Mapping
from typing import Any

from .._schema import show
from ..errors import ConfigError, Problem, by_handler, from_signal, misfit, shown

__all__ = [
    "check_collate",
    "check_replaced",
    "check_sampler",
    "count_of",
    "refuse_set",
    "state_of",
]


def check_collate(collate: Any) -> None:
    """Check `collate`: what makes a batch of a list of samples; or None.

    Raises:
        ConfigError: it cannot be called so, or what it gives would have to be awaited.
    """
    if collate is None:
        return
    expected = "a callable of a list of samples"
    if not callable(collate):
        raise wrong("collate", expected, collate)
    if isinstance(collate, type) and str(collate.__module__).startswith("threadloader."):
        name = collate.__name__
        hint = f"give an object of it: collate={name}(...)"
        raise ConfigError(Problem("collate", expected, f"the class {name}", hint))
    if (got := misfit(collate, "write it as def collate(samples): ...", [])) is not None:
        raise ConfigError(Problem("collate", expected, *got))


def check_sampler(sampler: Any) -> None:
    """Check `sampler`, which gives each epoch its order, if it is a callable.

    Raises:
        ConfigError: as of `check_collate`.
    """
    if not callable(sampler):  # whether it is a sequence is told with the length of the source
        return
    if (got := misfit(sampler, "write it as def sampler(epoch, n): ...", 0, 0)) is not None:
        raise ConfigError(Problem("sampler", "a callable of (epoch, n)", *got))


def check_replaced(options: Mapping[str, Any], in_code: Mapping[str, Any]) -> None:
    """Check the options of `Loader.replace`.

    Args:
        options: the new ones.
        in_code: what was given in code; it comes before the option, whatever that says.

    Raises:
        ConfigError: one of them is no option of the config, or was given in code.
    """
    problems = []
    for option, value in options.items():
        if option in ("resume", "skip_steps", "unknown"):
            expected = f"an option of the config, which {option}=... of Loader(...) is not"
        elif in_code.get(option) is not None:
            expected = f"no new value, since {option}=... was given in code and comes before it"
        else:
            continue
        hint = f"make another with Loader(...), and give it the {option} that you want"
        problems.append(Problem(f"/{option}", expected, shown(value), hint))
    if problems:
        raise ConfigError(problems)


def refuse_set(name: str, options: Collection[str], arguments: Collection[str], of: object) -> None:
    """Refuse to set what is an option or an argument: it would be an attribute that nobody reads.

    Raises:
        AttributeError: it is one; with what to write for another loader.
    """
    ways = [f"loader.replace({name}=...)"] if name in options else []
    ways += [f"Loader(..., {name}=...)"] if name in arguments else []
    if ways:
        text = f"a Loader does not change; write for another one: {' or '.join(ways)}"
        raise AttributeError(text, name=name, obj=of)


def state_of(resume: Any) -> Any:
    """Give a copy of the state in `resume`; of a path, the absolute one, wherever it is read later.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(resume, Mapping):
        try:
            return copy.deepcopy(dict(resume))
        except Exception as error:
            if from_signal(error):
                raise
            return resume  # what cannot be copied is no state, as reading says
    if resume is None:
        return resume
    if not isinstance(resume, (str, os.PathLike)) or resume == "":
        raise wrong("resume", "a state, or the path of a file of one", resume)
    if isinstance(resume, str) and '"checksum"' in resume:
        return resume  # the text of a state, which reading tells from a path
    try:
        return os.path.abspath(resume)  # noqa: PTH100 - as `Base`: pathlib is imported at need
    except OSError as error:  # there is no current folder: reading says so
        if by_handler(error):
            raise
        return resume


def count_of(argument: str, value: Any, expected: str = "an integer >= 0") -> int:
    """Give an argument that is an integer >= 0, as a Python integer.

    Raises:
        ConfigError: it is something else.
    """
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)  # numpy's integers too
    except TypeError as error:  # also raised for an array, which has an __index__
        if from_signal(error):
            raise
        count = -1
    if count < 0:
        raise ConfigError(Problem(argument, expected, shown(value)))
    return count


def wrong(argument: str, expected: str, got: Any) -> ConfigError:
    """Give the error of an argument of another type, or of a text that it cannot be."""
    hint = "an object of options stands in the config" if isinstance(got, Mapping) else ""
    text = show(got) if isinstance(got, str) else type(got).__name__
    return ConfigError(Problem(argument, expected, text, hint))
