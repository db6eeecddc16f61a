"""The clocks of servers that can replace each other: replicas, and a cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from .....core.finding import APART_S, Finding, ok, warn
from .....errors import HoldfastError
from ...config import Settings
from ...topology import Members, Place, shown
from .visit import Visit

#: Number of readings of a clock; the reading that took the shortest time counts.
LOOKS = 3
_REMEDY = "synchronize the clocks of all servers (NTP), before one of them replaces another"


class Ahead(NamedTuple):
    """Seconds by which a clock is ahead of this machine's, plus or minus ``by``."""

    seconds: float
    by: float


def of(visit: Visit) -> Ahead | None:
    """The clock of the examined server, by the quickest of `LOOKS` readings."""
    looks = [look for look in (visit.clock() for _ in range(LOOKS)) if look]
    if not looks:
        return None
    best = min(looks, key=lambda look: look.took)
    return Ahead(best.server - best.ours, best.took)


def examine(visit: Visit) -> Finding | None:
    """Compare the clocks of a primary and its replicas; None if there are no replicas."""
    clocks: dict[str, Ahead] = {}
    silent: list[str] = []
    mine = of(visit)
    places = [
        (seen["ip"], int(seen["port"]))
        for seen in visit.replicas()
        if "ip" in seen and seen.get("port", "").isdecimal()
    ]
    if mine is None or not places:
        return None
    for place in places:
        try:
            with Visit(_at(visit.settings, place)) as replica:
                found = of(replica)
        except HoldfastError:
            found = None
        if found is None:
            silent.append(shown(place))
        else:
            clocks[f"the replica {shown(place)}"] = found
    return compared("the primary", mine, clocks, silent)


def of_cluster(members: Members, places: list[Place]) -> Finding | None:
    """Compare the clocks of a cluster's primaries: a slot can move from one to another."""
    seen: dict[str, Ahead] = {}
    for place in places:
        with suppress(HoldfastError), Visit(members.at(place)) as visit:
            if found := of(visit):
                seen[f"the node {shown(place)}"] = found
    if len(seen) < 2:
        return None
    (first, mine), *rest = seen.items()
    return compared(first, mine, dict(rest))


def compared(
    first: str, mine: Ahead, others: Mapping[str, Ahead], silent: list[str] | None = None
) -> Finding:
    """Compare one clock and the clocks of servers that can take over from it."""
    wrong, most = [], 0.0
    for name, one in others.items():
        apart = one.seconds - mine.seconds
        most = max(most, abs(apart))
        if abs(apart) - one.by - mine.by >= APART_S:
            way = "ahead of" if apart > 0 else "behind"
            wrong.append(f"{name} is {abs(apart):,.1f} s {way} {first}")
    unseen = f"; can't be asked from here: {', '.join(silent)}" if silent else ""
    if wrong:
        return warn(
            f"{'; '.join(wrong)}{unseen}. If a server that is behind takes over, leases end later "
            "and fences can fall; if it is ahead, leases end earlier than their holders assume",
            _REMEDY,
        )
    if not others:
        return warn(
            f"the clocks of {first} and its replicas could not be compared{unseen}",
            "run this where the replicas can be reached, or compare the replies to TIME by hand",
        )
    return ok(f"{first} and {len(others)} more differ by {most * 1000:.0f} ms{unseen}")


def _at(base: Settings, place: Place) -> Settings:
    """The settings of a replica: those of its primary, except for the address."""
    host, port = place
    arguments = {key: value for key, value in base.arguments.items() if key != "path"}
    return base._replace(
        kind="tcp" if base.kind == "unix" else base.kind,
        arguments={**arguments, "host": host, "port": port},
        label=f"{base.label} (its replica {shown(place)})",
    )
