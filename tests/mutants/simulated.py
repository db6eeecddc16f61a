"""Bugs that the simulator must catch, each with the invariants that may report it and its edits.

Real lock libraries contain such mistakes, or one changed word in holdfast would make one.
"""

from __future__ import annotations

from .afterwards import AFTERWARDS
from .holding import HOLDING
from .joining import JOINING
from .together import AT_ONCE

MUTANTS = [*JOINING, *HOLDING, *AT_ONCE, *AFTERWARDS]
