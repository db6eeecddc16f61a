"""An examination of a server: each part in words, and what to do about it.

It asks over connections of its own and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, Level
from ...config import Settings
from . import keeping, reach, rights
from .visit import Visit


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at every part, in the order in which they are needed."""
    with Visit(settings) as visit:
        usable = True
        for part in (reach.examine, rights.examine, keeping.examine):
            for finding in part(visit):
                yield finding
                usable = usable and finding.level is not Level.FAIL
            if not usable:
                return  # the rest would only repeat it in other words
