"""The source of a config, opened; its length, and what a run over it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from types import CodeType
from typing import Any

from .. import sources
from ..config import LoaderConfig
from ..engine import say
from ..errors import SourceError, traceback_of
from ..order import LONGEST, VERSION

__all__ = ["identity_of", "length_of", "open_configured", "transform_of"]


# Whoever closes a source may be stuck in the log: warnings of one have a thread, and a bound.
sources.warn_by(lambda texts: say(None, "warning", texts))


def open_configured(
    spec: Mapping[str, Any], base: str | PathLike[str], root: str | None
) -> sources.OpenSource:
    """Open the source of a config, as entering a `Loader` does.

    Args:
        spec: the config's ``source``.
        base: the folder to which relative paths in it are relative.
        root: the config's ``root``.

    Returns:
        The open source; close it in the end.

    Raises:
        SourceError: what it names is missing or damaged.
        ConfigError: its options contradict each other.
    """
    return sources.open_source(spec, base, root, {"image": _image})


_ASKING = {kind.__len__.__code__ for kind in (sources.PerThread, sources.Without)}
"""Code of ours that calls `len`: what is raised right there is about the value that it got."""


def length_of(source: Any) -> int:
    """Give how many samples an open source has.

    Raises:
        SourceError: its ``len()`` is none that Python takes, or more than an order has room for.
        Exception: whatever the source raises itself.
    """
    try:
        length = len(source)
    except (ValueError, TypeError, OverflowError) as error:
        if _where(error) not in {length_of.__code__, *_ASKING}:
            raise  # by the source's own code, or by the factory of `per_thread`
        raise _no_length(error) from error
    if length > LONGEST:
        raise _no_length(length)
    return length


def identity_of(
    config: LoaderConfig, source: Any, length: int, sampler: str | None
) -> dict[str, Any]:
    """Say what a run is: what must be the same for a state to fit.

    Args:
        config: the config.
        source: the open source.
        length: how many samples it has.
        sampler: the sampler's name.
    """
    return {
        "source": sources.fingerprint(source),
        "samples": length,
        "seed": config.seed,
        "shuffle": config.shuffle,
        "sampler": sampler,
        "order": VERSION,
    }


def transform_of(
    config: LoaderConfig, given: Callable[..., Any] | None
) -> Callable[..., Any] | None:
    """Give the transform in code, or else the one that the config names: "mlm" is the only one."""
    if given is not None or config.transform is None:
        return given
    from ..masking import mlm  # imported when it is asked for

    return mlm(**{option: it for option, it in config.transform.items() if option != "type"})


def _no_length(got: object) -> SourceError:
    expected = f"expected a source whose len() is an integer from 0 to {LONGEST}"
    return SourceError(f"{expected}, got: {got}")


def _image(**options: Any) -> Callable[[bytes], Any]:
    """Give the decoder of images; it needs Pillow, so it is imported when it is asked for."""
    from ..adapters.pillow import image_decoder

    return image_decoder(**options)


def _where(error: BaseException) -> CodeType:
    """Give the code that an error was raised in.

    In the frame that catches the error, a variable with its traceback would make a cycle; not here.
    """
    at: Any = traceback_of(error)
    while at.tb_next is not None:
        at = at.tb_next
    code: CodeType = at.tb_frame.f_code
    return code
