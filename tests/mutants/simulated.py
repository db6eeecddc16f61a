"""Bugs that the simulator must catch: name, the invariants that may report it, the edits.

Each is a mistake that somebody has made in a real lock library, or that is one word away here.
"""

from __future__ import annotations

from .afterwards import AFTERWARDS
from .holding import HOLDING
from .joining import JOINING
from .together import AT_ONCE

MUTANTS = [*JOINING, *HOLDING, *AT_ONCE, *AFTERWARDS]
