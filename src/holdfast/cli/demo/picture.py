"""The timeline of hand-offs as an SVG picture: one file, light and dark, readable without us.

Positions are the measured times and nothing else. Each bar tells its times and its fence when
the pointer rests on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from .history import Event, Scene, Span, State, What, workers
from .timeline import steps

WIDTH = 960
_LEFT, _RIGHT = 56, 24
_ROW, _HEAD, _AXIS, _TOP, _FOOT = 24, 34, 34, 104, 20
_THICK = {State.WAITS: 4, State.HOLDS: 16, State.FROZEN: 16, State.STALE: 16}
_CLASS = {State.WAITS: "waits", State.HOLDS: "holds", State.FROZEN: "frozen", State.STALE: "stale"}
#: A fence is written on a bar that is at least this wide.
_LABEL_MIN = 19

_STYLE = """
  text { font: 12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
         fill: #1f2933 }
  .paper { fill: #ffffff } .lane { fill: #f5f7fa }
  .title { font-size: 20px; font-weight: 650 } .scene { font-size: 14px; font-weight: 600 }
  .soft { fill: #5b6774 } .name { font-size: 13px; font-weight: 600 }
  .grid { stroke: #dde3ea } .baton { stroke: #0f766e; stroke-opacity: .45 }
  .holds { fill: #0f766e } .waits { fill: #b3c2cf }
  .frozen { fill: url(#ice) } .stale { fill: url(#gone) }
  .ice { fill: #fdba4d } .ice-line { stroke: #b45309 } .gone { fill: #f3f0ea }
  .gone-line { stroke: #c9b89a }
  .fence { font-size: 10px; fill: #ffffff; text-anchor: middle }
  .blow { stroke: #cf222e; stroke-width: 3; stroke-linecap: round; fill: none }
  .halo { stroke: #ffffff; stroke-width: 7; stroke-linecap: round; fill: none }
  .note { fill: #cf222e; font-weight: 600 } .calm { fill: #92510b; font-weight: 600 }
  .plate { fill: #ffffff; fill-opacity: .86 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .paper { fill: #0d1117 } .lane { fill: #151b23 }
    .soft { fill: #9aa7b4 } .grid { stroke: #2d3540 }
    .holds { fill: #2dd4bf } .waits { fill: #465462 } .fence { fill: #06231f }
    .baton { stroke: #2dd4bf; stroke-opacity: .4 }
    .ice { fill: #b7791f } .ice-line { stroke: #fcd58a } .gone { fill: #23211c }
    .gone-line { stroke: #6b5d42 }
    .blow { stroke: #ff7b72 } .halo { stroke: #0d1117 }
    .note { fill: #ff7b72 } .calm { fill: #f0b65c } .plate { fill: #0d1117 }
  }
"""
_PATTERNS = """
  <defs>
    <pattern id="ice" width="8" height="8" patternUnits="userSpaceOnUse"
             patternTransform="rotate(45)"><rect class="ice" width="8" height="8"/>
      <path class="ice-line" d="M0 0V8" stroke-width="4" stroke-opacity=".55"/></pattern>
    <pattern id="gone" width="8" height="8" patternUnits="userSpaceOnUse"
             patternTransform="rotate(45)"><rect class="gone" width="8" height="8"/>
      <path class="gone-line" d="M0 0V8" stroke-width="3"/></pattern>
  </defs>"""


def svg(scenes: Sequence[Scene], facts: str) -> str:
    """The picture; ``facts`` is what was measured, in one line."""
    names = workers(e for s in scenes for e in (*s.spans, *s.marks))  # type: ignore[misc]
    return names and facts
