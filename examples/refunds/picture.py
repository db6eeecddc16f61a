"""Draws a run as a timeline in the terminal: a row for each merchant, time from left to right."""

from __future__ import annotations

import math

from .play import Seen

_LEFT = 13
LEGEND = "1-9 the bank pays, asked by this worker   . accepted, waits for its turn   X killed"


def draw(seen: Seen, width: int = 100) -> str:
    """Return the timeline as text; ``width``: maximum columns."""
    start = min(one.sent for one in seen.asked)
    moments = [one.answered for one in seen.asked] + [call["ended"] for call in seen.calls]
    end = max(moments + [strike.when for strike in seen.strikes]) + 0.01
    cells = max(20, width - _LEFT)
    scale = cells / (end - start)
    merchants = sorted({call["merchant"] for call in seen.calls})
    rows = {merchant: [" "] * cells for merchant in merchants}

    def span(begin: float, until: float) -> range:
        first = min(cells - 1, max(0, int((begin - start) * scale)))
        return range(first, min(cells, max(first + 1, math.ceil((until - start) * scale))))

    paid = {call["id"]: call["begun"] for call in seen.calls}
    for one in seen.asked:
        if one.accepted and (begun := paid.get(one.refund.id)):
            for at in span(one.sent, begun):
                rows[one.refund.merchant][at] = "."
    for call in seen.calls:
        for at in span(call["begun"], call["ended"]):
            rows[call["merchant"]][at] = call["worker"][-1]
    lines = [f"{name:<{_LEFT}}{''.join(row)}".rstrip() for name, row in rows.items()]
    for who in sorted({strike.who for strike in seen.strikes}):
        row = [" "] * cells
        for strike in seen.strikes:
            if strike.who == who:
                row[span(strike.when, strike.when)[0]] = "X"
        lines.append(f"{who:<{_LEFT}}{''.join(row)}".rstrip())
    return "\n".join([*lines, _axis(end - start, cells), " " * _LEFT + LEGEND])


def _axis(seconds: float, cells: int) -> str:
    """Return a line with marks at whole seconds, as many as fit."""
    line = [" "] * (cells + 6)
    step = max(1, math.ceil(seconds / (cells / 8)))
    for second in range(0, int(seconds) + 1, step):
        at = int(second / seconds * cells)
        line[at : at + len(f"|{second} s")] = f"|{second} s"
    return " " * _LEFT + "".join(line).rstrip()
