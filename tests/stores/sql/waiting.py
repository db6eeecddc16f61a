"""Requests of another process about a claim that waits. A store's tests import these."""

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
#: The ttl of a waiter in seconds.
TTL_S = 60.0


def joined(store: Any, name: str) -> tuple[Claim, Any]:
    """Let a new claim join; return it, and the answer."""
    claim = Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, TTL_S, "owner"))
    return claim, run_sync(store.join(claim, True, WITHIN_S))


def renewed(store: Any, claim: Claim) -> list[Any]:
    """Renew this claim."""
    return list(run_sync(store.renew([Renewal(claim, 0, TTL_S)], WITHIN_S)))


def expiry(bench: Bench, name: str) -> int:
    """The time at which the last claim of this name expires, in the table."""
    look = "SELECT expires FROM {claims} WHERE name = %s ORDER BY ticket DESC LIMIT 1"
    return int(bench.ask(look, name.encode())[0][0])


def test_a_process_that_never_joined_can_ask_for_a_claim(
    bench: Bench, locks: Client, new_client: Callable[[], Client], own_name: str
) -> None:
    store: Any = locks._ctx.store
    other: Any = new_client()._ctx.store
    # Given a holder and a waiter, and another process that knows the waiter's id
    holder, held = joined(store, own_name)
    waiter, waiting = joined(store, own_name)
    before = expiry(bench, own_name)
    # When the other process asks, then the line answers, and the place lasts longer
    told = run_sync(other.turn(waiter, waiting.ticket, WITHIN_S))
    assert isinstance(told, Waiting)
    assert told[:2] == (waiting.ticket, 1)
    assert expiry(bench, own_name) > before
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
