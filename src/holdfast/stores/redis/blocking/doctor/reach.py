"""How far away it is: the time of a request, its clock beside ours, and whether pokes arrive."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from .....core.finding import Finding, Level
from .....runtime.blocking import boottime
from ...complaints import ServerSaid, rules
from ...slots import address_in
from .visit import Clock, Visit, well

ROUNDS = 20
#: What a request may take, in the middle and at worst, seconds.
SLOW_S, WORST_S = 0.05, 0.25
#: Clocks that follow the same time differ by milliseconds; by so much, one follows none.
APART_S = 1.0
#: A message to oneself that takes longer than this is taken to be lost, seconds.
LOST_S = 1.0


def examine(visit: Visit) -> Iterator[Finding]:
    """Latency, clock, pokes."""
    looks = [look for look in (visit.clock() for _ in range(ROUNDS)) if look]
    if looks:
        yield _latency(looks)
        yield _clock(min(looks, key=lambda look: look.took))
    yield _pokes(visit)


def _latency(looks: list[Clock]) -> Finding:
    times = [look.took for look in looks]
    middle, worst = statistics.median(times), max(times)
    text = f"a request takes {middle * 1000:.2f} ms, {worst * 1000:.2f} ms at worst of {len(times)}"
    if middle > SLOW_S or worst > WORST_S:
        return Finding(
            Level.WARN,
            "latency",
            text,
            "acquire and release cost one request each: is the server far away, or busy with slow "
            "commands (SLOWLOG GET)?",
        )
    return well("latency", text)


def _clock(look: Clock) -> Finding:
    apart = look.server - look.ours
    if abs(apart) - look.took < APART_S:
        return well("clock", f"{apart * 1000:+.0f} ms beside ours")
    way = "ahead of" if apart > 0 else "behind"
    return Finding(
        Level.WARN,
        "clock",
        f"{abs(apart):,.1f} s {way} ours. That alone does no harm, but when it is put right "
        "by a jump, leases end sooner or later than their holders think",
        "have both machines follow the time of the network (NTP), which moves clocks gently",
    )


def _pokes(visit: Visit) -> Finding:
    """Does a message to ourselves arrive?"""
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
                return well("pokes", f"arrive after {took * 1000:.2f} ms")
        except OSError as wrong:
            return _deaf(f"listening failed ({wrong})", "is a proxy in between?")
    return _deaf(
        f"a message to ourselves did not arrive within {LOST_S:g} s",
        "is a proxy in between? Connect to the server itself, or try ?protocol=2",
    )


def _deaf(why: str, remedy: str) -> Finding:
    text = f"without pokes a waiter asks again every second at least: {why}"
    return Finding(Level.WARN, "pokes", text, remedy)


def _remedy(visit: Visit, refusal: ServerSaid) -> str:
    if refusal.code == "NOPERM" and visit.sharded:
        return rules(visit.user_name, "+ssubscribe", "+spublish", f"&*{visit.prefix}:poke:*")
    if refusal.code == "NOPERM":
        return rules(visit.user_name, "+subscribe", "+publish", f"&{visit.prefix}:*")
    return "is a proxy in between? Connect to the server itself"
