"""Results as an SVG picture: every loader on a line for each case, beside the limit.

It paints its own background, a light one or, where the reader's system asks for it, a dark
one, so that it can be read on any page. Loaders differ in shape as well as in colour; the
colours are those of M. Okabe and K. Ito, *Color Universal Design*, 2008, made darker or
lighter where the background asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ._protocol import Metric
from ._results import CaseResult, Results, WorkResult
from .loaders import NAMES

__all__ = ["BEGINS", "picture"]

BEGINS = '<svg role="img" aria-labelledby="title about"'
"""How each picture begins, by which it is known again."""

TITLE = "threadloader beside other loaders, and the limit"
WIDTH = 860
LEFT, RIGHT = 262, 640
"""Between them lie the plots; right of it two columns of numbers."""
OURS, BEST = 706, 726
"""The end of the first column, and the beginning of the second."""
LINE = 21
"""From one case to the next."""
LOWEST, HIGHEST = 0.01, 10_000.0
"""Of the plot of absolute numbers, which has a logarithmic scale."""

STYLE = """\
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#24292f}
.title{font-size:16px;font-weight:600}
.head{font-weight:600}
.ours{font-weight:600;fill:#0b5fd0}
.soft{fill:#57606a}
.page{fill:#ffffff;stroke:#d0d7de}
.grid{stroke:#e3e8ed}
.row{stroke:#eef1f4}
.limit{stroke:#24292f;stroke-width:1.5;stroke-dasharray:5 3}
.mark{stroke:#ffffff;stroke-width:0.8}
.m0{fill:#0b5fd0}.m1{fill:#d55e00}.m2{fill:#a35b00}.m3{fill:#007a59}.m4{fill:#b0508a}
.m5{fill:#2a8fcf}.m6{fill:#8a7a00}.m7{fill:#6e7781}.m8{fill:#24292f}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.ours{fill:#6cb0ff}
.soft{fill:#9da7b3}
.page{fill:#0d1117;stroke:#30363d}
.grid{stroke:#262c34}
.row{stroke:#1a2028}
.limit{stroke:#e6edf3}
.mark{stroke:#0d1117}
.m0{fill:#58a6ff}.m1{fill:#ff8b3d}.m2{fill:#e69f00}.m3{fill:#2ebd91}.m4{fill:#e08ac0}
.m5{fill:#7cc7f2}.m6{fill:#f0e442}.m7{fill:#9da7b3}.m8{fill:#f0f6fc}
}"""

SHAPES: tuple[Callable[[float], str], ...] = (
    lambda r: "",  # a circle: ours
    lambda r: f"M{-r},{-r}H{r}V{r}H{-r}Z",
    lambda r: f"M0,{-1.2 * r}L{1.2 * r},{r}H{-1.2 * r}Z",
    lambda r: f"M0,{-1.4 * r}L{1.4 * r},0L0,{1.4 * r}L{-1.4 * r},0Z",
    lambda r: f"M0,{1.2 * r}L{1.2 * r},{-r}H{-1.2 * r}Z",
    lambda r: f"M{-r},0L{r},{-1.2 * r}V{1.2 * r}Z",
    lambda r: f"M{r},0L{-r},{-1.2 * r}V{1.2 * r}Z",
    lambda r: "M{1},{0}H{2}V{1}H{3}V{2}H{2}V{3}H{1}V{2}H{0}V{1}H{1}Z".format(
        -1.2 * r, -0.4 * r, 0.4 * r, 1.2 * r
    ),
    lambda r: f"M{-0.5 * r},{-1.2 * r}H{0.5 * r}V{1.2 * r}H{-0.5 * r}Z",
)


@dataclass(frozen=True)
class Line:
    """One line of a plot: a case, and where each loader stands at it.

    Attributes:
        label: of the case.
        values: by the loader's name.
        write: gives a value in words.
        better: whether more of it is better.
    """

    label: str
    values: dict[str, float]
    write: Callable[[float], str]
    better: bool


def picture(results: Results) -> str:
    """Draw results.

    Args:
        results: of any works; those with nothing to draw are left out.

    Returns:
        The text of an SVG file; "" where there is nothing to draw.
    """
    shares, absolute = list(_lines(results, "share")), list(_lines(results, None))
    if not shares and not absolute:
        return ""
    # A loader has the same mark in every picture, whoever else is there.
    marks = {name: NAMES.index(name) for name in results.titles if name in results.versions}
    parts: list[str] = []
    y = 58.0 + 20 * math.ceil(len(marks) / 5)
    if shares:
        parts += _shares(y, shares, marks)
        y += 40 + LINE * len(shares) + 34
    if absolute:
        places = [(10.0**n, f"{10.0**n:,g}") for n in range(-2, 5)]
        title = "Where the limit is 0: less is better"
        parts += _plot(title, y, absolute, places, _logarithmic, marks)
        y += 40 + LINE * len(absolute) + 34
    warned = ["Quick: the numbers mean nothing."] if results.plan["quick"] else []
    if results.busy:
        warned.append(f"Other programs were at work when it began (load {results.busy:.1f}).")
    first, height = results.machines[0], y + (28 if warned else 10)
    told = f"{first['processor']}, {first['cores']} cores, {first['python']}"
    told += f", commit {results.commit}" if results.commit else ""
    box = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    lines = [
        f'{BEGINS} xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="about">{escape(_about(shares, absolute))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" rx="8" width="{WIDTH - 1}" height="{height - 1:g}"/>',
        _text(20, 28, TITLE, "title"),
        *_legend(results, marks),
        *parts,
        _text(20, y - 6, told, "soft"),
        *([_text(20, y + 12, " ".join(warned), "head")] if warned else []),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _shares(y: float, lines: Sequence[Line], marks: dict[str, int]) -> Iterator[str]:
    """Draw the plot whose scale is the limit."""
    most = max(1.0, *(value for line in lines for value in line.values.values()))
    tick = next(size for size in (0.2, 0.5, 1, 2, 5, 10, 100, 1000, 10000) if most / size < 12)
    top = tick * math.ceil(most / tick + 0.25)
    places = [(tick * n, f"{tick * n:.1f}") for n in range(round(top / tick) + 1)]
    scale = _linear(top)
    x, bottom = scale(1.0), y + 40 + LINE * len(lines)
    yield _rule("limit", x, y + 30, x, bottom)
    yield _text(x, y + 24, "limit", "head", "middle")
    yield from _plot(
        "Part of the limit that is reached: more is better", y, lines, places, scale, marks
    )


def _lines(results: Results, against: str | None) -> Iterator[Line]:
    for work in results.works:
        for case in work.cases:
            for metric in work.metrics:
                if metric.drawn and metric.against == against:
                    values = dict(_values(case, metric))
                    if values:
                        yield _line(work, case, metric, values)


def _values(case: CaseResult, metric: Metric) -> Iterator[tuple[str, float]]:
    for row in case.rows:
        shown = row.shown.get(metric.name)
        if shown is not None and row.loader != "limit":
            value = shown.value if metric.against is None else shown.against
            if value is not None:
                yield row.loader, value


def _line(work: WorkResult, case: CaseResult, metric: Metric, values: dict[str, float]) -> Line:
    label = f"{work.short}, {case.name}" if len(work.cases) > 1 else work.short
    if sum(one.drawn for one in work.metrics) > 1:
        label += f": {metric.title}"
    if metric.against == "share":
        return Line(label, values, "{:.2f}".format, better=True)
    unit, size = {"s": ("ms", 1e-3), "B": ("MiB", 1 << 20), "part": ("%", 0.01), "/s": ("/s", 1)}[
        metric.unit
    ]
    scaled = {name: value / size for name, value in values.items()}
    return Line(f"{label}, {unit}", scaled, _number, better=False)


def _number(value: float) -> str:
    """Give a number of any size in a few characters.

    >>> _number(1334.1), _number(6.09), _number(0.0742), _number(0.0)
    ('1,334', '6.1', '0.074', '0')
    """
    if value >= 1:
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:.2g}"


def _linear(top: float) -> Callable[[float], float]:
    return lambda value: LEFT + (RIGHT - LEFT) * value / top


def _logarithmic(value: float) -> float:
    part = math.log10(min(max(value, LOWEST), HIGHEST) / LOWEST) / math.log10(HIGHEST / LOWEST)
    return LEFT + (RIGHT - LEFT) * part


def _plot(
    title: str,
    top: float,
    lines: Sequence[Line],
    places: Sequence[tuple[float, str]],
    scale: Callable[[float], float],
    marks: dict[str, int],
) -> Iterator[str]:
    first, bottom = top + 40, top + 40 + LINE * len(lines)
    yield _text(20, top + 6, title, "head")
    yield _text(OURS, top + 24, "ours", "ours", "end")
    yield _text(BEST, top + 24, "best of the others", "soft")
    for value, name in places:
        x = scale(value)
        yield _rule("grid", x, first - 10, x, bottom)
        yield _text(x, bottom + 15, name, "soft", "middle")
    for number, line in enumerate(lines):
        y = first + LINE * number + 4
        yield _rule("row", LEFT, y, RIGHT, y)
        yield _text(LEFT - 10, y + 4, line.label, "", "end")
        for name in sorted(line.values, key=lambda name: -marks[name]):  # ours on top
            yield _mark(marks[name], scale(line.values[name]), y)
        others = {name: value for name, value in line.values.items() if marks[name]}
        if "threadloader" in line.values:
            yield _text(OURS, y + 4, line.write(line.values["threadloader"]), "ours", "end")
        if others:
            best = (max if line.better else min)(others, key=lambda name: others[name])
            yield _mark(marks[best], BEST + 5, y)
            yield _text(BEST + 16, y + 4, line.write(others[best]), "soft")


def _legend(results: Results, marks: dict[str, int]) -> Iterator[str]:
    for number, (name, mark) in enumerate(marks.items()):
        x, y = 26 + 165 * (number % 5), 50 + 20 * (number // 5)
        yield _mark(mark, x, y)
        yield _text(x + 11, y + 4, results.titles[name], "ours" if mark == 0 else "")


def _about(shares: Sequence[Line], absolute: Sequence[Line]) -> str:
    told = [
        f"{line.label}: {line.write(line.values['threadloader'])}"
        for line in (*shares, *absolute)
        if "threadloader" in line.values
    ]
    return f"threadloader at each kind of work: {'; '.join(told) or 'not measured'}."


def _mark(kind: int, x: float, y: float) -> str:
    if kind == 0:
        return f'<circle class="mark m0" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>'
    shape = SHAPES[kind % len(SHAPES)](4.0)
    place = f"translate({x:.1f} {y:.1f})"
    return f'<path class="mark m{kind % len(SHAPES)}" transform="{place}" d="{shape}"/>'


def _rule(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
