"""Inspection: the lines as frozen records, from a snapshot of table and database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....core.model import NAME_BYTES_MAX, ClaimRecord, LineRecord
from .lone import LoneClaim
from .odd import senseless


def names(prefix: str, exact: bool) -> tuple[str, str]:
    """The range of the names: the first possible one, and the end, which is excluded."""
    if exact:
        return prefix, prefix + "\0"
    # No name within the limits sorts after this one and still begins with the prefix.
    return prefix, prefix + "\U0010ffff" * (NAME_BYTES_MAX // 4 + 1)


def records(
    rows: Iterable[tuple[Any, ...]],
    alone: Iterable[LoneClaim],
    dead: Callable[[str | None], bool],
    now: float,
) -> list[LineRecord]:
    """The lines that have a living claim, by name.

    ``rows`` are the headers and claims of the database in order. If the name of a lone claim has a
    line there, the claim was moved into this line, and is not repeated.
    """
    lines: dict[str, tuple[str, int, list[ClaimRecord]]] = {}
    waiters = 0
    for name, ticket, state, owner, held, weight, since, expires, meta, session, kept in rows:
        try:
            if not ticket:
                kind, capacity = str(state).split()[:2]
                lines[name] = (kind, int(capacity), [])
                waiters = 0
            elif expires > now and not dead(session):
                waiters += not held
                position = 0 if held else waiters
                times = now - since, expires - now
                stands = bool(held), weight, *times, position
                lines[name][2].append(ClaimRecord(str(owner), ticket, *stands, meta, bool(kept)))
        except (KeyError, TypeError, ValueError):
            raise senseless(name) from None
    for claim in alone:
        if claim.name not in lines and claim.expires > now and not dead(claim.session):
            times = now - claim.since, claim.expires - now
            record = ClaimRecord(
                claim.owner, claim.ticket, True, claim.weight, *times, 0, claim.meta
            )
            lines[claim.name] = (claim.kind, claim.capacity, [record])
    return [
        LineRecord(name, kind, capacity, tuple(claims))
        for name, (kind, capacity, claims) in sorted(lines.items())
        if claims
    ]
