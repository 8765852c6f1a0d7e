"""A report as an SVG picture: samples per second, and data wait, over workers.

It paints its own background, a light one or, where the reader's system asks for it, a dark
one, so that it can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ..stats import BANDS, percent

if TYPE_CHECKING:
    from ._report import Report, Row

__all__ = ["BEGINS", "picture"]

BEGINS = '<svg role="img" aria-labelledby="title about"'
"""How each picture begins, by which it is known again."""

WIDTH = 760
LEFT, RIGHT = 84, 676
"""The plots lie between them; right of RIGHT stand the names of the bands."""
TOP, HEIGHT, GAP = 112, 210, 92
"""Where the first plot begins, how high each plot is, and the gap between two of them."""

STYLE = """\
text{font-size:13px;fill:#24292f}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.title{font-size:16px;font-weight:600}
.halo{stroke:#ffffff;stroke-width:4;stroke-linejoin:round}
.soft{fill:#57606a;font-size:12px}
.page{fill:#ffffff;stroke:#d0d7de}
.grid{stroke:#d8dee4;stroke-width:1}
.axis{stroke:#57606a;stroke-width:1}
.bound{stroke:#57606a;stroke-width:1;stroke-dasharray:2 4}
.chosen{fill:#1f6feb;fill-opacity:0.1}
.line{fill:none;stroke-width:2.5;stroke-linejoin:round}
.range{stroke-width:1.5}
.threadloader{stroke:#0b5fd0}
.threadloader-dot{fill:#0b5fd0}
.torch{stroke:#c2410c;stroke-dasharray:7 4}
.torch-range{stroke:#c2410c}
.torch-dot{fill:#c2410c}
.threadloader-range{stroke:#0b5fd0}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.halo{stroke:#0d1117}
.soft{fill:#9da7b3}
.page{fill:#0d1117;stroke:#30363d}
.grid{stroke:#262c34}
.axis,.bound{stroke:#9da7b3}
.chosen{fill:#58a6ff;fill-opacity:0.16}
.threadloader,.threadloader-range{stroke:#58a6ff}
.threadloader-dot{fill:#58a6ff}
.torch,.torch-range{stroke:#ff9a5c}
.torch-dot{fill:#ff9a5c}
}"""

NAMES = {"threadloader": "threadloader (threads)", "torch": "PyTorch DataLoader (processes)"}
KINDS = {"sleep": "a sleep", "gil": "Python code", "numpy": "numpy"}


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot: what is drawn, and how a value is placed and written.

    Attributes:
        top: where it begins, in the picture's y.
        title: what stands above it.
        most: the value at its upper end.
        tick: from one line of the grid to the next.
        value: gives what is drawn of a row.
        extent: gives the least and the most of its runs.
        write: gives the words beside a point.
        mark: gives those beside a line of the grid.
        bands: whether the bands of the data wait are drawn.
    """

    top: float
    title: str
    most: float
    tick: float
    value: Callable[[Row], float]
    extent: Callable[[Row], tuple[float, float]]
    write: Callable[[float], str]
    mark: Callable[[float], str]
    bands: bool = False

    def y(self, value: float) -> float:
        """Give where a value stands, in the picture's y."""
        return self.top + HEIGHT * (1 - value / self.most)


def picture(report: Report) -> str:
    """Draw a report, as the text of an SVG file.

    Without a training step there is no data wait to draw, and the picture says so.
    """
    plots = list(_plots(report))
    workers = report.plan.workers
    room = (RIGHT - LEFT) / len(workers)
    places = {number: LEFT + room * (place + 0.5) for place, number in enumerate(workers)}
    height = plots[-1].top + HEIGHT + (62 if report.plan.step_ms else 90)
    choice = report.choice
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    about = f"Chosen: {choice}"
    parts = [
        f'{BEGINS} xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<title id="title">{escape(_title(report))}</title>',
        f'<desc id="about">{escape(about)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>',
        _text(24, 32, _title(report), "title"),
        *_legend(report),
    ]
    for plot in plots:
        if choice.num_workers is not None:
            chosen = places[choice.num_workers]
            side = min(room, 84) / 2
            parts.append(
                f'<rect class="chosen" x="{chosen - side:.1f}" y="{plot.top}"'
                f' width="{2 * side:.1f}" height="{HEIGHT}"/>'
            )
        parts += _frame(plot, places)
        for loader in reversed(report.plan.loaders):  # ours is drawn last, on top
            parts += _series(plot, report.of(loader), places, loader)
    if not report.plan.step_ms:
        told = "No training step was stated (--step-ms), so there is no data wait to draw."
        parts.append(_text(LEFT, height - 20, told, "soft"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _title(report: Report) -> str:
    file, mark, section = report.config.replace("\\", "/").partition("#")
    name = file.rpartition("/")[2] + mark + section
    # The name of a file may have characters that cannot stand in XML, or in UTF-8.
    name = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    name = name if len(name) <= 40 else f"{name[:39]}…"
    step = report.plan.step_ms
    told = f"a step of {step:g} ms ({KINDS[report.plan.step]})" if step else "loading alone"
    return f"{name}: {told}" if name else told.capitalize()


def _plots(report: Report) -> Iterator[Plot]:
    rates = [max(row.samples_per_second_runs) for row in report.rows]
    tick = _tick(max(rates))
    yield Plot(
        TOP,
        "Samples per second",
        _above(1.08 * max(rates), tick),
        tick,
        lambda row: row.samples_per_second,
        lambda row: (min(row.samples_per_second_runs), max(row.samples_per_second_runs)),
        _short,
        lambda value: _short(value, ".3g"),
    )
    if report.plan.step_ms:
        waits = [row.data_wait_fraction or 0.0 for row in report.rows]
        tick = _tick(max(0.02, *waits))
        yield Plot(
            TOP + HEIGHT + GAP,
            "Data wait, part of the time (%)",
            min(1.0, _above(1.08 * max(0.02, *waits), tick)),
            tick,
            lambda row: row.data_wait_fraction or 0.0,
            lambda row: (0.0, 0.0),
            # Far above the bands, tenths tell nothing.
            lambda value: f"{value:.0%}" if value == 0 or value >= 0.3 else percent(value),
            lambda value: f"{100 * value:.3g}%",
            bands=True,
        )


def _frame(plot: Plot, places: dict[int, float]) -> Iterator[str]:
    """Draw what stands behind the lines of a plot."""
    bottom = plot.top + HEIGHT
    yield _text(24, plot.top - 20, plot.title)
    for number in range(round(plot.most / plot.tick) + 1):
        y = plot.y(number * plot.tick)
        yield _rule("grid" if number else "axis", LEFT, y, RIGHT, y)
        yield _text(LEFT - 10, y + 4, plot.mark(number * plot.tick), "soft", "end")
    for number, x in places.items():
        yield _rule("axis", x, bottom, x, bottom + 5)
        yield _text(x, bottom + 21, str(number), "", "middle")
    yield _text((LEFT + RIGHT) / 2, bottom + 40, "num_workers", "soft", "middle")
    if plot.bands:
        yield from _bands(plot)


def _bands(plot: Plot) -> Iterator[str]:
    """Name the bands of the data wait, as far as there is room for them."""
    low = 0.0
    for bound, name in (*BANDS, (1.0, "poor")):
        high = min(bound, plot.most)
        if high > low and plot.y(low) - plot.y(high) >= 13:
            yield _text(RIGHT + 10, (plot.y(low) + plot.y(high)) / 2 + 4, name, "soft")
        if bound < plot.most:
            yield _rule("bound", LEFT, plot.y(bound), RIGHT, plot.y(bound))
        low = high


def _series(
    plot: Plot, rows: Sequence[Row], places: dict[int, float], loader: str
) -> Iterator[str]:
    """Draw the line of one loader."""
    points = [(places[row.num_workers], plot.y(plot.value(row)), row) for row in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    if len(points) > 1:
        yield f'<polyline class="line {loader}" points="{path}"/>'
    for x, y, row in points:
        low, high = plot.extent(row)
        if high > low:
            yield _rule(f"range {loader}-range", x, plot.y(low), x, plot.y(high))
        value = plot.write(plot.value(row))
        yield (
            f'<circle class="{loader}-dot" cx="{x:.1f}" cy="{y:.1f}" r="4.5">'
            f"<title>{escape(NAMES[loader])}, num_workers {row.num_workers}: {value}</title>"
            "</circle>"
        )
        if loader == "threadloader" and len(points) * 44 < RIGHT - LEFT:
            above = min(y, plot.y(high)) if high > low else y
            # Twice: first a halo that keeps lines of the plot off the letters.
            yield _text(x, above - 10, value, "halo", "middle")
            yield _text(x, above - 10, value, "", "middle")


def _legend(report: Report) -> Iterator[str]:
    x = 24.0
    for loader in report.plan.loaders:
        yield _rule(f"line {loader}", x, 52, x + 28, 52)
        yield f'<circle class="{loader}-dot" cx="{x + 14:g}" cy="52" r="4.5"/>'
        yield _text(x + 36, 56, NAMES[loader], "soft")
        x += 60 + 6.6 * len(NAMES[loader])
    if report.choice.num_workers is not None:
        yield f'<rect class="chosen" x="{x:g}" y="44" width="16" height="16"/>'
        yield _text(x + 24, 56, "chosen", "soft")


def _tick(most: float) -> float:
    """Give a round distance between ticks, so that there are four to eight of them."""
    power = 10.0 ** math.floor(math.log10(most / 5)) if most > 0 else 1.0
    return next(power * n for n in (1, 2, 5, 10) if most / (power * n) <= 7)


def _above(most: float, tick: float) -> float:
    return tick * max(1, math.ceil(most / tick - 1e-9))


def _short(value: float, digits: str = "#.3g") -> str:
    """Write a rate in a few characters; with ``.3g`` without trailing zeros.

    >>> _short(950), _short(999.6), _short(12300), _short(999_700), _short(2_500_000)
    ('950', '1.00k', '12.3k', '1.00M', '2.50M')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:  # from here on three digits round up to the next unit
            return format(value / size, digits).rstrip(".") + unit
    return f"{value:.3g}"


def _rule(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
