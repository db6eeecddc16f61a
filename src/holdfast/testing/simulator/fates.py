"""Fates: faults of single requests, of the next request of a verb or of the n-th of a process.

A fate affects one request and its reply. So two failures can follow each other at every verb: drawn
at random in the histories of a seed, or enumerated in short histories (``twice``).
"""

from __future__ import annotations

import enum
import random
from typing import NamedTuple


class Fate(enum.StrEnum):
    """A fault of one request."""

    #: The request does not arrive.
    UNSENT = "unsent"
    #: The request is carried out, and its reply is lost.
    LOST = "lost"
    #: The request is carried out only after the time-out of its caller.
    LATE = "late"
    #: The request is carried out, its reply is lost, and a copy of the request arrives a while
    #: later.
    DOUBLED = "doubled"
    #: The caller that waits for the reply is cancelled, or interrupted by Ctrl-C.
    CANCELLED = "cancelled"
    #: The request is carried out, and then the server is down for a while.
    DOWN = "down"
    #: The request does not arrive, and for a while no other request of its process arrives.
    CUT = "cut"


#: Possible fates of the first of two requests, and of the second.
FIRST = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.UNSENT)
SECOND = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.CANCELLED, Fate.DOWN, Fate.CUT)
#: Seconds after which the copy of a doubled request arrives; one of them is drawn.
AGAIN_S = (0.003, 0.2, 1.1, 2.3)
#: Seconds after its time-out at which a late request arrives.
TOO_LATE_S = (0.01, 0.5, 1.6)
#: Seconds for which a server is down, or a process is cut off.
DOWN_S = (0.3, 1.2, 2.5)
CUT_S = (0.4, 1.8, 2.6)


class Aim(NamedTuple):
    """A fate and the request that it affects.

    With ``number`` it affects the request with this number, counted from 0 in its process;
    otherwise the next request of ``verb``, or of any verb if ``verb`` is empty."""

    verb: str
    fate: Fate
    number: int = -1

    def hits(self, verb: str, number: int) -> bool:
        """Return True if this fate affects this request."""
        if self.number >= 0:
            return number == self.number
        return not self.verb or verb == self.verb


def pair(rng: random.Random, verbs: tuple[str, ...]) -> list[Aim]:
    """Draw two failures that follow each other, at random verbs."""
    return [
        Aim(rng.choice(verbs), rng.choice(FIRST)),
        Aim(rng.choice((*verbs, "")), rng.choice(SECOND)),
    ]
