"""Requests about a claim that waits: `renew`, `turn` and `change`. A store's tests import these."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from holdfast import Client
from holdfast.core.model import (
    Claim,
    Gone,
    Granted,
    Held,
    Kind,
    Leave,
    Loss,
    Renewal,
    Spec,
    Waiting,
)
from holdfast.runtime.blocking import run_sync
from tests.stores.sql.bench import Bench
from tests.stores.sql.queueing import WITHIN_S

NOT_HELD = Gone(Loss.EXPIRED)
#: The ttl of a waiter in seconds, and the time by which its place is renewed in the table.
TTL_S, LATER_US = 60.0, 20_000_000


def joined(store: Any, name: str) -> tuple[Claim, Any]:
    """Let a new claim join; return it, and the answer."""
    claim = Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, TTL_S, "owner"))
    return claim, run_sync(store.join(claim, True, WITHIN_S))


def renewed(store: Any, *claims: Claim, weight: int = 0) -> list[Any]:
    """Renew these claims together."""
    renewals = [Renewal(claim, 0, TTL_S, weight) for claim in claims]
    return list(run_sync(store.renew(renewals, WITHIN_S)))


def place(bench: Bench, name: str) -> tuple[bool, int]:
    """Whether the last claim of this name is held, and its expiry."""
    look = "SELECT held, expires FROM {claims} WHERE name = %s ORDER BY ticket DESC LIMIT 1"
    ((held, expires),) = bench.ask(look, name.encode())
    return bool(held), expires


def test_a_process_that_never_joined_can_ask_for_a_claim(
    bench: Bench, locks: Client, new_client: Callable[[], Client], own_name: str
) -> None:
    store: Any = locks._ctx.store
    other: Any = new_client()._ctx.store
    # Given a holder and a waiter, and another process that knows the waiter's id
    holder, held = joined(store, own_name)
    waiter, waiting = joined(store, own_name)
    _, before = place(bench, own_name)
    # When the other process asks, then the line answers, and the place lasts longer
    told = run_sync(other.turn(waiter, waiting.ticket, WITHIN_S))
    assert isinstance(told, Waiting)
    assert told[:2] == (waiting.ticket, 1)
    assert place(bench, own_name)[1] > before
    # When the holder leaves, then the process that asked last gets the grant
    assert run_sync(store.leave(Leave(own_name, holder.id, held.fence), WITHIN_S))
    assert run_sync(other.wait(waiter, told, 20.0)) == Granted(waiting.ticket)
    # And both can ask for the whole lease, and renew it
    for one in (other, store):
        assert run_sync(one.turn(waiter, waiting.ticket, WITHIN_S)) == Held(waiting.ticket, TTL_S)
        assert renewed(one, waiter) == [Held(waiting.ticket, TTL_S)]
        one.unlisten(waiter)
    assert run_sync(other.leave(Leave(own_name, waiter.id, waiting.ticket), WITHIN_S))
    assert run_sync(other.turn(waiter, waiting.ticket, WITHIN_S)) == NOT_HELD
