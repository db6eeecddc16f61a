"""An examination of a server: each part in words, and what to do about it.

It asks over connections of its own, without passing through the port, so that it can still tell
what is wrong when the store can't be used. It changes nothing: what a user may do is found out by
commands in a form that has no effect, as ``DEL`` of a key that isn't there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from .....core.finding import Finding, Level
from .....errors import HoldfastError
from .....url import StoreURL
from ...config import settings
from ...topology import Members, Place, Sentinels, shown, topology
from ..sentinel import WatchedDialler
from . import (
    clocks,
    cluster,
    guard,
    keeping,
    keys,
    queues,
    reach,
    rights,
    sentinels,
    server,
    values,
)
from .visit import Visit


def examine(url: StoreURL) -> Iterator[Finding]:
    """Look at the server that a URL names, or at all servers that it stands for."""
    several = topology(url)
    if several is None:
        return examine_server(Visit(settings(url)))
    if isinstance(several, Sentinels):
        return _watched(several)
    return _cluster(several)


def _watched(watch: Sentinels) -> Iterator[Finding]:
    """The sentinels, and then whom they name."""
    sound = True
    for finding in sentinels.examine(watch):
        yield finding
        sound = sound and finding.level is not Level.FAIL
    if sound:
        yield from examine_server(Visit(watch.settings, WatchedDialler(watch)))


def _cluster(members: Members) -> Iterator[Finding]:
    """The cluster, its first primary, and what isn't well at the others."""
    found: list[cluster.Primary] = []
    yield from cluster.examine(members, found)
    for number, primary in enumerate(found):
        name, well = shown(primary.place), 0
        try:
            place = members.at(primary.place)
            for finding in examine_server(Visit(place, buckets=primary.buckets)):
                if number and finding.level is Level.OK:
                    well += 1
                else:
                    yield finding._replace(text=f"{name}: {finding.text}")
        except HoldfastError as wrong:
            yield Finding(Level.FAIL, "node", str(wrong))
        if well:
            yield Finding(Level.OK, "node", f"{name}: {well} more parts are well")
    yield from _clocks(members, [primary.place for primary in found])


def _clocks(members: Members, places: list[Place]) -> Iterator[Finding]:
    """The clocks of the primaries: a slot may move from one to another."""
    seen: dict[str, clocks.Ahead] = {}
    for place in places:
        with suppress(HoldfastError), Visit(members.at(place)) as visit:
            if found := clocks.of(visit):
                seen[f"the node {shown(place)}"] = found
    if len(seen) > 1:
        (first, mine), *rest = seen.items()
        yield clocks.compared(first, mine, dict(rest))


def examine_server(visit: Visit) -> Iterator[Finding]:
    """Look at every part of one server, in the order in which they are needed; ends the visit."""
    with visit:
        usable = True
        for finding in server.examine(visit):
            yield finding
            usable = usable and finding.level is not Level.FAIL
        if not usable:
            return  # the rest would only repeat it in other words
        yield from reach.examine(visit)
        yield from rights.examine(visit)
        yield from queues.examine(visit)
        yield from values.examine(visit)
        yield from guard.examine(visit)
        yield from keeping.examine(visit)
        yield from clocks.examine(visit)
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
