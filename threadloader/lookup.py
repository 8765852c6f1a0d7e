"""``threadloader order``: which samples make a batch, and where a sample occurs, without a run."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._command_line import new_command
from ._dry_run import read
from ._messages import GOOD, PROBLEM, USAGE, counted, from_source, located, problem_lines, telling
from .config import NO_SOURCE, Base, LoaderConfig
from .errors import ConfigError, Problem, from_signal
from .loader import Samplings, deal_of, length_of, open_configured
from .order import LONGEST, Deal, EpochOrder

__all__ = ["add_command"]

_DESCRIPTION = """\
Says from the config alone which samples an epoch has: with --step those of one
batch, with --find where a sample occurs, with neither the number of steps.
Nothing is loaded: the source is opened to count its samples (and for a
balanced sampler by a field, to see its labels), or --samples says how many it
has. Steps are those of an epoch from its start; after a resume with another
number of shards or batch size they count from there.

Exit code: 0 answered; 1 a problem with the config or what it names, or no such
step or sample; 2 bad usage (a shard that cannot be, say), or a file that the
system cannot read.
"""

Answer = tuple[list[str], dict[str, Any]]
"""Lines for people, and JSON."""

_LAST_EPOCH = 2**64 - 1
"""An order is keyed by 64 bits of the epoch."""

_MOST_SHARDS = 2**31 - 1
"""As in the schema of the config."""

_MOST_ROWS = 100_000
"""Rows of a sample that are printed, at most: padding may repeat it on each of very many shards."""


def add_command(commands: Any) -> None:
    """Add ``order`` to the commands, which `argparse` calls subparsers."""
    says = "say which samples come when, without a run"
    parser = new_command(commands, "order", says, _DESCRIPTION)
    parser.set_defaults(command=_order)
    count = _up_to(LONGEST)  # no source has more samples, and no epoch more steps
    parser.add_argument(
        "--epoch", type=_up_to(_LAST_EPOCH), default=0, help="the epoch, from 0 (default: 0)"
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--step", type=count, help="print the samples of this step, from 0")
    asked.add_argument("--find", type=count, metavar="INDEX", help="print where a sample occurs")
    parser.add_argument(
        "--shard", type=_shard, metavar="R/W", help="shard R of W, from 0 (default: the config's)"
    )
    parser.add_argument(
        "--samples", type=count, metavar="N", help="do not open the source: it has N samples"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _up_to(most: int) -> Callable[[str], int]:
    """Give a function that reads an integer from 0 to `most`, which has at most 20 digits."""

    def parsed(text: str) -> int:
        found = re.fullmatch("0*([0-9]{1,20})", text)  # int() would take "1_0" and "+1", too
        if not found or int(found[1]) > most:
            raise argparse.ArgumentTypeError(f"expected an integer from 0 to {most}, got {text!r}")
        return int(found[1])

    return parsed


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch("0*([0-9]{1,10})/0*([0-9]{1,10})", text)
    if not found or not int(found[1]) < int(found[2]) <= _MOST_SHARDS:
        raise argparse.ArgumentTypeError(
            f"expected R/W with R from 0 to W - 1 and W at most {_MOST_SHARDS}, got {text!r}"
        )
    return int(found[1]), int(found[2])


def _order(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Run the command; what it prints is put into ``out`` and ``err``."""
    arguments.source_in_code = arguments.samples is not None
    report = read(arguments, err)
    if report is None:
        return USAGE
    problems = [
        it._replace(expected=f"{it.expected} or `--samples N`") if it.expected == NO_SOURCE else it
        for it in report.problems
    ]
    source: Any = None
    try:
        if report.config is None:
            return PROBLEM
        if arguments.samples is not None:
            source = range(arguments.samples)
        else:
            with telling():
                source = open_configured(report.source or {}, report.base.path, report.root)
        out += _answered(arguments, report.config, report.base, source).split("\n")
    except Exception as error:  # a command shows no traceback
        if from_signal(error):
            raise
        if source is None:
            problems += from_source(report, error)
        else:
            problems += located(report, error, "", "an order of the samples")
        return PROBLEM
    finally:
        if hasattr(source, "close"):
            try:
                source.close()
            except Exception as error:  # as above
                if from_signal(error):
                    raise
                problems += from_source(report, error)
        err += problem_lines(report, problems)
    return PROBLEM if problems else GOOD


def _answered(arguments: argparse.Namespace, config: LoaderConfig, base: Base, source: Any) -> str:
    """Give what to print in answer; `source` is the open one, or anything of its length.

    Raises:
        ConfigError: what the config names does not fit, its sampler asks a source for labels
            that is not there, or there is no such step or sample.
        SourceError: the source has more samples than an order.
    """
    field = (config.sampler or {}).get("field")
    if arguments.samples is not None and field is not None:
        raise ConfigError(
            Problem(
                "/sampler/field",
                "labels that are known without the source",
                f"{json.dumps(field)}, which is a field of its samples",
                'leave out --samples, or name a file of "labels" in place of "field"',
            )
        )
    if arguments.shard is not None:  # put into the config, so that no launcher is asked
        index, count = arguments.shard
        given = {} if config.shard == "auto" else config.shard
        config = dataclasses.replace(config, shard={**given, "index": index, "count": count})
    deal, length = deal_of(config), length_of(source)
    sampler = Samplings(config, base, source, length, None).now.sampler
    order = sampler.order(arguments.epoch)
    if arguments.step is not None:
        lines, answer = _step(order, deal, arguments.epoch, arguments.step)
    elif arguments.find is not None:
        lines, answer = _find(order, deal, arguments.epoch, arguments.find, length)
    else:
        lines, answer = _epoch(order, deal, arguments.epoch)
    return json.dumps(answer, indent=2) if arguments.json else "\n".join(lines)


def _epoch(order: EpochOrder, deal: Deal, epoch: int) -> Answer:
    steps, samples = deal.steps(order.n), deal.dealt(order.n)
    line = (
        f"epoch {epoch}: {counted(steps, 'step')} of {deal.batch_size:,} on shard "
        f"{deal.shard_index}/{deal.shard_count}, {counted(samples, 'sample')} in the world"
    )
    shard, size = _shard_of(deal), deal.batch_size
    answer = {"epoch": epoch, "shard": shard, "batch_size": size, "steps": steps}
    return [line], {**answer, "samples": samples}


def _step(order: EpochOrder, deal: Deal, epoch: int, step: int) -> Answer:
    share = deal.share(order, step)
    if share is None:
        steps = deal.steps(order.n)
        shard = f"shard {deal.shard_index}/{deal.shard_count}"
        expected = f"a step below {steps}, which is how many {shard} has in epoch {epoch}"
        if not steps:
            expected = f"no step: {shard} has none in epoch {epoch}"
        raise ConfigError(Problem("--step", expected, str(step)))
    padding = int(np.count_nonzero(~share.valid))
    head = (
        f"epoch {epoch}, step {step}, shard {deal.shard_index}/{deal.shard_count}: "
        + counted(len(share.indices), "row")
        + f", the last {padding} of them padding" * bool(padding)
    )
    indices = share.indices.tolist()
    return [head, " ".join(map(str, indices))], {
        "epoch": epoch,
        "step": step,
        "shard": _shard_of(deal),
        "indices": indices,
        "positions": share.positions.tolist(),
        "valid": share.valid.tolist(),
    }


def _find(order: EpochOrder, deal: Deal, epoch: int, index: int, n: int) -> Answer:
    if index >= n:
        expected = f"a sample below {n}, which is how many there are" if n else "no sample: none is"
        raise ConfigError(Problem("--find", expected, str(index)))
    rows = _rows(order, deal, index)
    found = list(itertools.islice(rows, _MOST_ROWS))
    more = next(rows, None) is not None
    lines = [
        f"epoch {epoch}: sample {index} is row {row['row']} of step {row['step']} on shard "
        f"{row['shard']}/{deal.shard_count} (position {row['position']:,})"
        + ("" if row["valid"] else ", as padding")
        for row in found
    ]
    if not found:
        why = "it is excluded, not drawn, or left out with the tail"
        lines = [f"epoch {epoch}: sample {index} does not come: {why}"]
    if more:
        lines.append(f"and more often: these are the first {_MOST_ROWS:,}")
    shards = deal.shard_count
    return lines, {"epoch": epoch, "index": index, "shards": shards, "rows": found, "more": more}


def _rows(order: EpochOrder, deal: Deal, index: int) -> Iterator[dict[str, Any]]:
    for position in order.find(index).tolist():
        for row in deal.rows(order.n, position):
            yield {"position": position, **row._asdict()}


def _shard_of(deal: Deal) -> dict[str, int]:
    return {"index": deal.shard_index, "count": deal.shard_count}
