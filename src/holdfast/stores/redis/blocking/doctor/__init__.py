"""An examination of a server: each part in words, and what to do about it.

It asks over connections of its own, without passing through the port, so that it can still tell
what is wrong when the store can't be used. It changes nothing: what a user may do is found out by
commands in a form that has no effect, as ``DEL`` of a key that isn't there.
"""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, Level
from .....url import StoreURL
from ...config import Settings, settings
from . import guard, keeping, keys, reach, rights, server
from .visit import Visit


def examine(url: StoreURL) -> Iterator[Finding]:
    """Look at the server that a URL names."""
    return examine_server(settings(url))


def examine_server(place: Settings) -> Iterator[Finding]:
    """Look at every part of one server, in the order in which they are needed."""
    with Visit(place) as visit:
        usable = True
        for finding in server.examine(visit):
            yield finding
            usable = usable and finding.level is not Level.FAIL
        if not usable:
            return  # the rest would only repeat it in other words
        yield from reach.examine(visit)
        yield from rights.examine(visit)
        yield from guard.examine(visit)
        yield from keeping.examine(visit)
        yield from keys.examine(visit)
        yield from _unseen(visit)


def _unseen(visit: Visit) -> Iterator[Finding]:
    """What could not be looked at for want of rights."""
    if visit.unseen:
        rights = " ".join(f"+{one}" for one in sorted(visit.unseen))
        yield Finding(
            Level.WARN,
            "unseen",
            f"not everything could be looked at: {visit.user} has no right to that",
            f"examine it once as somebody who may: {rights}",
        )
