"""The colours and fonts of the picture, for light and for dark surroundings."""

from __future__ import annotations

STYLE = """
  text { font: 12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue",
         "DejaVu Sans", sans-serif; fill: #1f2933 }
  .paper { fill: #ffffff } .lane { fill: #f3f5f8 } .grid { stroke: #dbe1e8 }
  .title { font-size: 20px; font-weight: 650 }
  .scene { font-size: 14px; font-weight: 600 }
  .soft { fill: #5b6774; font-size: 13px }
  .name { font-size: 12px; font-weight: 600; text-anchor: end }
  .tick { fill: #5b6774; font-size: 11px; text-anchor: middle }
  .holds { fill: #0f766e } .waits { fill: #b4c1cd } .frozen { fill: url(#ice) }
  .stale { fill: url(#gone) }
  .baton { stroke: #0f766e; stroke-opacity: .5; fill: none }
  .fence { font-size: 10px; fill: #ffffff; text-anchor: middle }
  .ice { fill: #fdc163 } .ice-line { stroke: #e8932c } .gone { fill: #f1ece2 }
  .gone-line { stroke: #cdbf9f }
  .plate { fill: #ffffff; fill-opacity: .92 }
  .ice-note { font-size: 11px; fill: #8a4b08; text-anchor: middle }
  .blow { stroke: #cf222e; stroke-width: 2.6; stroke-linecap: round; fill: none }
  .halo { stroke: #ffffff; stroke-width: 6; stroke-linecap: round; fill: none }
  .plug { fill: #ffffff }
  .note { font-size: 10.5px; font-weight: 600; fill: #b31d28 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .paper { fill: #0d1117 } .lane { fill: #161c24 } .grid { stroke: #2b333d }
    .soft, .tick { fill: #9aa7b4 }
    .holds { fill: #2dd4bf } .waits { fill: #495766 }
    .baton { stroke: #2dd4bf } .fence { fill: #04211d }
    .ice { fill: #b7791f } .ice-line { stroke: #e0a544 } .gone { fill: #2a2720 }
    .gone-line { stroke: #6b5d42 }
    .plate { fill: #0d1117; fill-opacity: .85 } .ice-note { fill: #f7c873 }
    .blow { stroke: #ff7b72 } .halo { stroke: #0d1117 } .plug { fill: #0d1117 }
    .note { fill: #ff8f87 }
  }
"""
#: Hatchings: a frozen worker whose lease still runs, and one whose lease is over.
PATTERNS = """<defs>
  <pattern id="ice" width="8" height="8" patternUnits="userSpaceOnUse"
    patternTransform="rotate(45)"><rect class="ice" width="8" height="8"/>
    <path class="ice-line" d="M0 0V8" stroke-width="5"/></pattern>
  <pattern id="gone" width="8" height="8" patternUnits="userSpaceOnUse"
    patternTransform="rotate(45)"><rect class="gone" width="8" height="8"/>
    <path class="gone-line" d="M0 0V8" stroke-width="4"/></pattern>
</defs>"""
