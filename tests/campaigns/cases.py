"""What campaigns of independent cases share: options, processes, progress, the last line.

A case is told by the campaign's seed and its own number. The work of a campaign is a function
of a module, so that other processes find it::

    work(seed, numbers) -> Part
"""

import argparse
import json
import multiprocessing
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

CHUNK = 500
"""Cases that a process is given at a time, unless they take long."""

PROGRESS_SECONDS = 10.0
"""How often a line on stderr says how far it is."""

FAILURES = 10
"""After so many failures a campaign ends: they are told, and more would say no more."""

Work = Callable[[int, range], "Part"]


@dataclass
class Part:
    """What some cases came to.

    Attributes:
        cases: how many were run.
        distinct: 8 bytes for each that was none of the others.
        failures: a text for each that failed, with what replays it.
        sums: further numbers, by what they count.
        most: the largest of further numbers, by what they measure.
    """

    cases: int = 0
    distinct: set[bytes] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    sums: dict[str, int] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Part") -> None:
        self.cases += other.cases
        self.distinct |= other.distinct
        self.failures += other.failures
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0) + value
        for name, value in other.most.items():
            self.most[name] = max(self.most.get(name, value), value)


def parser(name: str, about: str, count: int) -> argparse.ArgumentParser:
    """Give a parser of the options that such campaigns have.

    Args:
        name: of the campaign.
        about: one sentence.
        count: how many cases there are by default.
    """
    made = argparse.ArgumentParser(f"tools/campaign {name}", description=about, allow_abbrev=False)
    processors = os.cpu_count() or 1
    made.add_argument("--count", type=some, default=count, help=f"cases to run ({count:,})")
    made.add_argument("--seed", type=int, default=0, help="another seed, other cases (0)")
    made.add_argument("--processes", type=some, default=processors, help=f"({processors})")
    made.add_argument("--json", action="store_true", help="print the last line as JSON")
    return made


def some(text: str) -> int:
    """Read a number of things from a command line."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected an integer from 1, got {text}")


def none_or_some(text: str) -> int:
    """Read a number of things, or 0, from a command line."""
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"expected an integer from 0, got {text}")


def run(name: str, work: Work, options: argparse.Namespace, chunk: int = CHUNK) -> int:
    """Run a campaign to its end, to its tenth failure, or to a Ctrl-C.

    Args:
        name: of the campaign, which is also what its cases are called.
        work: does some cases.
        options: what `parser` has parsed.
        chunk: cases that a process is given at a time.

    Returns:
        The exit code: 0, 1 after a failure, 130 after a Ctrl-C, and with several processes
        after SIGTERM or SIGHUP.
    """
    began = said = time.perf_counter()
    total, interrupted = Part(), False
    parts = _parts(work, options, chunk)
    try:
        for part in parts:
            total.add(part)
            now = time.perf_counter()
            if part.failures:
                print("\n\n".join(part.failures), file=sys.stderr, flush=True)
            if now - said >= PROGRESS_SECONDS:
                said = now
                rate = total.cases / (now - began)
                line = f"{_told(name, total)} of {options.count:,}; {rate:,.0f}/s"
                print(line, file=sys.stderr, flush=True)
            if len(total.failures) >= FAILURES:
                break
    except KeyboardInterrupt:
        interrupted = True
    except SystemExit as error:  # what a case has let through is not the end of this program
        total.failures.append(f"a case has ended the process: {error!r}")
        print(total.failures[-1], file=sys.stderr, flush=True)
    finally:
        parts.close()  # ends the processes
    seconds = time.perf_counter() - began
    if options.json:
        print(json.dumps(_as_json(name, total, options, seconds)))
    else:
        where = f"{platform.python_implementation()} {platform.python_version()}"
        sums = "".join(f", {value:,} {what}" for what, value in total.sums.items())
        sums += "".join(f", {what} {value:.3g}" for what, value in total.most.items())
        print(
            f"{_told(name, total)}{sums}; seed {options.seed}, {seconds:.0f} s,"
            f" processes: {options.processes}, {where}"
        )
    return 130 if interrupted else int(bool(total.failures))


def _parts(
    work: Work, options: argparse.Namespace, chunk: int = CHUNK
) -> Generator[Part, None, None]:
    """Give what each chunk of cases came to, as it comes."""
    chunks = [
        range(first, min(first + chunk, options.count)) for first in range(0, options.count, chunk)
    ]
    if options.processes == 1:
        for numbers in chunks:
            yield work(options.seed, numbers)
        return
    # Not forked, since a campaign has threads; and not a Pool, which waits for ever for a
    # process that was killed.
    context = multiprocessing.get_context("spawn")
    places = context.SimpleQueue()
    for number in range(options.processes):
        places.put(number)
    # Of those that are ended nobody removes what they have made there.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    begin = _begin, (places, folder.name)
    pool = ProcessPoolExecutor(options.processes, context, *begin)
    # What is sent to this process alone is to end them, too.
    ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ending = [it for it in ending if signal.getsignal(it) is not signal.SIG_IGN]  # as by nohup
    before = [(it, signal.signal(it, signal.default_int_handler)) for it in ending]
    try:
        running = [pool.submit(work, options.seed, numbers) for numbers in chunks]
        for done in as_completed(running):
            yield done.result()
    except BaseException:  # GeneratorExit, too: nobody waits for what they are at
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        folder.cleanup()
        for number, handler in before:
            signal.signal(number, handler)


def _begin(places: Any, folder: str) -> None:
    """Keep each process on a processor of its own, and let the parent alone hear a Ctrl-C."""
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    if hasattr(os, "setpgrp"):
        # Not by another handler: what is run, and replayed elsewhere, may look at it.
        os.setpgrp()
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[places.get() % len(processors)]})


def _told(name: str, total: Part) -> str:
    return (
        f"{name}: {total.cases:,} run, {len(total.distinct):,} distinct,"
        f" {len(total.failures)} failed"
    )


def _as_json(name: str, total: Part, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    return {
        "campaign": name,
        "asked": options.count,
        "run": total.cases,
        "distinct": len(total.distinct),
        "failed": len(total.failures),
        **total.sums,
        **total.most,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "processes": options.processes,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "failures": total.failures,
    }
