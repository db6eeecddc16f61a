"""The fate of single messages: the next one of a verb, or the n-th of a process.

A fate strikes one request and its reply, so that two failures can follow each other at every verb:
by chance in the histories of a seed, and each by each where there are finitely many.
"""

from __future__ import annotations

import enum
import random
from typing import NamedTuple


class Fate(enum.StrEnum):
    """What becomes of one request."""

    #: It does not arrive.
    UNSENT = "unsent"
    #: It is carried out, and nobody learns of it.
    LOST = "lost"
    #: It is carried out only when nobody waits for the reply any more.
    LATE = "late"
    #: It is carried out, nobody learns of it, and a copy of it comes a while later.
    DOUBLED = "doubled"
    #: The caller that waits for the reply is cancelled, or interrupted by Ctrl-C.
    CANCELLED = "cancelled"
    #: It is carried out, and then the server is gone for a while.
    DOWN = "down"
    #: It does not arrive, nor does anything else of this process for a while.
    CUT = "cut"


#: What may become of the first of two requests, and of the second.
FIRST = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.UNSENT)
SECOND = (Fate.LOST, Fate.LATE, Fate.DOUBLED, Fate.CANCELLED, Fate.DOWN, Fate.CUT)
#: A doubled request comes again after one of these, in seconds.
AGAIN_S = (0.003, 0.2, 1.1, 2.3)
#: Seconds after its time-out at which a late request arrives.
TOO_LATE_S = (0.01, 0.5, 1.6)
#: Seconds for which a server is down, or a process is cut off.
DOWN_S = (0.3, 1.2, 2.5)
CUT_S = (0.4, 1.8, 2.6)


class Aim(NamedTuple):
    """The fate of the next request of this verb, or of any if it is empty; or, with ``number``, of
    the request of a process that has it, counted from 0."""

    verb: str
    fate: Fate
    number: int = -1

    def hits(self, verb: str, number: int) -> bool:
        """Does it strike this request?"""
        if self.number >= 0:
            return number == self.number
        return not self.verb or verb == self.verb


def pair(rng: random.Random, verbs: tuple[str, ...]) -> list[Aim]:
    """Two failures that follow each other, at verbs of chance."""
    return [
        Aim(rng.choice(verbs), rng.choice(FIRST)),
        Aim(rng.choice((*verbs, "")), rng.choice(SECOND)),
    ]
