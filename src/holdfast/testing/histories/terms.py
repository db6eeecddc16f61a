"""The input and the findings of the rules of every product."""

from __future__ import annotations

from typing import NamedTuple

from .locks import Claim

#: `acquire(timeout=T)` must be back within T and this many seconds...
GRACE_S = 0.25
#: ...except for this share of them, because the machine may have been busy with something else.
LATE_PART = 0.001


class Terms(NamedTuple):
    """What the rules allow; see ``judge``."""

    grace: float
    late_part: float
    interval: float
    interval_from: str


class Violation(NamedTuple):
    """A broken promise: its name; the lock, thing, group or key; when, and in words.

    ``claims``: the claims of locks that it is about.
    """

    promise: str
    name: str
    when: float
    text: str
    claims: tuple[Claim, ...] = ()
