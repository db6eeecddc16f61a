"""The picture of the demo's hand-offs in README; ``python -m bench.handoffs`` makes it again.

The events of a demo are stored in ``bench/figures/demo.json``. The picture is drawn only from them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from xml.sax.saxutils import escape

from holdfast.cli.demo import stage
from holdfast.cli.demo.history import MARKS, STATES, Event, Scene, What, scenes, workers
from holdfast.cli.demo.voice import Voice, ms

from .page import figures, image
from .picture import WIDTH, framed

_LEFT, _RIGHT, _GAP = 52, 24, 28
_TOP, _HEAD, _LANE, _AXIS = 118, 26, 22, 36
#: A state -> the thickness of its bar, and the bar's class in the style sheet.
_BARS = {
    What.ASKED: (4, "dot"),
    What.HELD: (16, "dot us"),
    What.STOPPED: (16, "ice"),
    What.EXPIRED: (16, "ice over"),
}
_KEPT = (*STATES, *MARKS, What.LEAVING, What.CONTINUED, What.SCENE)
STYLE = """
  .ice { fill: #e8932c } .over { fill-opacity: .35 } .baton { stroke-width: 1; stroke-opacity: .5 }
  .blow { stroke: #cf222e; stroke-width: 2.6; stroke-linecap: round }
  .note { font-size: 10.5px; font-weight: 600; fill: #b31d28 }
  @media (prefers-color-scheme: dark) { .blow { stroke: #ff7b72 } .note { fill: #ff8f87 } }
"""


def main() -> int:
    """Run the demo, store its events, draw them; return 1 if a promise was broken, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        events, right = stage.tell(Voice(), Path(folder))
    if right:
        plain = [_plain(event, events[0].at) for event in events if event.what in _KEPT]
        figures("demo").write_text("[\n" + ",\n".join(plain) + "\n]\n", encoding="utf-8")
        image("demo-timeline").write_text(svg(read()), encoding="utf-8")
    return 0 if right else 1


def _plain(event: Event, begun: float) -> str:
    text = event.text if event.what is What.SCENE else ""
    return json.dumps([round(event.at - begun, 6), event.worker, event.what, event.fence, text])


def read() -> list[Event]:
    """Return the stored events."""
    plain = json.loads(figures("demo").read_text(encoding="utf-8"))
    return [Event(at, worker, What(what), *rest) for at, worker, what, *rest in plain]


def svg(events: Sequence[Event]) -> str:
    """Return the picture: the first scene, and below it the other scenes side by side."""
    parts, names = scenes(events), workers(events)
    band = _HEAD + _LANE * len(names) + _AXIS
    lines = [*_legend()]
    for row, group in enumerate((parts[:1], parts[1:])):
        room = WIDTH - _LEFT - _RIGHT - _GAP * (len(group) - 1)
        scale = room / sum(scene.end - scene.start for scene in group)
        left = float(_LEFT)
        for scene in group:
            lines += _panel(scene, names, left, _TOP + band * row, scale)
            left += (scene.end - scene.start) * scale + _GAP
    title = f"{len(names)} processes contend for one lock: its holder and its waiters over time"
    return framed(title, _facts(parts, events), _TOP + 2 * band, lines, STYLE)


def _facts(parts: Sequence[Scene], events: Sequence[Event]) -> str:
    starts = [hold.start for scene in parts for hold in scene.holds()]
    after = {e.what: min((s for s in starts if s >= e.at), default=e.at) - e.at for e in events}
    passed, killed, expired = median(parts[0].hand_offs()), after[What.KILLED], after[What.EXPIRED]
    return (
        f"Until the next process holds: {ms(passed)} after a release (median), {ms(killed)} after "
        f"kill -9, {ms(expired)} after the end of a lease"
    )


def _panel(
    scene: Scene, names: Sequence[str], left: float, top: float, scale: float
) -> Iterator[str]:
    """Yield the SVG of one scene; ``scale``: pixels per second."""
    length = scene.end - scene.start
    lanes = {name: top + _HEAD + at * _LANE for at, name in enumerate(names)}
    bottom = top + _HEAD + _LANE * len(names)
    yield f'<text class="asks" x="{left:.0f}" y="{top + 15}">{escape(scene.title)}</text>'

    def x(at: float) -> float:
        return left + (at - scene.start) * scale

    for name, y in lanes.items():
        width = length * scale
        yield f'<rect class="lane" x="{left:.1f}" y="{y + 1}" width="{width:.1f}" height="20"/>'
        if left == _LEFT:
            yield f'<text class="name" x="{left - 10:.0f}" y="{y + 15.5}">{escape(name)}</text>'
    step = 0.2 if length < 1 else 0.5
    for tick in range(int(length / step) + 1):
        at = left + tick * step * scale
        yield f'<path class="grid" d="M{at:.1f} {top + _HEAD}V{bottom + 4}"/>'
        yield f'<text class="tick" x="{at:.1f}" y="{bottom + 17}">{tick * step:g} s</text>'
    for before, after in pairwise(scene.holds()):
        ends = f"M{x(before.end):.2f} {lanes[before.worker] + 11}"
        ends += f"L{x(after.start):.2f} {lanes[after.worker] + 11}"
        yield f'<path class="span us baton" d="{ends}"/>'
    for span in sorted(scene.spans, key=lambda span: _BARS[span.state][0]):
        thick, kind = _BARS[span.state]
        start, end = span.start - scene.start, span.end - scene.start
        y, width = lanes[span.worker] + 11 - thick / 2, (end - start) * scale
        tip = (
            f"{span.worker} {STATES[span.state]}: {start:.4f} s to {end:.4f} s, fence {span.fence}"
        )
        yield (
            f'<rect class="{kind}" x="{x(span.start):.2f}" y="{y:g}" width="{width:.2f}" '
            f'height="{thick}"><title>{tip}</title></rect>'
        )
    for mark in scene.marks:
        yield from _mark(x(mark.at), lanes[mark.worker] + 11, MARKS[mark.what])


def _mark(x: float, y: float, note: str) -> Iterator[str]:
    yield f'<path class="blow" d="M{x - 5:.1f} {y - 5}l10 10m0 -10l-10 10"/>'
    yield f'<text class="note" x="{x + 10:.1f}" y="{y - 3}">{note}</text>'


def _legend() -> Iterator[str]:
    """Yield a row that shows the meaning of the bars."""
    y, x = 90, 24.0
    for state, (thick, kind) in _BARS.items():
        at = f'x="{x:.0f}" y="{y - thick / 2:g}"'
        yield f'<rect class="{kind}" {at} width="26" height="{thick}"/>'
        yield f'<text x="{x + 32:.0f}" y="{y + 4}">{STATES[state]}</text>'
        x += 50 + 6.4 * len(STATES[state])
    yield f'<path class="span us baton" d="M{x + 13:.0f} {y - 8}v16"/>'
    yield f'<text x="{x + 24:.0f}" y="{y + 4}">the next holder</text>'


if __name__ == "__main__":
    sys.exit(main())
