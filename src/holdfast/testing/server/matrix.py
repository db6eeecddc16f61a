"""The fault matrix: every verb, its request or its reply, every fault, every end of the caller.

A run arms one fault for one verb, and perhaps a second fault for the next message of any kind. It
lets the caller wait, give up, be cancelled, or get Ctrl-C. After that, the answer that the caller
got must be true of the store, and nothing may be left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ...aio import AsyncClient
from ...errors import LockLost, NotHeld, StoreUnavailable
from .. import lag
from ..faces import now
from ..faults import (
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
)
from ..promise import PromiseBroken
from .bench import TTL_S, Floor

FAULTS: dict[str, Fault] = {
    "a lost request": DROP_REQUEST,
    "a lost reply": DROP_REPLY,
    "a cut request": RESET_REQUEST,
    "a cut reply": RESET_REPLY,
    "a late request": HOLD_REQUEST,
    "a late reply": HOLD_REPLY,
}
#: The second fault of a run; None: there is only one.
AGAIN: dict[str, Fault | None] = {"": None, "then a cut": RESET_REPLY, "then a loss": DROP_REPLY}
#: The end of the caller, and the seconds that it waits.
ENDS = {"patient": 20.0, "brief": 0.4, "cancelled": 20.0, "interrupted": 20.0}
#: The lease of the holds under test, which outlasts the checks: what a caller abandoned must be
#: withdrawn, not only expire.
LEASE_S = 30.0
#: Maximum seconds until a caller has returned, beyond the time that it waits.
MORE_S = 8.0
#: Seconds until a fault has met its message, or the verb isn't sent.
MET_S = 5.0
#: Seconds in which a late copy of a request arrives.
LATE_S = 0.3


class Trouble(NamedTuple):
    """One row of the matrix."""

    verb: str
    fault: str
    again: str
    end: str

    def __str__(self) -> str:
        return "-".join(filter(None, (self.verb, self.fault, self.again, self.end))).replace(
            " ", "_"
        )


Act = Callable[[], Any]


async def play(trouble: Trouble, at: Floor) -> None:
    """Play one row, and check its outcome."""
    async with at.clients() as (ours, other):
        holder = None
        names = [at.name]
        if trouble.verb in ("join_free", "leave_all"):
            names = [f"{at.name}:a", f"{at.name}:b"]
        for name in names:  # a store can need other requests for a name that was never used
            await at.is_free(other, name, 20.0)
        if trouble.verb == "turn":
            holder = await other.lock(at.name, ttl=20).acquire()
            at.noted(holder)
        held = await _held(trouble, ours, names)
        outcome = await _struck(trouble, at, _act(trouble, ours, names, held), holder)
        await _judged(trouble, at, (ours, other), names, held, outcome)


async def _held(trouble: Trouble, ours: AsyncClient, names: list[str]) -> Any:
    """Return the hold that the verb is about, if it is about one."""
    if trouble.verb == "leave_all":
        return await ours.all(*(ours.lock(name, ttl=LEASE_S) for name in names)).acquire(timeout=20)
    if trouble.verb in ("leave", "renew"):
        ttl = LEASE_S if ours.capabilities.own_expiry else TTL_S
        return await ours.lock(names[0], ttl=ttl, auto_renew=False).acquire(timeout=20)
    return None


def _act(trouble: Trouble, ours: AsyncClient, names: list[str], held: Any) -> Act:
    """Return the call that sends the verb."""
    if held is not None:
        act: Act = held.extend if trouble.verb == "renew" else held.release
        return act
    if trouble.verb == "join_free":
        return lambda: ours.all(*(ours.lock(name, ttl=LEASE_S) for name in names)).acquire(
            timeout=ENDS[trouble.end]
        )
    return lambda: ours.lock(names[0], ttl=LEASE_S).acquire(timeout=ENDS[trouble.end])


async def _struck(trouble: Trouble, at: Floor, act: Act, holder: Any) -> Any:
    """Make the call under the fault; return its answer or its exception."""
    armed = [at.proxy.arm(at.bench.verbs[trouble.verb], FAULTS[trouble.fault])]
    again, begun = AGAIN[trouble.again], now()

    async def call() -> Any:
        try:
            return await act()
        except (StoreUnavailable, LockLost, NotHeld) as failure:
            return failure

    async def meanwhile() -> bool:
        met = await at.face.outside(lambda: _met(armed[0]))
        if again is not None:
            armed.append(at.proxy.arm(lambda _: True, again))
        if trouble.end == "cancelled":
            actor.cancel()
        if trouble.end == "interrupted":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if holder is not None:
            await holder.release()
        return met

    limit = ENDS[trouble.end] + MORE_S
    if trouble.end == "interrupted":
        actor = at.face.start(meanwhile)
        outcome = await _interrupted(call, actor)
        assert now() - begun < MET_S + MORE_S + lag.since(begun), "Ctrl-C came late"
        met = await actor.result(limit)
    else:
        actor = at.face.start(call)
        met = await meanwhile()
        try:
            outcome = await actor.result(limit + lag.since(begun))
        except asyncio.CancelledError as failure:
            if trouble.end != "cancelled":
                raise
            outcome = failure
    assert met or trouble.verb == "turn", f"no request of {trouble.verb} was met by the fault"
    for one in armed:
        one.let_go()
        one.disarm()
    return outcome


async def _interrupted(call: Act, sender: Any) -> Any:
    """Make the call in this thread, to which the sender sends Ctrl-C; return its outcome."""
    outcome, former = None, signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = await call()
        await sender.result(MET_S + MORE_S)  # the signal comes before this returns
    except KeyboardInterrupt as failure:
        return failure if outcome is None else outcome
    finally:
        signal.signal(signal.SIGINT, former)
    raise PromiseBroken(f"Ctrl-C raised nothing; the caller got {outcome!r}")


def _met(armed: Any) -> bool:
    try:
        armed.wait(MET_S)
    except TimeoutError:
        return False
    return True


async def _judged(
    trouble: Trouble,
    at: Floor,
    clients: tuple[AsyncClient, AsyncClient],
    names: list[str],
    held: Any,
    outcome: Any,
) -> None:
    """Check that the outcome is true of the store, and that every name becomes free."""
    ours, other = clients
    # No other client wants the name for long, and the lease outlasts the run.
    if outcome is None or (ours.capabilities.own_expiry and outcome is False):
        raise PromiseBroken(f"{outcome} after {trouble}: the name was free, or the hold was held")
    if trouble.verb == "renew":
        held.check()
    acquired = held is None and not isinstance(outcome, BaseException)
    hold: Any = held if trouble.verb == "renew" else outcome if acquired else None
    if hold is not None:
        if len(names) == 1:
            at.noted(hold)
        for name in names:
            rival = None
            if hold.lost is None:
                rival = await other.lock(name, ttl=TTL_S).acquire(blocking=False)
            if rival is not None:
                if hold.lost is None:
                    raise PromiseBroken(f"two hold {name!r} after {trouble}")
                at.noted(rival)
                await rival.release()
        with contextlib.suppress(StoreUnavailable, LockLost, NotHeld):
            await hold.release()
    if held is not None and outcome is True:  # a release that was confirmed has ended the claim
        await _are_empty(trouble, at, other, names, 0.0)
    late = trouble.verb == "join" and trouble.fault == "a late request" and not trouble.again
    if late and not acquired:
        # A late copy of a join that was withdrawn enters no line. Before the withdrawal it can.
        await _are_empty(trouble, at, other, names, MORE_S)
    for name in names:
        await at.is_free(other, name, at.bench.gone_s + 5.0)
        await at.is_free(ours, name, at.bench.gone_s + 5.0)  # and the caller's client works


async def _are_empty(
    trouble: Trouble, at: Floor, other: AsyncClient, names: list[str], within: float
) -> None:
    """Check after a late request has arrived that the lines are empty, or become so in time."""
    begun = now()
    while True:
        await at.face.sleep(LATE_S)
        left = [one for name in names for one in await at.claims(other, name)]
        if not left:
            return
        if now() - begun > within + lag.since(begun):
            raise PromiseBroken(f"after {trouble}, claims are left behind: {left}")
