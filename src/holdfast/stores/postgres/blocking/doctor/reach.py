"""Where the server is, how it is reached, and whether waiters can be woken there."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator

from .....core.finding import Finding, Level
from .....runtime.blocking import boottime, walltime
from ...complaints import ServerSaid, identifier
from .visit import WITHIN_S, Visit, well, worth

ROUNDS = 20
SLOW_S, SLOWEST_S = 0.050, 0.250
#: Two clocks that are further apart than this will be put right one day.
APART_S = 1.0


def examine(visit: Visit) -> Iterator[Finding]:
    """Server, pooler, latency, clock, pokes."""
    version = visit.row("SELECT version()")[0].partition(",")[0]
    yield well("server", f"{version}, and it can be written to")
    pooled = visit.link.peer.pooled
    kept = not pooled or _kept(visit)
    yield _pooler(visit, kept)
    yield from _isolation(visit, pooled)
    yield _latency(visit)
    yield _clock(visit)
    if kept:
        yield _pokes(visit)


def _kept(visit: Visit) -> bool:
    """Does a pooler seem to keep a session for each connection, as it is said to?"""
    if not visit.settings.sessions:
        return False
    second = visit.connect()
    try:
        return not second.peer.shares([visit.link.peer])
    finally:
        second.close()


def _pooler(visit: Visit, kept: bool) -> Finding:
    if not visit.link.peer.pooled:
        return well("pooler", "none is in between")
    if kept:
        return well("pooler", "one is in between that keeps a session for each connection")
    if visit.settings.sessions:
        return Finding(
            Level.FAIL,
            "pooler",
            "pooler=session, but the pooler in between gives one session to two connections",
            "leave out pooler=session, or set pool_mode = session there",
        )
    return worth(
        "pooler",
        "a pooler is in between, as PgBouncer is. As far as can be seen from here it hands out "
        "sessions for a transaction each: nobody can be woken through it, so waiters ask again, "
        "after 20 ms at first and at last about once a second",
        "pooler=session, if it is in session mode; else an address that leads to the server "
        "itself, where waiting is to be short",
    )


def _isolation(visit: Visit, pooled: bool) -> Iterator[Finding]:
    level = visit.setting("transaction_isolation")
    if level != "read committed":
        yield Finding(
            Level.FAIL,
            "isolation",
            f"transactions are {level.upper()} by themselves"
            + (", which can't be changed through a pooler" if pooled else ""),
            f"ALTER ROLE {identifier(visit.row('SELECT current_user')[0])} "
            "SET default_transaction_isolation = 'read committed'",
        )


def _latency(visit: Visit) -> Finding:
    times = []
    for _ in range(ROUNDS):
        begun = boottime()
        visit.row("SELECT 1")
        times.append(boottime() - begun)
    middle, worst = statistics.median(times), max(times)
    text = f"a request takes {middle * 1e3:.2f} ms, {worst * 1e3:.2f} ms at worst of {ROUNDS}"
    if middle > SLOW_S or worst > SLOWEST_S:
        return worth("latency", text, "is the network slow, or the server very busy?")
    return well("latency", text)


def _clock(visit: Visit) -> Finding:
    begun = walltime()
    server = float(visit.row("SELECT extract(epoch FROM clock_timestamp())")[0])
    apart = server - (begun + walltime()) / 2
    text = f"the server's clock and ours are {abs(apart) * 1e3:.0f} ms apart"
    if abs(apart) > APART_S:
        return worth(
            "clock",
            f"{text}: only the server's counts, but one of them will be put right",
            "let both follow a time server; leases end sooner if the server's clock jumps ahead",
        )
    return well("clock", text)


def _pokes(visit: Visit) -> Finding:
    """Does what is said to a channel arrive?"""
    channel = f"holdfast_doctor_{secrets.token_hex(6)}"
    ear = visit.connect()
    try:
        ear.listen(channel, boottime() + WITHIN_S)
        begun = boottime()
        visit.row(f"SELECT pg_notify('{channel}', 'x')")
        if ear.heard(WITHIN_S):
            took = boottime() - begun
            return well("pokes", f"a message arrives after {took * 1e3:.2f} ms")
        text = "a message to ourselves did not arrive"
    except ServerSaid as said:
        text = f"we can't listen: {said}"
    finally:
        ear.close()
    return worth("pokes", f"{text}: waiters ask once a second", "is a proxy in between?")
