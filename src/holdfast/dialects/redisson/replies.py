"""Translates replies of the scripts into the contract's data types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.model import (
    RWLOCK_CAPACITY,
    Claim,
    ClaimRecord,
    Gone,
    Held,
    Joined,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ...core.policy import ASK_AGAIN_S_MAX
from ...errors import ConfigError, StoreUnavailable
from ...stores.redis.complaints import ServerSaid, said
from ..claims import number_of
from ..families import refusal
from ..port import refused

Reply = Any
_WRITER = b":write"
#: Error codes that only a node of a cluster returns.
_OF_A_CLUSTER = frozenset({"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN"})


class Row(NamedTuple):
    """A hold or a waiter in Redisson's terms."""

    held: bool
    field: bytes
    left_ms: int

    @property
    def number(self) -> int:
        """The number that names the hold or waiter, if there is no token."""
        return number(self.field)


def number(field: bytes) -> int:
    """Return the number for a hold without a token. A downgrade to a reader doesn't change it."""
    return number_of(field.removesuffix(_WRITER))


def joined(reply: Reply, claim: Claim, field: bytes, fenced: bool, label: str) -> Joined:
    """Read the answer to a join that doesn't leave the claim waiting; see `waits`."""
    match reply:
        case [0]:
            return Gone(Loss.EXPIRED)
        case [1, left_ms, token]:
            return Held(token if fenced else number(field), left_ms / 1000)
        case [2, left_ms, holder, _]:
            return Refused(again_in(left_ms), shown(holder))
        case [3, kind]:
            raise refusal(claim.spec.name, _text(kind), _mine(claim), label)
        case [4, capacity]:
            return Mismatch("semaphore", capacity)
    raise _strange(reply, label)


def waits(reply: Reply) -> Waiting | None:
    """Return the state of a claim that must wait; None if it needn't."""
    match reply:
        case [2, left_ms, _, ahead]:
            return Waiting(0, ahead, again_in(left_ms))
    return None


def again_in(left_ms: int) -> float:
    """Return the seconds until the next request, if no message arrives before.

    The waiter asks when the holder's lease has expired, but after a second at the latest, because a
    hold can end without a message."""
    return min(ASK_AGAIN_S_MAX, (left_ms + 1) / 1000) if left_ms >= 0 else ASK_AGAIN_S_MAX


def renewed(reply: Reply, renewals: Sequence[Renewal], label: str) -> list[Standing | Exception]:
    """Read the answers to renewals: a state or an error for each."""
    if not isinstance(reply, list) or len(reply) != len(renewals):
        raise _strange(reply, label)
    answers: list[Standing | Exception] = []
    for one, renewal in zip(reply, renewals, strict=True):
        if isinstance(one, bytes):
            answers.append(_wrong_type(one, label))
        else:
            answers.append(Held(renewal.ticket, renewal.ttl) if one else Gone(Loss.BROKEN))
    return answers


def _wrong_type(text: bytes, label: str) -> Standing | Exception:
    """Translate an error; WRONGTYPE means that a key of another family has replaced ours."""
    if b"WRONGTYPE" in text:
        return Gone(Loss.BROKEN)
    return refused(said(_text(text).removeprefix("-")), label)


def resized(reply: Reply, name: str, label: str) -> int | None:
    """Read the answer to a change of the number of permits."""
    if reply is None or type(reply) is int:
        return reply
    match reply:
        case [3, kind]:
            raise refusal(name, _text(kind), "redisson-permits", label)
    raise _strange(reply, label)


def done(reply: Reply, label: str) -> bool:
    """Read an answer that is 1 for yes and 0 for no."""
    if type(reply) is not int:
        raise _strange(reply, label)
    return reply == 1


def rows(reply: Reply, label: str) -> list[Row]:
    """Read the holders and waiters, in Redisson's terms."""
    if reply is None or (isinstance(reply, list) and reply[:1] == [b""]):
        return []
    if not isinstance(reply, list) or len(reply) != 4:
        raise _strange(reply, label)
    return [Row(bool(held), field, left) for held, field, left in reply[3]]


def looked(
    reply: Reply, name: str, fenced: bool, label: str, exact: bool = False
) -> LineRecord | None:
    """Read the answer to an inspect; None if there is no holder and no waiter.

    With ``exact`` a key of another family raises an error."""
    if exact and isinstance(reply, list) and reply[:1] == [b""]:
        raise refusal(name, _text(reply[1]), "redisson", label)
    found = rows(reply, label)
    if reply is None or reply[:1] == [b""]:
        return None
    kind, capacity, token, _ = reply
    claims: list[ClaimRecord] = []
    for row, weight in _together(found) if kind == b"semaphore" else [(one, 1) for one in found]:
        writes = row.field.endswith(_WRITER)
        claims.append(
            ClaimRecord(
                owner=shown(row.field),
                fence=token if fenced and row.held else row.number,
                held=row.held,
                weight=RWLOCK_CAPACITY if kind == b"rwlock" and writes else weight,
                age=-1.0,
                expires_in=row.left_ms / 1000 if row.left_ms >= 0 else math.inf,
                position=0 if row.held else sum(not one.held for one in claims) + 1,
            )
        )
    of = RWLOCK_CAPACITY if kind == b"rwlock" else capacity
    return LineRecord(name, _text(kind), of, tuple(claims))


def _together(found: list[Row]) -> list[tuple[Row, int]]:
    """Combine the permits of each claim to one row; return it with the number of permits.

    The ids of a claim's permits differ only in the last two bytes, which count up from 0."""
    by_id = {row.field: row for row in found}
    firsts = []
    for row in found:
        stem, place = row.field[:-2], int.from_bytes(row.field[-2:], "big")
        if place and stem + (place - 1).to_bytes(2, "big") in by_id:
            continue
        weight = 1
        while stem + (place + weight).to_bytes(2, "big") in by_id:
            weight += 1
        firsts.append((row, weight))
    return firsts


def shown(field: bytes) -> str:
    """Return the text for a holder: Redisson's owner, or a permit's id in hexadecimal digits.

    >>> shown(b"6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01:41:write")
    '6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01:41'
    """
    if b"-" in field:
        return _text(field.removesuffix(_WRITER))
    return field.hex()


def _mine(claim: Claim) -> str:
    return {"rwlock": "redisson-rw", "semaphore": "redisson-permits"}.get(
        claim.spec.kind.value, "redisson"
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _strange(reply: Reply, label: str) -> Exception:
    if isinstance(reply, ServerSaid):
        if reply.code in _OF_A_CLUSTER:
            return ConfigError(
                f"{label} is a node of a cluster ({reply}), which this dialect can't use: keep the "
                "locks that are shared with Redisson on a server that isn't a cluster"
            )
        return refused(reply, label)
    return StoreUnavailable(f"{label} answered what no script of holdfast answers: {reply!r:.80}")
