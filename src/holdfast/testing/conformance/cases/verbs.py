"""The verbs of a waiter and of a holder: the answer depends on the request and the store alone."""

from __future__ import annotations

import secrets
from typing import Any

from ....core.model import Claim, Gone, Held, Leave, Renewal, Waiting
from ....core.policy import REQUEST_S
from ..arena import Arena
from ..registry import case

#: Seconds of a lease that nothing renews.
BRIEF_S = 0.5


def _claim(at: Arena, ttl: float) -> Claim:
    rival: Any = at.rival(ttl=ttl)
    return Claim(secrets.token_hex(16), rival._spec)


async def _renewed(store: Any, claim: Claim, ticket: int) -> Any:
    (answer,) = await store.renew([Renewal(claim, ticket, claim.spec.ttl)], REQUEST_S)
    return answer


@case("lock", "semaphore", "election", needs=["visible_line", "own_expiry"], promise=True)
async def a_renewal_grants_nothing_to_a_claim_that_waits(at: Arena) -> None:
    # Given a claim that waits behind a lease that ends
    store = at.others._ctx.store
    dead, claim = _claim(at, BRIEF_S), _claim(at, 20.0)
    dead = dead._replace(spec=dead.spec._replace(weight=dead.spec.capacity))
    held = await store.join(dead, False, REQUEST_S)
    waiting = await store.join(claim, True, REQUEST_S)
    assert isinstance(held, Held), held
    assert isinstance(waiting, Waiting | Held), waiting  # held: a slow machine
    if isinstance(waiting, Waiting):
        # Then a renewal never grants it, before that end or after it
        for _ in range(2):
            answer = await _renewed(store, claim, waiting.ticket)
            assert isinstance(answer, Waiting | Gone), answer
            await at.sleep(BRIEF_S + 0.1)
        # And its own request does, unless a slow machine has let its place expire
        answer = await store.turn(claim, waiting.ticket, REQUEST_S)
        assert isinstance(answer, Held | Gone), answer
    await store.leave(Leave(at.name, claim.id, 0), REQUEST_S)
    store.unlisten(claim)
    assert not await at.holders()


@case("lock", "semaphore", needs=["visible_line", "own_expiry"], promise=True)
async def one_claim_is_answered_by_its_line_whichever_client_asks(at: Arena) -> None:
    # Given a claim that waits, and whose id two clients know
    hold = await at.lock(ttl=20.0).acquire()
    claim = _claim(at, 20.0)
    ours, theirs = at.locks._ctx.store, at.others._ctx.store
    waiting = await ours.join(claim, True, REQUEST_S)
    assert isinstance(waiting, Waiting), waiting
    # Then the client that did not join gets the answer of the line
    still = await theirs.turn(claim, waiting.ticket, REQUEST_S)
    assert isinstance(still, Waiting), still
    assert (still.ticket, still.position) == (waiting.ticket, waiting.position)
    assert not isinstance(await _renewed(theirs, claim, waiting.ticket), Held)
    # And after the release either client's request grants and renews the same claim
    assert await hold.release() is True
    for store in (theirs, ours):
        granted = await store.turn(claim, waiting.ticket, REQUEST_S)
        assert isinstance(granted, Held), granted
        assert granted.fence == waiting.ticket
        renewed = await _renewed(store, claim, waiting.ticket)
        assert isinstance(renewed, Held), renewed
        assert renewed.fence == waiting.ticket
        assert len(await at.holders()) == 1
    assert await theirs.leave(Leave(at.name, claim.id, waiting.ticket), REQUEST_S) is True
    assert isinstance(await _renewed(ours, claim, waiting.ticket), Gone)
    ours.unlisten(claim)
    theirs.unlisten(claim)
    assert not await at.holders()
