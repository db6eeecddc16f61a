"""Checks if recovery has a record of this server, and if recovery grants names."""

from __future__ import annotations

import re

from .....core.finding import Finding, ok, warn
from ...keys import recovery_of
from ...recovery import YOUNG_S, Recovery, barred
from .visit import Visit

_RECORD = re.compile(rb"([0-9a-f]{40})(?: (\d+) (\w))?")


def examine(visit: Visit) -> Finding | None:
    """The state of the recovery records; None if the server hides its run id."""
    recovery = Recovery(visit.settings)
    run_id = visit.info.get("run_id", "")
    if not recovery.on:
        return ok("off by the URL: after a restart without data two clients can hold a name")
    return _records(visit, recovery, run_id.encode()) if run_id.strip("0") else None


def _records(visit: Visit, recovery: Recovery, run_id: bytes) -> Finding:
    said = visit.ask_many([(b"GET", recovery_of(visit.prefix, bucket)) for bucket in visit.buckets])
    found = [_RECORD.fullmatch(one) for one in said if isinstance(one, bytes)]
    records = [one for one in found if one]
    clock, up = visit.clock(), visit.number("uptime_in_seconds")
    now = clock.server if clock else 0.0
    shut = [one for one in records if one[1] == run_id and one[2] and int(one[2]) / 1e6 > now]
    if shut:
        latest = max(shut, key=lambda one: int(one[2]))
        words = str(barred(visit.label, int(latest[2]) / 1e6 - now, latest[3]))
        return warn(words, "wait, and find out why that happened")
    young = max(YOUNG_S, recovery.window) if recovery.mode == "strict" else YOUNG_S
    if up is not None and up < young and len(records) < len(visit.buckets):
        return warn(
            f"grants nothing at first, as it started {up} s ago: a client that asks in the next "
            f"{max(1.0, young - up):.0f} s is granted {recovery.window:g} s after that, so that "
            "holders from before the start can renew first",
            f"wait, or start the server {young:.0f} s before its first client",
        )
    if any(one[1] != run_id for one in records):
        return warn(
            "this isn't the server that gave the latest grants: it restarted, or was promoted. "
            f"Nothing will be granted for {recovery.window:g} s, so that holders can renew first",
            "nothing, if that was planned; otherwise find out why it happened",
        )
    return ok(f"{recovery.mode}, grace period {recovery.window:g} s; this server is known")
