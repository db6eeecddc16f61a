"""What the scripts answer, as the nouns of the contract.

A reply is what a connection read: an int, bytes, a list of such, None, or a `ServerSaid`. On a
shared connection the port takes the tag off first: it hands on the second element of the list.
Every function here raises the complaint for a `ServerSaid`, and `StoreUnavailable` for a reply
that no script of ours gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.model import (
    Claim,
    ClaimRecord,
    Full,
    Gone,
    Held,
    Joined,
    Keep,
    Kind,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Standing,
    Waiting,
)
from ...errors import HoldfastError, StoreUnavailable
from .complaints import ServerSaid, complaint, said
from .guard import barred

Reply = Any

_KINDS = {kind.value[:1].encode(): kind.value for kind in Kind}
_CLAIM = 7


def joined(reply: Reply, claim: Claim, label: str) -> Joined:
    """The answer to a join; raises `NotYet` if the guard says no."""
    if type(reply) is int:
        return Held(reply, claim.spec.ttl)
    match reply:
        case [3, ms, owner]:
            return Refused(ms / 1000, _text(owner))
        case [4, kind, capacity]:
            return Mismatch(_KINDS[kind], capacity)
        case [5, waiters]:
            return Full(waiters)
        case [6]:
            raise barred(label, 0.0, b"")
        case [6, seconds, cause]:
            raise barred(label, seconds, cause)
    return _standing(reply, label)


def stood(reply: Reply, keep: Keep, label: str) -> Standing:
    """The answer to a stand."""
    if type(reply) is int:
        return Held(reply, keep.ttl)
    return _standing(reply, label)


def _standing(reply: Reply, label: str) -> Standing:
    match reply:
        case [6, ticket, position, ms]:
            return Waiting(ticket, position, ms / 1000)
        case [1, ticket, ms]:
            return Held(ticket, ms / 1000)
        case [2, ticket, position, ms]:
            return Waiting(ticket, position, ms / 1000)
        case [0, reason]:
            return Gone(Loss(_text(reason)))
    raise _strange(reply, label)


def kept(reply: Reply, keeps: Sequence[Keep], label: str) -> list[Standing | Exception | None]:
    """The answers to the keeps of one call; None: ask with stand."""
    if not isinstance(reply, list) or len(reply) != len(keeps):
        raise _strange(reply, label)
    answers: list[Standing | Exception | None] = []
    for one, keep in zip(reply, keeps, strict=True):
        if isinstance(one, bytes):
            answers.append(complaint(said(_text(one)), label))
        else:
            answers.append(Held(one, keep.ttl) if one > 0 else None)
    return answers


def let_in(reply: Reply, claims: Sequence[Claim], label: str) -> list[Held] | None:
    """The answer to a join of several lines that are empty; None: nothing was done."""
    if reply == 0 or reply == [6]:
        return None
    if not isinstance(reply, list) or len(reply) != len(claims):
        raise _strange(reply, label)
    return [Held(one, claim.spec.ttl) for one, claim in zip(reply, claims, strict=True)]


def released(reply: Reply, many: int, label: str) -> list[bool | None]:
    """The answers to the releases of one call; None: ask with leave."""
    if not isinstance(reply, list) or len(reply) != many:
        raise _strange(reply, label)
    return [None if one < 0 else one == 1 for one in reply]


def whole(reply: Reply | Exception) -> Reply:
    """A reply, unless the server that it should come from could not be asked."""
    if isinstance(reply, HoldfastError):
        raise reply
    return reply


def left(reply: Reply, label: str) -> bool:
    """The answer to a leave: was the claim there?"""
    if type(reply) is not int:
        raise _strange(reply, label)
    return reply == 1


def resized(reply: Reply, label: str) -> int | Mismatch | None:
    """The answer to a resize."""
    match reply:
        case None:
            return None
        case int():
            return reply
        case [4, kind, capacity]:
            return Mismatch(_KINDS[kind], capacity)
    raise _strange(reply, label)


def looked(reply: Reply, name: str, label: str) -> LineRecord | None:
    """The answer to an inspect; None if nobody is there."""
    if reply is None:
        return None
    if not isinstance(reply, list) or len(reply) % _CLAIM != 2:
        raise _strange(reply, label)
    rows = [reply[i : i + _CLAIM] for i in range(2, len(reply), _CLAIM)]
    rows.sort(key=lambda row: (-row[0], row[1]))
    held = sum(row[0] for row in rows)
    claims = tuple(
        ClaimRecord(
            owner=_text(owner),
            fence=ticket,
            held=bool(is_held),
            weight=weight,
            age=age / 1e6,
            expires_in=left_us / 1e6,
            position=max(0, place - held),
            meta=_text(meta),
        )
        for place, (is_held, ticket, weight, age, left_us, owner, meta) in enumerate(rows, 1)
    )
    return LineRecord(name, _KINDS[reply[0]], reply[1], claims)


def poked(message: bytes) -> tuple[str, int] | None:
    """Claim id and fence of a poke as it was published; None if it is something else.

    >>> poked(b"00ff 17")
    ('00ff', 17)
    """
    claim_id, _, fence = message.partition(b" ")
    if not fence.isdigit():
        return None
    return claim_id.decode("latin-1"), int(fence)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _strange(reply: Reply, label: str) -> Exception:
    if isinstance(reply, ServerSaid):
        return complaint(reply, label)
    return StoreUnavailable(f"{label} answered what no script of holdfast answers: {reply!r:.80}")
