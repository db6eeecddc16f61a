"""The clocks of the servers that may take each other's place: replicas, and a cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .....core.finding import Finding, Level
from .....errors import HoldfastError
from ...config import Settings
from ...topology import Place, shown
from .visit import Clock, Visit, well

#: Number of looks at a clock, of which the quickest one counts.
LOOKS = 3
#: Clocks that follow the same time differ by milliseconds; with this difference, one follows none.
APART_S = 1.0
_REMEDY = (
    "have all servers follow the time of the network (NTP), before one of them takes the place of "
    "another"
)


class Ahead(NamedTuple):
    """By how many seconds a clock is ahead of ours, give or take ``by``."""

    seconds: float
    by: float


def ahead(looks: list[Clock]) -> Ahead | None:
    """What these looks tell; None if there is none."""
    if not looks:
        return None
    best = min(looks, key=lambda look: look.took)
    return Ahead(best.server - best.ours, best.took)


def of(visit: Visit) -> Ahead | None:
    """The clock of the server that is visited."""
    return ahead([look for look in (visit.clock() for _ in range(LOOKS)) if look])


def examine(visit: Visit) -> Iterator[Finding]:
    """A primary and its replicas; nothing if it has none."""
    clocks: dict[str, Ahead] = {}
    silent: list[str] = []
    mine = of(visit)
    places = list(_replicas(visit))
    if mine is None or not places:
        return
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
    yield compared("the primary", mine, clocks, silent)


def compared(
    first: str, mine: Ahead, others: Mapping[str, Ahead], silent: list[str] | None = None
) -> Finding:
    """One clock and those of servers that may take over from it."""
    wrong, most = [], 0.0
    for name, one in others.items():
        apart = one.seconds - mine.seconds
        most = max(most, abs(apart))
        if abs(apart) - one.by - mine.by >= APART_S:
            way = "ahead of" if apart > 0 else "behind"
            wrong.append(f"{name} is {abs(apart):,.1f} s {way} {first}")
    unseen = f"; can't be asked from here: {', '.join(silent)}" if silent else ""
    if wrong:
        return Finding(
            Level.WARN,
            "clocks",
            f"{'; '.join(wrong)}{unseen}. Once one that is behind has taken over, leases end later "
            "and fences may fall; ahead, leases end sooner than their holders think",
            _REMEDY,
        )
    if not others:
        return Finding(
            Level.WARN,
            "clocks",
            f"the clocks of {first} and its replicas could not be compared{unseen}",
            "run this where the replicas can be reached, or compare the answers to TIME by hand",
        )
    return well("clocks", f"{first} and {len(others)} more differ by {most * 1000:.0f} ms{unseen}")


def _replicas(visit: Visit) -> Iterator[Place]:
    for at in range(visit.number("connected_slaves") or 0):
        parts = (part.partition("=") for part in visit.info.get(f"slave{at}", "").split(","))
        seen = {key: value for key, _, value in parts}
        if "ip" in seen and seen.get("port", "").isdecimal():
            yield seen["ip"], int(seen["port"])


def _at(base: Settings, place: Place) -> Settings:
    """How to reach a replica: as its primary, but for the place."""
    host, port = place
    arguments = {key: value for key, value in base.arguments.items() if key != "path"}
    return base._replace(
        kind="tcp" if base.kind == "unix" else base.kind,
        arguments={**arguments, "host": host, "port": port},
        label=f"{base.label} (its replica {shown(place)})",
    )
