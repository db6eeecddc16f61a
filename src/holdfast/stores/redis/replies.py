"""Replies of the scripts, as the contract's data types.

A reply is what a connection read: an int, bytes, a list of these, None, or a `ServerSaid`. On a
shared connection the port first removes the tag: it passes on only the second element of the reply.
Every function here raises the complaint for a `ServerSaid`, and `StoreUnavailable` for a reply that
no script of ours gives.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...core.model import (
    Claim,
    ClaimRecord,
    Full,
    Gone,
    Held,
    Joined,
    Kind,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ...errors import HoldfastError, StoreUnavailable
from .complaints import ServerSaid, complaint, said
from .recovery import barred

Reply = Any
P = ParamSpec("P")
T = TypeVar("T")

#: Exceptions from reading a reply that no script of ours gives.
_ODD = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, struct.error)


def read(parse: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function whose first argument is a reply and whose last one is the server's label.

    An unexpected reply then always raises the same error, which names the server."""

    @wraps(parse)
    def safe(*args: P.args, **more: P.kwargs) -> T:
        try:
            return parse(*args, **more)
        except HoldfastError:
            raise
        except _ODD as wrong:
            raise strange(args[0], str(args[-1])) from wrong

    return safe


_KINDS = {kind.value[:1].encode(): kind.value for kind in Kind}
_CLAIM = 8


@read
def joined(reply: Reply, claim: Claim, label: str) -> Joined:
    """The answer to a join; raises `NotYet` while recovery grants nothing."""
    if type(reply) is int:
        return Held(reply, claim.spec.ttl)
    match reply:
        case [3, int() as ms, bytes() as owner]:
            return Refused(ms / 1000, _text(owner))
        case [4, bytes() as kind, int() as capacity]:
            return Mismatch(_KINDS[kind], capacity)
        case [5, int() as waiters]:
            return Full(waiters)
        case [6]:
            raise barred(label, 0.0, b"")
        case [6, int() | float() as seconds, bytes() as cause]:
            raise barred(label, seconds, cause)
    return _standing(reply, label)


@read
def stood(reply: Reply, ttl: float, label: str) -> Standing:
    """The answer to a stand with this ttl."""
    if type(reply) is int:
        return Held(reply, ttl)
    return _standing(reply, label)


def _standing(reply: Reply, label: str) -> Standing:
    match reply:
        case [2 | 6, int() as ticket, int() as position, int() as ms]:
            return Waiting(ticket, position, ms / 1000)
        case [1, int() as ticket, int() as ms]:
            return Held(ticket, ms / 1000)
        case [0, bytes() as reason]:
            return Gone(Loss(_text(reason)))
    raise strange(reply, label)


@read
def renewed(
    reply: Reply, renewals: Sequence[Renewal], label: str
) -> list[Standing | Exception | None]:
    """The answers to the renewals of one call; None for one that must be sent as a stand."""
    if not isinstance(reply, list) or len(reply) != len(renewals):
        raise strange(reply, label)
    answers: list[Standing | Exception | None] = []
    for one, renewal in zip(reply, renewals, strict=True):
        if isinstance(one, bytes):
            answers.append(complaint(said(_text(one)), label))
        elif isinstance(one, int):
            answers.append(Held(one, renewal.ttl) if one > 0 else None)
        else:
            raise strange(reply, label)
    return answers


@read
def let_in(reply: Reply, claims: Sequence[Claim], label: str) -> list[Held] | None:
    """The answer to a join of several empty lines; None: nothing was done."""
    if reply == 0 or reply == [6]:
        return None
    if not isinstance(reply, list) or len(reply) != len(claims):
        raise strange(reply, label)
    return [Held(one + 0, claim.spec.ttl) for one, claim in zip(reply, claims, strict=True)]


@read
def released(reply: Reply, many: int, label: str) -> list[bool | None]:
    """The answers to the releases of one call; None for a release that must be sent as a leave."""
    if not isinstance(reply, list) or len(reply) != many:
        raise strange(reply, label)
    return [None if one < 0 else one == 1 for one in reply]


def whole(reply: Reply | Exception) -> Reply:
    """Return the reply. If it is the exception for a failed request, raise it."""
    if isinstance(reply, HoldfastError):
        raise reply
    return reply


def left(reply: Reply, label: str) -> bool:
    """The answer to a leave: True if the claim was in the line of claims."""
    if type(reply) is not int:
        raise strange(reply, label)
    return reply == 1


@read
def resized(reply: Reply, label: str) -> int | Mismatch | None:
    """The answer to a resize."""
    match reply:
        case None:
            return None
        case int():
            return reply
        case [4, bytes() as kind, int() as capacity]:
            return Mismatch(_KINDS[kind], capacity)
    raise strange(reply, label)


@read
def looked(reply: Reply, name: str, label: str) -> LineRecord | None:
    """The answer to an inspect; None if the line of claims is empty."""
    if reply is None:
        return None
    if not isinstance(reply, list) or len(reply) % _CLAIM != 2:
        raise strange(reply, label)
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
            kept=bool(kept),
        )
        for place, (is_held, ticket, weight, age, left_us, owner, meta, kept) in enumerate(rows, 1)
    )
    return LineRecord(name, _KINDS[reply[0]], reply[1], claims)


@read
def scanned(reply: Reply, label: str) -> tuple[bytes, list[bytes]]:
    """The answer to a SCAN: where to continue, and the keys of this step."""
    match reply:
        case [bytes() as cursor, list() as keys] if all(one.__class__ is bytes for one in keys):
            return cursor, keys
    raise strange(reply, label)


def poked(message: bytes) -> tuple[str, int] | None:
    """The claim id and the fence of a wake-up; None for any other message.

    >>> poked(b"00ff 17")
    ('00ff', 17)
    """
    claim_id, _, fence = message.partition(b" ")
    if not fence.isdigit():
        return None
    return claim_id.decode("latin-1"), int(fence)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def strange(reply: Reply, label: str) -> Exception:
    """The exception for an unexpected reply, an error reply or a failed request."""
    if isinstance(reply, HoldfastError):
        return reply
    if isinstance(reply, ServerSaid):
        return complaint(reply, label)
    return StoreUnavailable(
        f"{label} answered what no script of holdfast answers: {reprlib.repr(reply)}"
    )
