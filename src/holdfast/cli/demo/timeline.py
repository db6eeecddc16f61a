"""The timeline of hand-offs in the terminal: a row for each worker, time from left to right.

Each character is an interval of time, and shows the state in the middle of that interval.
So two workers appear as holders in one column only if both were holders at the same moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .history import MARKS, STATES, Scene, What
from .voice import Voice

_SIGNS = {
    What.HELD: "#", What.ASKED: ".", What.STOPPED: "=", What.EXPIRED: "~",
    What.KILLED: "x", What.REJECTED: "!",
}  # fmt: skip
_LEFT = 4


def draw(scene: Scene, names: list[str], voice: Voice) -> Iterator[str]:
    """Yield the scene as lines of text, none wider than the terminal."""
    cells = voice.width - _LEFT - 1
    per = (scene.end - scene.start) / cells
    for name in names:
        row = [" "] * cells
        for span in sorted(scene.spans, key=lambda s: s.state is What.HELD):
            if span.worker == name:
                ends = (span.start, span.end)
                first, last = (math.ceil((at - scene.start) / per - 0.5) for at in ends)
                if span.state is What.HELD and first == last:  # so that a short hold is visible
                    last += 1
                row[first:last] = _SIGNS[span.state] * (last - first)
        for mark in scene.marks:
            if mark.worker == name:
                row[min(cells - 1, int((mark.at - scene.start) / per))] = _SIGNS[mark.what]
        yield f"{name:<{_LEFT}}" + voice.signs("".join(row[:cells]))
    yield f"{'':{_LEFT}}{'|0 s':<{cells - 6}}{scene.end - scene.start:4.1f} s|"


def legend(voice: Voice) -> str:
    """Return the meaning of the signs."""
    words = {**STATES, **MARKS}
    return "  ".join(f"{voice.signs(sign)} {words[what]}" for what, sign in _SIGNS.items())
