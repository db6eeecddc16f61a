"""The examination of a server: findings on each of its parts, with remedies.

The examination uses its own connections and not the port, so that it also works when the store
can't be used. It changes nothing: the rights of a user are tested by commands in a form that has no
effect, such as ``DEL`` of a key that doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, Level, Table, fail, ok, run, warn
from .....errors import HoldfastError
from .....url import StoreURL
from ...config import settings
from ...topology import Members, Sentinels, shown, topology
from ..sentinel import WatchedDialler
from . import clocks, cluster, keeping, keys, reach, recovery, rights, sentinels, server
from .visit import Visit


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine the server that a URL names, or all servers behind the URL."""
    several = topology(url)
    if several is None:
        return examine_server(Visit(settings(url)))
    if isinstance(several, Sentinels):
        return _watched(several)
    return _cluster(several)


def _watched(watch: Sentinels) -> Iterator[Finding]:
    """Examine the sentinels, and then the server that they name."""

    def primary(watch: Sentinels) -> Iterator[Finding]:
        return examine_server(Visit(watch.settings, WatchedDialler(watch)))

    return run(watch, {"sentinels": sentinels.examine}, {"server": primary})


def _cluster(members: Members) -> Iterator[Finding]:
    """Examine the cluster, its first primary, the others (only problems), and all clocks."""
    found: list[cluster.Primary] = []

    def nodes(members: Members) -> Iterator[Finding]:
        for number, primary in enumerate(found):
            name, well = shown(primary.place), 0
            try:
                visit = Visit(members.at(primary.place), buckets=primary.buckets)
                for finding in examine_server(visit):
                    if number and finding.level is Level.OK:
                        well += 1
                    else:
                        yield finding._replace(text=f"{name}: {finding.text}")
            except HoldfastError as wrong:
                yield fail(str(wrong))
            if well:
                yield ok(f"{name}: {well} more checks are fine")

    checks: Table[Members] = {
        "cluster": lambda members: cluster.examine(members, found),
        "node": nodes,
        "clocks": lambda members: clocks.of_cluster(members, [one.place for one in found]),
    }
    return run(members, checks)


def examine_server(visit: Visit) -> Iterator[Finding]:
    """Examine every part of one server, in the order in which clients need them; end the visit."""
    parts = {
        **reach.CHECKS,
        **rights.CHECKS,
        "recovery": recovery.examine,
        **keeping.CHECKS,
        "clocks": clocks.examine,
        "keys": keys.examine,
        "unseen": _unseen,
    }
    with visit:
        yield from run(visit, server.CHECKS, parts)


def _unseen(visit: Visit) -> Finding | None:
    """The parts that could not be examined because rights are missing."""
    if not visit.unseen:
        return None
    return warn(
        f"not everything could be examined: {visit.user} lacks some rights",
        "examine it once as a user with these rights: "
        + " ".join(f"+{one}" for one in sorted(visit.unseen)),
    )
