"""A take that stops waiting takes no wake-up away from other waiters."""

from __future__ import annotations

import secrets
from typing import Any

from ....core.policy import REQUEST_S
from ....core.queue.model import Take
from ....core.queue.ports import queues_of
from ...faces import Actor, now
from ..arena import Arena
from ..registry import case

#: Seconds after its start in which a take has certainly begun to wait.
ASLEEP_S = 0.15


def _wish(queue: Any) -> Take:
    """Return the request of a waiting `take`, as the client sends it."""
    options, ctx = queue._options, queue._ctx
    what = (1, options.ttl, ctx.owner, options.pace, options.patience, True)
    return Take(queue.name, secrets.token_hex(16), *what)


async def _waits(at: Arena) -> Actor:
    """Start another client that waits for a job."""
    waiter = at.start(lambda: at.rival_queue().take(10.0))
    await at.sleep(ASLEEP_S)
    return waiter


async def _served(at: Arena, waiter: Actor, begun: float) -> None:
    job = await waiter.result()
    took, may = now() - begun, at.served(begun)
    assert took < may, f"{took:.3f} s"
    await job.ack()


@case("queue")
async def a_caller_that_gave_up_is_not_woken_in_place_of_a_waiter(at: Arena) -> None:
    queue = at.queue()
    verbs = queues_of(queue._ctx.store)
    for first, late in ((True, False), (False, False), (True, True)):
        waiter = None if first else await _waits(at)
        wish = _wish(queue)
        if not late:
            await verbs.take(wish, REQUEST_S)
        verbs.unlisten(wish)
        await verbs.give_back(wish, REQUEST_S)
        if late:
            assert (await verbs.take(wish, REQUEST_S)).deliveries == ()
        waiter = waiter or await _waits(at)
        begun = now()
        await queue.put("x")
        await _served(at, waiter, begun)
        verbs.unlisten(wish)


@case("queue")
async def a_woken_waiter_that_gives_up_passes_the_wake_up_on(at: Arena) -> None:
    queue = at.queue()
    verbs = queues_of(queue._ctx.store)
    for first in (True, False):
        waiter = None if first else await _waits(at)
        # Enough requests that one of them gets the wake-up, whatever order a store uses.
        wishes = [_wish(queue) for _ in range(8)]
        for wish in wishes:
            await verbs.take(wish, REQUEST_S)
        waiter = waiter or await _waits(at)
        await queue.put("x")
        for wish in wishes:
            verbs.unlisten(wish)
            await verbs.give_back(wish, REQUEST_S)
        await _served(at, waiter, now())
