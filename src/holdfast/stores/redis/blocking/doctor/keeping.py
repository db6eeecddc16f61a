"""The data that the server keeps: in memory, on disk, on replicas; from INFO, where allowed."""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import FULL, Finding, Table, fail, ok, warn
from .visit import Visit

#: Maximum bytes by which a replica is behind, and maximum seconds without news of it. Above these
#: numbers, the finding is a warning.
BEHIND_BYTES, SILENT_S = 1 << 20, 10


def _memory(visit: Visit) -> Iterator[Finding]:
    limit, used = visit.number("maxmemory"), visit.number("used_memory")
    policy = visit.info.get("maxmemory_policy", "")
    if limit is None or used is None or not policy:
        return
    if not limit:
        yield ok(f"{_mib(used)} used, without a limit, so nothing is evicted")
        return
    if policy != "noeviction":
        evicted = visit.number("evicted_keys")
        so_far = f", and has evicted {evicted:,} since its start" if evicted else ""
        grave = fail if visit.settings.recovery == "strict" else warn
        yield grave(
            f"when memory is full it deletes keys ({policy}){so_far}: an evicted key is a "
            "forgotten holder, and its name is granted again",
            "maxmemory-policy noeviction, or a separate server for the locks",
            "eviction",
        )
    text = f"{_mib(used)} of {_mib(limit)} used"
    if used >= FULL * limit:
        yield warn(f"{text}: when it is full, new claims are refused", "give it more (maxmemory)")
    else:
        yield ok(text)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _disk(visit: Visit) -> Finding | None:
    """The data that a restart of the server loses."""
    if not visit.info:
        return None
    if visit.info.get("aof_enabled") == "1":
        fsync = visit.setting("appendfsync")
        if fsync == "always":
            return ok("a restart loses nothing (appendfsync always)")
        how = {"no": "all that the system hadn't written yet", "everysec": "the last second"}
        lost = how.get(fsync or "", "as much as appendfsync allows")
        return ok(f"append-only file: a crash of the machine loses {lost}")
    save = visit.setting("save")
    if save == "":
        kept = "nothing is written to the disk: a restart loses every lock"
    elif save is None:
        kept = "there is no append-only file: a restart loses all changes since the last snapshot"
    else:
        kept = f"snapshots only (save {save}): a restart loses all changes since the last one"
    if visit.settings.recovery != "off" and visit.info.get("run_id", "").strip("0"):
        return ok(f"{kept}. Recovery lets holders restore their holds")
    return warn(kept, "appendonly yes; and appendfsync always if a restart must lose nothing")


#: Fields of INFO that report if a file could be written, and the name of the file.
_WRITTEN = {
    "rdb_last_bgsave_status": "its last snapshot",
    "aof_last_write_status": "the append-only file",
    "aof_last_bgrewrite_status": "the rewritten append-only file",
}


def _trouble(visit: Visit) -> Iterator[Finding]:
    for key, what in _WRITTEN.items():
        if visit.info.get(key, "ok") != "ok":
            remedy = "read its log: is the disk full, or does it lack rights to the folder?"
            yield warn(f"it could not write {what} to the disk", remedy)


def _replicas(visit: Visit) -> Iterator[Finding]:
    """The replicas, and how far behind they are."""
    count, wanted = visit.number("connected_slaves"), visit.settings.replicas
    if count is not None and count < wanted:
        yield fail(
            f"{wanted} must confirm each grant (replicas={wanted}), but there are {count}",
            "give it more replicas, or require fewer in the URL",
        )
    if not count:
        return
    late, most, offset = [], 0, visit.number("master_repl_offset") or 0
    for seen in visit.replicas():
        name = f"{seen.get('ip', '?')}:{seen.get('port', '?')}"
        behind = offset - int(seen.get("offset") or 0)
        silent = int(seen.get("lag") or 0)
        most = max(most, behind)
        if seen.get("state") != "online":
            late.append(f"{name} is not in sync yet ({seen.get('state', 'no state')})")
        elif behind > BEHIND_BYTES:
            late.append(f"{name} is {_mib(behind)} behind")
        elif silent > SILENT_S:
            late.append(f"{name} has been silent for {silent} s")
    if late:
        yield warn(
            f"of {count}, {'; '.join(late)}. If it is promoted now, it lacks the latest holds",
            "find out why it doesn't follow: the network, its disk, its load?",
        )
    else:
        yield ok(f"{count}, at most {most:,} bytes behind")


def _connections(visit: Visit) -> Finding | None:
    most, now = visit.number("maxclients"), visit.number("connected_clients")
    if not most or now is None:
        return None
    text = f"{now:,} of {most:,}"
    if now < FULL * most:
        return ok(text)
    return warn(
        f"{text}: each client needs a few, and one more while it waits",
        "raise the limit (maxclients), or find out which clients have them (CLIENT LIST)",
    )


CHECKS: Table[Visit] = {
    "memory": _memory,
    "persistence": _disk,
    "disk": _trouble,
    "replicas": _replicas,
    "connections": _connections,
}
