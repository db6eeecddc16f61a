"""Checks the time of a request, the clocks of both sides, and the arrival of wake-ups."""

from __future__ import annotations

from .....core.finding import Finding, Table, clock, latency, ok, warn
from .....runtime.blocking import boottime
from ...complaints import ServerSaid, rules
from ...slots import address_in
from . import clocks
from .visit import Visit

#: Seconds after which a message to ourselves counts as lost.
LOST_S = 1.0


def _clock(visit: Visit) -> Finding | None:
    found = clocks.of(visit)
    return clock(*found) if found else None


def _pokes(visit: Visit) -> Finding:
    """Test whether a message to ourselves arrives."""
    channel, publish = f"{visit.prefix}:poke:".encode() + visit.word, b"PUBLISH"
    if visit.sharded:
        channel = address_in(visit.buckets[0], visit.prefix, visit.word.decode())
        publish = b"SPUBLISH"
    with visit.connected() as ear:
        try:
            refusal = ear.subscribe(channel, boottime() + LOST_S)
            begun = boottime()
            reached = refusal or visit.ask(publish, channel, visit.word)
            if isinstance(reached, ServerSaid):
                return _deaf(f"the server refuses them ({reached})", _remedy(visit, reached))
            if ear.listen(visit.word, begun + LOST_S):
                took = boottime() - begun
                return ok(f"arrive after {took * 1000:.2f} ms")
        except OSError as wrong:
            return _deaf(f"listening failed ({wrong})", "is a proxy in between?")
    return _deaf(
        f"a test message did not arrive within {LOST_S:g} s",
        "is a proxy in between? Connect to the server itself, or try ?protocol=2",
    )


def _deaf(why: str, remedy: str) -> Finding:
    return warn(f"without wake-ups a waiter asks again every second at least: {why}", remedy)


def _remedy(visit: Visit, refusal: ServerSaid) -> str:
    if refusal.code == "NOPERM" and visit.sharded:
        return rules(visit.user_name, "+ssubscribe", "+spublish", f"&*{visit.prefix}:poke:*")
    if refusal.code == "NOPERM":
        return rules(visit.user_name, "+subscribe", "+publish", f"&{visit.prefix}:*")
    return "is a proxy in between? Connect to the server itself"


_FAR = (
    "acquire and release cost one request each: is the server far away, or busy with slow "
    "commands (SLOWLOG GET)?"
)
CHECKS: Table[Visit] = {
    "latency": lambda visit: latency(boottime, visit.clock, _FAR),
    "clock": _clock,
    "wake-ups": _pokes,
}
