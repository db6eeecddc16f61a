"""The parameters and the findings of the rules, for all products."""

from __future__ import annotations

from typing import NamedTuple

from .locks import Claim

#: Maximum seconds by which an acquire may exceed its time-out.
GRACE_S = 0.25
#: The share of the acquires that may be later than `GRACE_S`, because the machine was busy.
LATE_PART = 0.001


class Terms(NamedTuple):
    """The limits of the rules; see the parameters of ``judge``."""

    grace: float
    late_part: float
    interval: float
    interval_from: str


class Violation(NamedTuple):
    """A broken promise.

    ``name``: the lock, thing, group or key. ``text`` describes the violation, and ``claims`` are
    the claims of locks that broke the promise.
    """

    promise: str
    name: str
    when: float
    text: str
    claims: tuple[Claim, ...] = ()
