"""The timeline of hand-offs in the terminal: a row for each worker, time from left to right.

A block shows two moments, its left and its right half, and each shows what is true at its middle.
So never more than one worker is drawn as holding at a moment, unless that was so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .history import Scene, Span, State, What
from .voice import Style

#: What a state looks like: in blocks, in ASCII, its colour (SGR).
_LOOKS = {
    State.HOLDS: ("\u2588", "#", "36"),
    State.WAITS: ("\u2591", ".", "2"),
    State.FROZEN: ("\u2592", "=", "33"),
    State.STALE: ("\u254c", "~", "33"),
}
_MARKS = {
    What.KILLED: ("\u2717", "X", "1;31"),
    What.REJECTED: ("!", "!", "1;31"),
}
_WORDS = {What.KILLED: "killed", What.REJECTED: "write refused"}
_HALVES = ("\u258c", "\u2590")
_LEFT = 4
_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def draw(scene: Scene, names: list[str], style: Style) -> list[str]:
    """The scene as lines of text, none wider than the terminal."""
    cells = style.width - _LEFT - 1
    return [
        *(f"{name:<{_LEFT}}" + _row(scene, name, cells, style) for name in names),
        " " * _LEFT + style.paint(_axis(scene.end - scene.start, cells), "2"),
    ]


def legend(style: Style) -> str:
    """What the signs mean."""
    pick = 0 if style.unicode else 1
    states = [(look, state.value) for state, look in _LOOKS.items()]
    marks = [(look, _WORDS[what]) for what, look in _MARKS.items()]
    return "  ".join(f"{look[pick]} {word}" for look, word in states + marks)


def steps(seconds: float, room: int) -> list[float]:
    """Where the axis is labelled: round numbers of seconds, at most ``room`` of them."""
    step = next((s for s in _STEPS_S if seconds / s <= room), _STEPS_S[-1])
    return [n * step for n in range(int(seconds / step) + 1)]


def _row(scene: Scene, name: str, cells: int, style: Style) -> str:
    fine = 2 if style.unicode else 1
    states = _sampled(scene, name, cells * fine)
    signs = [_sign(states[at * fine : (at + 1) * fine], style) for at in range(cells)]
    length = (scene.end - scene.start) or 1.0
    for mark in scene.marks:
        if mark.worker == name and mark.what in _MARKS:
            at = min(cells - 1, int((mark.at - scene.start) / length * cells))
            blocks, plain, sgr = _MARKS[mark.what]
            signs[at] = (blocks if style.unicode else plain, sgr)
    return "".join(_painted(signs, style))


def _sampled(scene: Scene, name: str, count: int) -> list[State | None]:
    """The worker's state at the middle of each of so many moments."""
    length = (scene.end - scene.start) or 1.0
    states: list[State | None] = [None] * count

    def place(at: float) -> float:
        return (at - scene.start) / length * count

    for span in sorted((s for s in scene.spans if s.worker == name), key=_rank):
        first, last = (math.ceil(place(at) - 0.5) for at in (span.start, span.end))
        if first == last and span.state is State.HOLDS:  # too short for this scale: seen anyway
            first = min(count - 1, int(place((span.start + span.end) / 2)))
            last = first + 1
        states[first:last] = [span.state] * (last - first)
    return states


def _rank(span: Span) -> bool:
    """Holding is drawn last, over what else falls into the same moment."""
    return span.state is State.HOLDS


def _sign(states: list[State | None], style: Style) -> tuple[str, str]:
    """The character for the moments of one cell, and its colour."""
    if State.HOLDS in states and len(set(states)) > 1:
        return _HALVES[states.index(State.HOLDS)], _LOOKS[State.HOLDS][2]
    state = next((s for s in states if s is not None), None)
    if state is None:
        return " ", ""
    blocks, plain, sgr = _LOOKS[state]
    return (blocks if style.unicode else plain), sgr


def _painted(signs: list[tuple[str, str]], style: Style) -> Iterator[str]:
    """Runs of one colour, so that the line isn't mostly escape sequences."""
    run, colour = "", ""
    for sign, sgr in [*signs, ("", "end")]:
        if sgr != colour:
            yield style.paint(run, colour)
            run, colour = "", sgr
        run += sign


def _axis(seconds: float, cells: int) -> str:
    line = [" "] * cells
    for at in steps(seconds, max(2, cells // 11)):
        text = f"|{at:g} s"
        start = int(at / seconds * cells) if seconds else 0
        if start + len(text) <= cells:
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
