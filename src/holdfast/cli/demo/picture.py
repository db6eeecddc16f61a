"""The timeline of hand-offs as an SVG picture: one file, light and dark, readable without us.

Positions are the measured times and nothing else. Each bar tells its times and its fence when
the pointer rests on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from .history import Event, Scene, Span, State, What
from .palette import PATTERNS, STYLE
from .timeline import steps
from .voice import ms

WIDTH = 960
_LEFT, _RIGHT, _GAP = 52, 24, 28
_TOP, _HEAD, _LANE, _AXIS = 118, 26, 22, 36
#: How thick a bar is, and its class in the style sheet.
_BARS = {
    State.WAITS: (4, "waits"),
    State.HOLDS: (16, "holds"),
    State.FROZEN: (16, "frozen"),
    State.STALE: (16, "stale"),
}
#: Pixels that a digit of a fence takes on a bar, and a letter of a note.
_DIGIT, _LETTER = 6.5, 6.4


class Panel(NamedTuple):
    """Where a scene is drawn: its left edge, its top, its width, pixels per second."""

    scene: Scene
    left: float
    top: float
    width: float
    scale: float

    def x(self, at: float) -> float:
        """The place of a moment."""
        return self.left + (at - self.scene.start) * self.scale


def svg(scenes: Sequence[Scene], names: Sequence[str], facts: Sequence[str]) -> str:
    """The picture of these scenes; ``facts`` are measured figures for its second line."""
    band = _HEAD + len(names) * _LANE + _AXIS
    bands = [list(scenes[:1]), list(scenes[1:])]
    height = _TOP + band * sum(map(bool, bands))
    digits = _digits([span.fence for scene in scenes for span in scene.holds()])
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title facts">'
        ),
        f"<style>{STYLE}</style>{PATTERNS}",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="10"/>',
        (
            f'<text id="title" class="title" x="24" y="40">{len(names)} processes, one lock: '
            "who held it, who waited</text>"
        ),
        f'<text id="facts" class="soft" x="24" y="63">Measured: {escape(", ".join(facts))}</text>',
        *_legend(digits),
    ]
    for row, group in enumerate(bands):
        top = _TOP + row * band
        for panel in _panels(group, top):
            lines += _drawn(panel, names, digits, first=panel.left == _LEFT)
    return "\n".join([*lines, "</svg>", ""])


def _panels(group: Sequence[Scene], top: float) -> Iterator[Panel]:
    """Scenes side by side, all with the same length of a second."""
    room = WIDTH - _LEFT - _RIGHT - _GAP * (len(group) - 1)
    seconds = sum(scene.end - scene.start for scene in group) or 1.0
    left = float(_LEFT)
    for scene in group:
        width = (scene.end - scene.start) / seconds * room
        yield Panel(scene, left, top, width, room / seconds)
        left += width + _GAP


def _drawn(panel: Panel, names: Sequence[str], digits: int, first: bool) -> Iterator[str]:
    scene, left, width = panel.scene, panel.left, panel.width
    lanes = {name: panel.top + _HEAD + at * _LANE for at, name in enumerate(names)}
    bottom = panel.top + _HEAD + len(names) * _LANE
    yield f'<text class="scene" x="{left:.0f}" y="{panel.top + 15}">{escape(scene.title)}</text>'
    for name, top in lanes.items():
        yield f'<rect class="lane" x="{left:.1f}" y="{top + 1}" width="{width:.1f}" height="20"/>'
        if first:
            middle = top + _LANE / 2 + 4.5
            yield f'<text class="name" x="{left - 10:.0f}" y="{middle}">{escape(name)}</text>'
    for at in steps(scene.end - scene.start, max(2, int(width / 90))):
        x = panel.x(scene.start + at)
        yield f'<path class="grid" d="M{x:.1f} {panel.top + _HEAD}V{bottom + 4}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 17}">{at:g} s</text>'
    yield from _batons(panel, lanes)
    for span in sorted(scene.spans, key=lambda span: _BARS[span.state][0]):
        yield from _bar(panel, span, lanes[span.worker], digits)
    for mark in scene.marks:
        yield from _mark(panel, mark, lanes[mark.worker])


def _bar(panel: Panel, span: Span, top: float, digits: int) -> Iterator[str]:
    thick, kind = _BARS[span.state]
    x, width = panel.x(span.start), (span.end - span.start) * panel.scale
    start, end = span.start - panel.scene.start, span.end - panel.scene.start
    tip = f"{span.worker} {span.state.value}: {start:.4f} s to {end:.4f} s, fence {span.fence}"
    radius = min(2.0, width / 2)
    yield (
        f'<rect class="{kind}" x="{x:.2f}" y="{top + (_LANE - thick) / 2:g}" width="{width:.2f}" '
        f'height="{thick}" rx="{radius:.1f}"><title>{escape(tip)}</title></rect>'
    )
    middle, base = x + width / 2, top + _LANE / 2 + 3.5
    if span.state is State.HOLDS and width > digits * _DIGIT + 3:
        end_of = str(span.fence)[-digits:]
        yield f'<text class="fence" x="{middle:.1f}" y="{base}">{end_of}</text>'
    if span.state is State.FROZEN and width > 90:
        half = 8 * _LETTER
        yield (
            f'<rect class="plate" x="{middle - half:.1f}" y="{top + 4}" '
            f'width="{2 * half:.1f}" height="14" rx="7"/>'
            f'<text class="ice-note" x="{middle:.1f}" y="{base}">SIGSTOP, frozen</text>'
        )


def _batons(panel: Panel, lanes: dict[str, float]) -> Iterator[str]:
    """The way of the lock: from the end of each hold to the start of the next."""
    holds = panel.scene.holds()
    for before, after in itertools.pairwise(holds):
        yield (
            f'<path class="baton" d="M{panel.x(before.end):.2f} {lanes[before.worker] + 11}'
            f'L{panel.x(after.start):.2f} {lanes[after.worker] + 11}"/>'
        )


def _mark(panel: Panel, mark: Event, top: float) -> Iterator[str]:
    x, y = panel.x(mark.at), top + _LANE / 2
    if mark.what is What.KILLED:
        later = [hold.start for hold in panel.scene.holds() if hold.start >= mark.at]
        note = "kill -9" + (f", next holds {ms(later[0] - mark.at)} later" if later else "")
        yield from _noted(_cross(x, y), note, x, top)
    elif mark.what is What.REJECTED:
        yield from _noted(_no_entry(x, y), "late write refused", x, top)


def _noted(sign: str, note: str, x: float, top: float) -> Iterator[str]:
    """A sign with words on the side where there is room."""
    yield sign
    fits = x + 12 + len(note) * _LETTER < WIDTH - _RIGHT
    place = f'x="{x + 12:.1f}"' if fits else f'x="{x - 12:.1f}" text-anchor="end"'
    yield f'<text class="note" {place} y="{top + 8.5}">{escape(note)}</text>'


def _cross(x: float, y: float) -> str:
    path = f"M{x - 5:.1f} {y - 5}l10 10m0 -10l-10 10"
    return f'<path class="halo" d="{path}"/><path class="blow" d="{path}"/>'


def _no_entry(x: float, y: float) -> str:
    return (
        f'<circle class="plug" cx="{x:.1f}" cy="{y}" r="8.5"/>'
        f'<circle class="blow" cx="{x:.1f}" cy="{y}" r="6.5"/>'
        f'<path class="blow" d="M{x - 4.5:.1f} {y + 4.5}l9 -9"/>'
    )


def _legend(digits: int) -> Iterator[str]:
    """What the bars and signs mean, in one row."""
    y, x = 90, 24.0
    words = {State.HOLDS: f"holds (the last {digits} digits of its fence)"}
    for state in (State.HOLDS, State.WAITS, State.FROZEN, State.STALE):
        thick, kind = _BARS[state]
        text = words.get(state, state.value)
        top = y - thick / 2
        yield (f'<rect class="{kind}" x="{x:.0f}" y="{top:g}" width="26" height="{thick}" rx="2"/>')
        yield f'<text x="{x + 32:.0f}" y="{y + 4}">{escape(text)}</text>'
        x += 32 + len(text) * _LETTER + 18
    yield _cross(x + 6, y) + f'<text x="{x + 18:.0f}" y="{y + 4}">killed</text>'
    yield _no_entry(x + 72, y) + f'<text x="{x + 86:.0f}" y="{y + 4}">refused</text>'


def _digits(fences: Sequence[int]) -> int:
    """How many digits at the end of these fences tell them apart; at least two."""
    digits = 2
    while len({fence % 10**digits for fence in fences}) < len(set(fences)):
        digits += 1
    return digits
