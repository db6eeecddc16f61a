"""Draws the picture of an arena, and the frame of all pictures, as SVG.

A picture has a few questions. Each contender is a dot on a scale; a line through the dot spans the
quartiles of the rounds. The scales are logarithmic, because figures differ by four orders of
magnitude. So there are no bars: their lengths would mislead. One file serves light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from .model import Figure, Result, Row
from .report import number

WIDTH = 960
_LEFT, _SCALE_END, _RIGHT = 258, 716, 936
_TOP, _HEAD, _LANE, _AXIS, _GAP = 98, 34, 24, 26, 18
#: Pixels for the text of a figure next to its dot.
_FIGURE = 62

STYLE = """
  text { font: 12.5px ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue",
         "DejaVu Sans", sans-serif; fill: #1f2933 }
  .paper { fill: #ffffff } .lane { fill: #f3f5f8 } .grid { stroke: #d5dce4 }
  .title { font-size: 20px; font-weight: 650 }
  .asks { font-size: 14px; font-weight: 600 } .hint { font-weight: 400; fill: #5b6774 }
  .soft, .tick { fill: #5b6774 } .tick { font-size: 11px; text-anchor: middle }
  .name { text-anchor: end } .ratio { text-anchor: end; fill: #5b6774 }
  .ours { fill: #0b5f58; font-weight: 650 }
  .dot { fill: #8292a2 } .span { stroke: #8292a2; stroke-width: 2.5; stroke-linecap: round }
  .dot.us { fill: #0f766e } .span.us { stroke: #0f766e }
  .dot.floor { fill: #ffffff; stroke: #8292a2; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .paper { fill: #0d1117 } .lane { fill: #161c24 } .grid { stroke: #333c47 }
    .soft, .tick, .hint, .ratio { fill: #9aa7b4 }
    .ours { fill: #5eead4 }
    .dot { fill: #7d8b99 } .span { stroke: #7d8b99 }
    .dot.us { fill: #2dd4bf } .span.us { stroke: #2dd4bf }
    .dot.floor { fill: #0d1117; stroke: #7d8b99 }
  }
"""


class Question(NamedTuple):
    """One part of the picture: the panel and column of its figures, and its texts."""

    key: str
    column: str
    asks: str
    hint: str
    unit: str
    ratio: str


class Picture(NamedTuple):
    """The picture of an arena: its title, the legend of floors (bare requests), its questions."""

    title: str
    floor: str
    questions: tuple[Question, ...]


_PAIR = Question(
    "uncontended", "pair", "Time of an acquire and a release, without contention", "less is better",
    "µs", "\u00d7 the time of {}",
)  # fmt: skip
_HANDOFF = Question(
    "handoff-idle", "p50", "Hand-off: from the release until the waiting process holds",
    "median, less is better", "µs", "\u00d7 the time of {}",
)  # fmt: skip
_CHANGES = Question(
    "contention-8", "changes", "8 processes contend for one name: changes of holder per second",
    "more is better", "/s", "\u00d7 those of {}",
)  # fmt: skip
_TASKS = Question(
    "tasks-1000", "rate", "1,000 tasks in one process, each with its own name: locks per second",
    "more is better", "/s", "\u00d7 those of {}",
)  # fmt: skip

#: The line below the questions.
_KEY = "Scales are logarithmic; the line through a dot spans the quartiles of the rounds."
#: Labels of rows without a lock contain one of these.
_FLOORS = ("bare", "INSERT", "NOTIFY", "create and delete")

PICTURES = {
    "embedded": Picture(
        "What a lock costs without a server",
        "the bare system call: no order, no lease, no time-out, no fence",
        (_PAIR, _HANDOFF, _CHANGES),
    ),
    "redis": Picture(
        "What a lock costs on Redis",
        "bare commands: no order, no renewal, no time-out, no fence",
        (_PAIR, _HANDOFF, _CHANGES, _TASKS),
    ),
    "zookeeper": Picture(
        "What a lock costs on ZooKeeper",
        "bare nodes: no order, no fence, no report of a loss",
        (_PAIR, _HANDOFF, _CHANGES),
    ),
    "postgres": Picture(
        "What a lock costs on PostgreSQL",
        "bare statements: no order, no lease, no time-out, no fence",
        (_PAIR, _HANDOFF, _CHANGES),
    ),
    "mysql": Picture(
        "What a lock costs on MariaDB",
        "bare statements: no order, no lease, no time-out, no fence",
        (_PAIR, _CHANGES),
    ),
}


def svg(arena: str, results: Mapping[str, Result], about: Mapping[str, Any]) -> str:
    """Return the picture of these figures; a question without a measured panel is left out."""
    shows = PICTURES[arena]
    parts = [(one, results[one.key]) for one in shows.questions if one.key in results]
    tops, height = [], float(_TOP)
    for question, result in parts:
        tops.append(height)
        height += _HEAD + _LANE * len(_rows(question, result)) + _AXIS + _GAP
    height += 38
    kinds = {_kind(row.label) for one in parts for row, _ in _rows(*one)}
    lines = [*_legend(82, shows.floor, kinds)]
    for (question, result), top in zip(parts, tops, strict=True):
        lines += _drawn(question, result, top)
    versions = ", ".join(f"{name} {one}" for name, one in about["versions"].items())
    for text, below in ((_KEY, 34), (versions, 16)):
        lines.append(f'<text class="soft" x="24" y="{height - below:.0f}">{escape(text)}</text>')
    return framed(shows.title, str(about["machine"]), height, lines)


def framed(title: str, facts: str, height: float, lines: Iterable[str], style: str = "") -> str:
    """Return a whole picture: a title, a line of facts, and below them these lines of SVG."""
    whole = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"',
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-labelledby="title facts">',
        f"<style>{STYLE}{style}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:.0f}" rx="10"/>',
        f'<text id="title" class="title" x="24" y="40">{title}</text>',
        f'<text id="facts" class="soft" x="24" y="64">{escape(facts)}</text>',
    ]
    return "\n".join([*whole, *lines, "</svg>", ""])


def _kind(label: str) -> str:
    """Return the class of a dot in the style sheet."""
    if label.startswith("holdfast"):
        return "us"
    return "floor" if any(one in label for one in _FLOORS) else ""


def _legend(y: float, floor: str, kinds: Container[str]) -> Iterator[str]:
    x = 30.0
    for kind, words in (
        ("us", "holdfast"),
        ("", "others"),
        ("floor", floor),
    ):
        if kind not in kinds:
            continue
        yield f'<circle class="dot {kind}" cx="{x:.0f}" cy="{y}" r="5"/>'
        yield f'<text class="soft" x="{x + 10:.0f}" y="{y + 4.5}">{words}</text>'
        x += 30 + 7 * len(words)


def _rows(question: Question, result: Result) -> list[tuple[Row, Figure]]:
    """Return the rows with a figure above 0, the best one first."""
    found = [
        (row, row.figures[question.column]) for row in result.rows if question.column in row.figures
    ]
    found = [(row, figure) for row, figure in found if figure.value > 0]
    return sorted(found, key=lambda one: one[1].value, reverse=question.hint.startswith("more"))


def _drawn(question: Question, result: Result, top: float) -> Iterator[str]:
    rows = _rows(question, result)
    low, high = _decades([figure for _, figure in rows])
    lanes, bottom = top + _HEAD, top + _HEAD + _LANE * len(rows)
    yield (
        f'<text class="asks" x="24" y="{top + 20:.0f}">{escape(question.asks)}'
        f'<tspan class="hint" dx="10">{question.hint}; {escape(result.regime)}</tspan></text>'
    )
    for at in range(len(rows)):
        y = lanes + _LANE * at + 1
        width = _RIGHT - _LEFT
        yield f'<rect class="lane" x="{_LEFT}" y="{y:.1f}" width="{width}" height="{_LANE - 2}"/>'
    for power in range(low, high + 1):
        x = _x(10.0**power, low, high)
        yield f'<path class="grid" d="M{x:.1f} {lanes:.0f}V{bottom + 4:.0f}"/>'
        tick = _tick(power, question.unit)
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 18:.0f}">{tick}</text>'
    for at, (row, figure) in enumerate(rows):
        yield from _lane(question, result, row, figure, lanes + _LANE * (at + 0.5), (low, high))


def _lane(
    question: Question, result: Result, row: Row, figure: Figure, y: float, ends: tuple[int, int]
) -> Iterator[str]:
    """Yield the row of a contender: its name, its dot, its figure, its ratio."""
    kind = _kind(row.label)
    ours = " ours" if kind == "us" else ""
    base = y + 4.5
    name = escape(_plain(row.label))
    yield f'<text class="name{ours}" x="{_LEFT - 12}" y="{base:.1f}">{name}</text>'
    x, low, high = (_x(v, *ends) for v in (figure.value, figure.rounds.low, figure.rounds.high))
    tip = (
        f"{row.label}: {number(figure.value)} {question.unit}, quartiles of the rounds "
        f"{number(figure.rounds.low)} to {number(figure.rounds.high)}"
    )
    yield f"<g><title>{escape(tip)}</title>"
    yield f'<path class="span {kind}" d="M{low:.1f} {y}H{high:.1f}"/>'
    yield f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y}" r="5.5"/></g>'
    edge = max(x, high) + 11
    text = _told(figure.value, question.unit)
    yield f'<text class="figure{ours}" x="{edge:.1f}" y="{base:.1f}">{text}</text>'
    ratio = _ratio(question, result, row, figure)
    yield f'<text class="ratio{ours}" x="{_RIGHT - 10}" y="{base:.1f}">{ratio}</text>'


def _ratio(question: Question, result: Result, row: Row, figure: Figure) -> str:
    """Return the comparison with the reference, in words."""
    if row.label == result.reference:
        return "the reference"
    if figure.compared is None or not figure.compared.median:
        return ""
    return f"{_short(figure.compared.median)} {question.ratio.format(_who(result.reference))}"


def _who(label: str) -> str:
    """Return the first word of a label.

    >>> _who("filelock FileLock"), _who("PUBLISH, bare")
    ('filelock', 'PUBLISH')
    """
    return label.split(maxsplit=1)[0].rstrip(",")


def _short(value: float) -> str:
    """Return a number with two significant digits.

    >>> _short(0.3123), _short(67.2), _short(1.04), _short(0.0171)
    ('0.31', '67', '1.0', '0.017')
    """
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _told(value: float, unit: str) -> str:
    """Return a figure with its unit.

    >>> _told(20.8, "µs"), _told(32700.0, "µs"), _told(1052.0, "/s")
    ('20.8 µs', '32.7 ms', '1,050/s')
    """
    if unit == "/s":
        return f"{number(value)}/s"
    return f"{number(value / 1e3)} ms" if value >= 1e3 else f"{number(value)} µs"


def _plain(label: str) -> str:
    return label.replace("`", "")


def _decades(figures: Sequence[Figure]) -> tuple[int, int]:
    """Return the powers of ten below and above all figures and their quartiles."""
    least = min(min(figure.value, figure.rounds.low) for figure in figures)
    most = max(max(figure.value, figure.rounds.high) for figure in figures)
    low = math.floor(math.log10(least))
    return low, max(low + 1, math.ceil(math.log10(most)))


def _x(value: float, low: int, high: int) -> float:
    """Return the horizontal position of a value on the scale, in pixels."""
    room = _SCALE_END - _FIGURE - _LEFT - 24
    part = (math.log10(max(value, 10.0**low)) - low) / (high - low)
    return _LEFT + 12 + part * room


def _tick(power: int, unit: str) -> str:
    """Return a power of ten with its unit, as text.

    >>> _tick(1, "µs"), _tick(3, "µs"), _tick(6, "µs"), _tick(3, "/s")
    ('10 µs', '1 ms', '1 s', '1,000/s')
    """
    if unit == "/s":
        return f"{10**power:,}/s" if power >= 0 else f"{10.0**power:g}/s"
    for step, name in ((6, "s"), (3, "ms"), (0, "µs")):
        if power >= step:
            return f"{10 ** (power - step)} {name}"
    return f"{10.0**power:g} µs"
