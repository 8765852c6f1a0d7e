"""``threadloader order``: which samples make a batch, and where a sample comes, without a run."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .config import LoaderConfig
from .errors import ConfigError, Problem
from .loader import Samplings, deal_of
from .order import Deal
from .samplers import EpochOrder

__all__ = ["add_arguments", "look_up"]

_DESCRIPTION = """\
Says from the config alone which samples an epoch has: with --step those of one batch,
with --find where a sample comes, without either how many steps there are. Nothing is
loaded: the source is opened to count its samples (and for a balanced sampler, to see its
labels), or --samples says how many it has. Steps are those of an epoch from its start;
after a resume under another number of shards or batch size they count from the cut.

Exit code: 0 answered; 1 a problem with the config or what it names, or no such step,
sample or shard; 2 bad usage, or a file that the system cannot read.
"""

Answer = tuple[list[str], dict[str, Any]]
"""Lines for people, and JSON."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("config", metavar="CONFIG", help="the config; FILE#/training for a section")
    parser.add_argument("--epoch", type=_count, default=0, help="the epoch, from 0 (default: 0)")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--step", type=_count, help="print the samples of this step, from 0")
    asked.add_argument("--find", type=_count, metavar="INDEX", help="print where a sample comes")
    parser.add_argument(
        "--shard", type=_shard, metavar="R/W", help="shard R of W, from 0 (default: the config's)"
    )
    parser.add_argument(
        "--samples", type=_count, metavar="N", help="do not open the source: it has N samples"
    )
    parser.add_argument(
        "--unknown",
        choices=["error", "ignore"],
        default="error",
        help='"ignore" lets through keys of the section that are not options (default: error)',
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
    if not found or not int(found[1]) < int(found[2]):
        raise argparse.ArgumentTypeError(f"expected R/W with R from 0 to W - 1, got {text!r}")
    return int(found[1]), int(found[2])


def look_up(arguments: argparse.Namespace, config: LoaderConfig, base: Path, source: Any) -> str:
    """Answer what was asked.

    Args:
        arguments: the options of the command.
        config: the config.
        base: the folder to which relative paths in it are relative.
        source: the open source, or anything of its length.

    Returns:
        What to print.

    Raises:
        ConfigError: what the config names does not fit, or there is no such step or sample.
    """
    deal = deal_of(config)
    if arguments.shard is not None:
        index, count = arguments.shard
        deal = deal._replace(shard_index=index, shard_count=count)
    sampler = Samplings(config, base, source, len(source), None).now.sampler
    order = sampler.order(arguments.epoch)
    if arguments.step is not None:
        lines, answer = _step(order, deal, arguments.epoch, arguments.step)
    elif arguments.find is not None:
        lines, answer = _find(order, deal, arguments.epoch, arguments.find, len(source))
    else:
        lines, answer = _epoch(order, deal, arguments.epoch)
    return json.dumps(answer, indent=2) if arguments.json else "\n".join(lines)


def _epoch(order: EpochOrder, deal: Deal, epoch: int) -> Answer:
    steps = deal.steps(order.n)
    line = (
        f"epoch {epoch}: {steps:,} steps of {deal.batch_size:,} on shard {deal.shard_index}/"
        f"{deal.shard_count}, {order.n:,} samples in the world"
    )
    return [line], {"epoch": epoch, "shard": _of(deal), "steps": steps, "samples": order.n}


def _step(order: EpochOrder, deal: Deal, epoch: int, step: int) -> Answer:
    share = deal.share(order, step)
    if share is None:
        steps = deal.steps(order.n)
        shard = f"shard {deal.shard_index}/{deal.shard_count}"
        expected = f"a step below {steps}, which is how many {shard} has in epoch {epoch}"
        raise ConfigError(Problem("--step", expected, str(step)))
    padding = int(np.count_nonzero(~share.valid))
    head = (
        f"epoch {epoch}, step {step}, shard {deal.shard_index}/{deal.shard_count}: "
        f"{len(share.indices):,} rows" + (f", the last {padding} of them padding" * bool(padding))
    )
    indices = share.indices.tolist()
    return [head, " ".join(map(str, indices))], {
        "epoch": epoch,
        "step": step,
        "shard": _of(deal),
        "indices": indices,
        "positions": share.positions.tolist(),
        "valid": share.valid.tolist(),
    }


def _find(order: EpochOrder, deal: Deal, epoch: int, index: int, n: int) -> Answer:
    if index >= n:
        expected = f"a sample below {n}, which is how many there are" if n else "no sample: none is"
        raise ConfigError(Problem("--find", expected, str(index)))
    found = list(_rows(order, deal, index))
    lines = [
        f"epoch {epoch}: sample {index} is row {row['row']} of step {row['step']} on shard "
        f"{row['shard']}/{deal.shard_count} (position {row['position']:,})"
        + ("" if row["valid"] else ", as padding")
        for row in found
    ]
    if not found:
        why = "it is excluded, not drawn, or left out with the tail"
        lines = [f"epoch {epoch}: sample {index} does not come: {why}"]
    return lines, {"epoch": epoch, "index": index, "rows": found}


def _rows(order: EpochOrder, deal: Deal, index: int) -> Iterator[dict[str, Any]]:
    for position in order.find(index).tolist():
        for row in deal.rows(order.n, position):
            yield {"position": position, **row._asdict()}


def _of(deal: Deal) -> dict[str, int]:
    return {"index": deal.shard_index, "count": deal.shard_count}
