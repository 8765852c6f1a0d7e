"""``tools/bench --suite``: the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ._picture import picture
from ._plan import parser, plan_of
from ._results import Results
from ._run import run
from ._table import table

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write what was asked for.

    Returns:
        The exit code: 0 measured; 1 threadloader itself failed; 2 bad usage, or a file that
        cannot be written; 130 interrupted.
    """
    asked = parser().parse_args(arguments)
    try:
        plan = plan_of(asked)
        for name in filter(None, (asked.json, asked.svg)):
            with Path(name).open("ab"):  # better now than after an hour
                pass
    except (ValueError, OSError) as error:
        print(f"tools/bench --suite: {error}", file=sys.stderr)
        return 2

    def written(results: Results) -> None:
        if asked.json:
            text = json.dumps(results.as_dict(), indent=1) + "\n"
            Path(asked.json).write_text(text, encoding="utf-8")
        if asked.svg:
            Path(asked.svg).write_text(picture(results), encoding="utf-8")

    try:
        results = run(plan, tell=_tell, done=written)
    except KeyboardInterrupt:
        print("tools/bench --suite: interrupted", file=sys.stderr)
        return 130
    except (RuntimeError, OSError) as error:
        print(f"tools/bench --suite: {error}", file=sys.stderr)
        return 2
    print(table(results))
    ours = [
        row
        for work in results.works
        for case in work.cases
        for row in case.rows
        if row.loader in ("threadloader", "limit")
    ]
    return int(any(row.status in ("failed", "timeout") for row in ours))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
