"""The fate of single messages: the next message of a verb, or the n-th of a process.

A fate is a fault of one request and its reply, so that two failures can follow each other at every
verb: at random in the histories of a seed, or enumerated where their number is finite.
"""

from __future__ import annotations

import enum
import random
from typing import NamedTuple


class Fate(enum.StrEnum):
    """A fault of one request."""

    #: It does not arrive.
    UNSENT = "unsent"
    #: It is carried out, and its reply is lost.
    LOST = "lost"
    #: It is carried out only after the time-out of its caller.
    LATE = "late"
    #: It is carried out, its reply is lost, and a copy of it arrives a while later.
    DOUBLED = "doubled"
    #: The caller that waits for the reply is cancelled, or interrupted by Ctrl-C.
    CANCELLED = "cancelled"
    #: It is carried out, and then the server is down for a while.
    DOWN = "down"
    #: It does not arrive, and for a while no other request of this process arrives.
    CUT = "cut"


#: Possible fates of the first of two requests, and of the second.
FIRST = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.UNSENT)
SECOND = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.CANCELLED, Fate.DOWN, Fate.CUT)
#: The copy of a doubled request arrives after one of these times, in seconds.
AGAIN_S = (0.003, 0.2, 1.1, 2.3)
#: Seconds after its time-out at which a late request arrives.
TOO_LATE_S = (0.01, 0.5, 1.6)
#: Seconds for which a server is down, or a process is cut off.
DOWN_S = (0.3, 1.2, 2.5)
CUT_S = (0.4, 1.8, 2.6)


class Aim(NamedTuple):
    """The fate of the next request of this verb (of any verb, if it is empty); or, with ``number``,
    of the request of the process with this number, counted from 0."""

    verb: str
    fate: Fate
    number: int = -1

    def hits(self, verb: str, number: int) -> bool:
        """Is this fate for this request?"""
        if self.number >= 0:
            return number == self.number
        return not self.verb or verb == self.verb


def pair(rng: random.Random, verbs: tuple[str, ...]) -> list[Aim]:
    """Two failures that follow each other, at random verbs."""
    return [
        Aim(rng.choice(verbs), rng.choice(FIRST)),
        Aim(rng.choice((*verbs, "")), rng.choice(SECOND)),
    ]
