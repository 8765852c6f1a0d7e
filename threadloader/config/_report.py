"""What reading a config found, and where in its document it stands."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from .._schema import Place, pointer
from ..errors import ConfigError, Problem
from ._base import Base
from ._file import Document, follow, keys

if TYPE_CHECKING:
    from . import LoaderConfig

__all__ = ["Report", "in_order"]


def in_order(problem: Problem) -> tuple[int, int]:
    """Gives what problems are sorted by, to stand in the order of the document."""
    return problem.line, problem.column


class Report(NamedTuple):
    """What reading a config found.

    Attributes:
        config: the config; ``None`` when there are problems.
        source: the source's options, when they and `root` are right, whatever else is wrong.
        root: the folder that no path may leave, likewise; ``None`` also where none is named.
        base: the folder that relative paths are relative to.
        problems: all that is wrong, in the order of the document.
        file: the config file as it was named; ``""`` when the config is not a file.
        section: the keys that lead to the config in its document.
        document: the JSON document that it stands in; ``None`` when there is none.
        options: the options as they were given, with no default filled in; ``None`` when there
            are problems.
    """

    config: "LoaderConfig | None"
    source: dict[str, Any] | None
    root: str | None
    base: Base
    problems: tuple[Problem, ...]
    file: str = ""
    section: Place = ()
    document: Document | None = None
    options: dict[str, Any] | None = None

    def locate(self, problem: Problem) -> Problem:
        """A problem of the options, as one of the whole document, with line and column."""
        if self.document is None or problem.pointer[:1] not in ("", "/"):
            return problem
        names = [*map(str, self.section), *keys(problem.pointer)]
        path, _ = follow(self.document.value, names)
        line, column = self.document.place(path)
        where = pointer(self.section) + problem.pointer
        return Problem(where, problem.expected, problem.got, problem.hint, line, column)

    def checked(self) -> "LoaderConfig":
        """The config.

        Raises:
            ConfigError: there are problems; with each of them.
        """
        if self.config is None:
            raise _placed(ConfigError(self.problems, self.file))
        return self.config

    def complete(self, error: ConfigError, in_code: Collection[str] = ()) -> None:
        """Says in an error of the options where in the document its problems stand.

        Args:
            error: what the loader, its source or its sampler has raised. One that has its places,
                or names a file, already is of another config, as of a loader in user code.
            in_code: options that were given in code, and stand in no document.
        """
        # An error of the user's own may have no problems, or a class that does not set them.
        own = [type(it) is not Problem for it in getattr(error, "problems", ())]
        file: str = getattr(error, "file", "")
        if error._placed or not own or any(own) or file:
            return
        _placed(error)
        if self.document is None:
            return
        problems = [
            problem if problem.pointer[1:].split("/")[0] in in_code else self.locate(problem)
            for problem in error.problems
        ]
        problems.sort(key=in_order)
        ConfigError.__init__(error, problems, self.file)


def _placed(error: ConfigError) -> ConfigError:
    error._placed = True
    return error
