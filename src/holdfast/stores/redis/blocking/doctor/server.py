"""Checks of the server itself: its version, its kind, its role, and its run id."""

from __future__ import annotations

import re
from typing import Any

from .....core.finding import Finding, Table, fail, ok, warn
from .visit import Visit

OLDEST = (6, 2)
#: Other servers that accept the commands of Redis: the field of INFO with their version; their
#: name.
KIN = {"valkey_version": "Valkey", "dragonfly_version": "Dragonfly", "keydb_version": "KeyDB"}
#: Number of additional connections that are opened to see if all lead to the same server.
CONNECTIONS = 4
_NO_ID = re.compile(r"0*")


def version(hello: dict[str, Any], info: dict[str, str], protocol: int) -> Finding:
    """Check whether the server is new enough."""
    told = info.get("redis_version") or _text(hello.get("version"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", told)[:2])
    name = "Redis " + (told or "of an unknown version")
    for key, kin in KIN.items():
        if key in info:
            name = f"{kin} {info[key]} (as Redis {told})"
    words = [name, f"protocol RESP{protocol}"]
    if uptime := info.get("uptime_in_seconds"):
        words.append(f"up for {_span(int(uptime))}")
    text = ", ".join(words)
    if not told:
        text += ": it answers neither INFO nor HELLO"
        return warn(text, "a proxy, or another program? Redis 6.2 or Valkey is needed")
    return fail(text, "it must be Redis 6.2 or later, or Valkey") if numbers < OLDEST else ok(text)


def _kind(visit: Visit) -> Finding | None:
    """Report a sentinel or a node of a cluster: each accepts connections like a single server."""
    mode = visit.info.get("redis_mode") or _text(visit.hello.get("mode"))
    if mode == "sentinel":
        return fail(
            "this is a sentinel, which keeps no data",
            "write redis+sentinel://host1,host2/NAME/0, or the address of the watched server",
        )
    if mode == "cluster" and not visit.sharded:
        state = visit.look("cluster|info", b"CLUSTER", b"INFO")
        found = re.search(rb"cluster_state:(\w+)", state) if isinstance(state, bytes) else None
        how = f"; the cluster's state is {found[1].decode()}" if found else ""
        return fail(
            f"this is one node of a cluster: it keeps only some of the names{how}",
            "write redis+cluster://host1,host2 (rediss+cluster:// with TLS)",
        )
    return None


def _role(visit: Visit) -> Finding | None:
    info = visit.info
    role = info.get("role") or _text(visit.hello.get("role"))
    if role in ("slave", "replica"):
        place = f" of {info['master_host']}:{info['master_port']}" if "master_host" in info else ""
        down = " (not connected to it now)" if info.get("master_link_status") == "down" else ""
        return fail(
            f"it is a replica{place}{down}, and accepts no writes",
            "write the address of the primary, or an address that follows it",
        )
    return ok("a primary, which accepts writes") if role else None


def _identity(visit: Visit) -> Finding | None:
    """Check whether all connections lead to one server, and whether INFO shows its run id."""
    if not visit.info:
        return None  # the check "unseen" reports the missing right
    ids = {visit.info.get("run_id", "")}
    for _ in range(CONNECTIONS):
        with visit.connected() as link:
            ids.add(visit.told(link).get("run_id", ""))
    if len(ids) > 1:
        return fail(
            f"{CONNECTIONS + 1} connections have led to {len(ids)} different servers, or the "
            "server restarted between them",
            "locks need one server: write its address, not a proxy or a name for several servers",
        )
    (run_id,) = ids
    if _NO_ID.fullmatch(run_id):
        return warn(
            "it hides its run id, so a restart without data isn't noticed",
            "connect to the server itself, not through a proxy, if you can",
        )
    return ok(f"run id {run_id[:8]}..., the same on every connection")


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""


def _span(seconds: int) -> str:
    """A duration as a short text.

    >>> _span(59), _span(7200), _span(864000)
    ('59 s', '2 h', '10 d')
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


CHECKS: Table[Visit] = {
    "server": lambda visit: version(visit.hello, visit.info, visit.protocol),
    "kind": _kind,
    "role": _role,
    "identity": _identity,
}
