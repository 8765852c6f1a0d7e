"""What the commands are told to run: a config, and code that the command line names.

A config never imports code. ``MODULE:FUNCTION`` on a command line does: whoever writes it may
run any code anyway.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ._children import current_folder
from ._messages import in_words
from .errors import LoaderError, ends

__all__ = [
    "CodeError",
    "UsageError",
    "add_code",
    "code_of",
    "given_by",
    "integer",
    "named",
    "names_of",
    "new_command",
    "number",
]


_CODE = {
    "source": "calls the function, without arguments, for the source that replaces the config's",
    "transform": "uses the function as the transform",
    "collate": "uses the function as the collate",
    "sampler": "uses the function of (epoch, n) as the sampler",
}
"""What a command may be told to take from code, and what it does with the function."""


class CodeError(LoaderError):
    """Code that the command line names raised the exception that is the cause of this one."""


class UsageError(LoaderError, ValueError):
    """What was asked for on the command line cannot be done as it stands."""


def new_command(
    commands: Any, name: str, says: str, description: str, metavar: str = "CONFIG"
) -> argparse.ArgumentParser:
    """Add a command to what `argparse` calls subparsers; give its parser, to add to.

    The command takes the config, which its help calls `metavar`, and ``--unknown`` for keys in it.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=says,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config", metavar=metavar, help=f"the config; {metavar}#/training for a section"
    )
    parser.add_argument(
        "--unknown",
        choices=["error", "ignore"],
        default="error",
        help='"ignore" lets through keys of the section that are not options, '
        "unless they are one edit away from one (default: error)",
    )
    return parser


def add_code(parser: argparse.ArgumentParser, *parts: str) -> None:
    """Add options for parts in code: some of those in `_CODE`, or all where none is named."""
    for part in parts or _CODE:
        says = f"imports the module and {_CODE[part]}"
        parser.add_argument(f"--{part}", metavar="MODULE:FUNCTION", type=_code_name, help=says)


def names_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Give the MODULE:FUNCTION of each part that the command line names."""
    names = {part: getattr(arguments, part, None) for part in _CODE}
    return {part: name for part, name in names.items() if name}


@contextlib.contextmanager
def code_of(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Import what the command line names; give it by its part.

    Within, modules of the current folder can be imported; not if no code is named.

    Raises:
        CodeError, UsageError: as of `named`.
    """
    names = names_of(arguments)
    if not names:
        yield {}
        return
    folder = current_folder()
    sys.path.insert(0, folder)
    try:
        yield {part: named(f"--{part}", name) for part, name in names.items()}
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def integer(text: str) -> int:
    """Read an integer as a shell has it: int() would take other scripts' digits and "1_0", too.

    Raises:
        argparse.ArgumentTypeError: it is none, or has more than 20 digits.

    >>> integer("-16")
    -16
    """
    if not re.fullmatch("-?[0-9]{1,20}", text):
        long = " of at most 20 digits" if re.fullmatch("-?[0-9]+", text) else ""
        raise argparse.ArgumentTypeError(f"expected an integer{long}, got {text!r}")
    return int(text)


def number(text: str) -> float:
    """Read a number as a shell has it, likewise; whether it may be NaN or infinite is asked later.

    Raises:
        argparse.ArgumentTypeError: it is none.

    >>> number("-1.5e3")
    -1500.0
    """
    if not re.fullmatch(
        r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf)", text, re.IGNORECASE
    ):
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}")
    return float(text)


def _code_name(text: str) -> str:
    """Refuse an empty MODULE:FUNCTION, of an unset shell variable: it would count as not given.

    Raises:
        argparse.ArgumentTypeError: it is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("expected MODULE:FUNCTION, got ''")
    return text


def named(option: str, name: str) -> Callable[..., Any]:
    """Import what ``MODULE:FUNCTION`` names, with dots between the parts of each, for an option.

    Raises:
        CodeError: the module raises an exception, or ends the process, when it is imported or asked
            for the function.
        UsageError: there is no such module or function, which any ImportError counts as, or it
            cannot be called.

    >>> named("--transform", "math:sqrt")(16.0)
    4.0
    """
    module, _, function = name.partition(":")
    if not module or module.startswith("."):  # import_module says ValueError or TypeError to that
        raise UsageError(
            f"{option}: expected MODULE:FUNCTION, with the module as in an import, got {name}"
        )
    if not function:
        raise UsageError(
            f"{option}: expected MODULE:FUNCTION, got {name}, without a function; name it after "
            "the colon"
        )
    expected = f"{option}: expected MODULE:FUNCTION, which can be imported here, got {name}"
    try:
        imported = found = importlib.import_module(module)
        try:
            for part in function.split("."):
                found = getattr(found, part)  # which may import: a module can have a `__getattr__`
        except AttributeError as error:
            file = getattr(imported, "__file__", None)  # of another module of that name, perhaps
            where = f" (imported from {file})" if file else ""
            raise UsageError(f"{expected}: {error}{where}") from error
    except UsageError:
        raise
    except BaseException as error:
        if ends(error):
            raise
        if issubclass(type(error), ImportError):
            raise UsageError(f"{expected}: {error}") from error
        raise CodeError(f"{option}: {name}: {in_words(error)}") from error
    if not callable(found):
        raise UsageError(f"{option}: expected a function, got {name}, {type(found).__name__}")
    return found


def given_by(function: Callable[[], Any]) -> Any:
    """Call the function of ``--source``; a forgotten return must not be the config's source.

    Raises:
        CodeError: it raises an exception, or ends the process.
        UsageError: it gives None.
    """
    try:
        source = function()
    except BaseException as error:
        if ends(error):
            raise
        raise CodeError(f"--source: {in_words(error)}") from error
    if source is None:
        raise UsageError("--source: expected a function that returns a source, got None from it")
    return source
