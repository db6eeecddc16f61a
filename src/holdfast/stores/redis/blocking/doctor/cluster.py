"""The state of a cluster, and the buckets of each of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .....core.finding import Finding, fail, ok, warn
from .....errors import HoldfastError
from ...complaints import ServerSaid, rules
from ...slots import BUCKET_SLOTS, SLOTS
from ...topology import Members, Place, shown
from .visit import Visit

_STATE = re.compile(rb"cluster_state:(\w+)")


class Primary(NamedTuple):
    """A node that serves some of our buckets."""

    place: Place
    buckets: list[int]


def examine(members: Members, found: list[Primary]) -> Iterator[Finding]:
    """Check whether the cluster is whole; ``found`` is filled with the primaries."""
    for place in members.places:
        try:
            with Visit(members.at(place)) as visit:
                said, state = visit.ask(b"CLUSTER", b"SLOTS"), visit.ask(b"CLUSTER", b"INFO")
                user = visit.user_name
        except HoldfastError as wrong:
            yield warn(f"{shown(place)}: {wrong}", "start it again, or remove it from the URL")
            continue
        yield _verdict(place, said, state, user)
        if isinstance(said, list):
            found += _primaries(members, place, said)
        return
    yield fail("none of its nodes can be reached")


def _verdict(asked: Place, said: Any, state: Any, user: str) -> Finding:
    if isinstance(said, ServerSaid):
        lacking = said.code == "NOPERM"
        remedy = rules(user, "+cluster|slots") if lacking else "is it a cluster?"
        return fail(f"{shown(asked)} doesn't list its nodes: {said}", remedy)
    served = sum(end - begin + 1 for begin, end, *_ in said)
    primaries = len({tuple(row[2][:2]) for row in said})
    alone = sum(len(row) < 4 for row in said)
    text = f"{primaries} primaries have {served:,} of {SLOTS:,} slots"
    known = _STATE.search(state) if isinstance(state, bytes) else None
    if served < SLOTS or (known and known[1] != b"ok"):
        text += ": names in the others can't be locked"
        return fail(text, "find the nodes that are down (CLUSTER NODES)")
    return ok(f"{text}; {alone} slot ranges have no replica" if alone else text)


def _primaries(members: Members, asked: Place, said: list[Any]) -> list[Primary]:
    """The primaries, each with its buckets."""
    buckets: dict[Place, list[int]] = {}
    for begin, end, (host, port, *_), *_ in said:
        place = (host or b"").decode() or asked[0], int(port)
        if members.remap is not None:
            place = members.remap(place)
        ours = [bucket for bucket, slot in enumerate(BUCKET_SLOTS) if begin <= slot <= end]
        buckets.setdefault(place, []).extend(ours)
    return [Primary(place, sorted(ours)) for place, ours in buckets.items() if ours]
