"""What the server keeps: in its memory, on its disk, on its replicas."""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, Level
from .visit import Visit, well

#: Less than this part of the memory, or of the connections, is left: worth a word.
FULL = 0.9
#: A replica that is so many bytes behind, or silent for so many seconds, doesn't follow.
BEHIND_BYTES, SILENT_S = 1 << 20, 10


def examine(visit: Visit) -> Iterator[Finding]:
    """Memory, disk, replicas, connections; nothing where INFO isn't allowed."""
    if visit.info:
        yield from _memory(visit)
        yield _disk(visit)
        yield from _disk_trouble(visit)
        yield from _replicas(visit)
        yield from _connections(visit)


def _memory(visit: Visit) -> Iterator[Finding]:
    limit, used = visit.number("maxmemory"), visit.number("used_memory")
    policy = visit.info.get("maxmemory_policy", "")
    if limit is None or used is None or not policy:
        return
    evicted = visit.number("evicted_keys") or 0
    if not limit:
        yield well("memory", f"{_mib(used)} used, without a limit, so nothing is evicted")
        return
    text = f"{_mib(used)} of {_mib(limit)} used"
    if policy != "noeviction":
        so_far = f", and has evicted {evicted:,} since it was started" if evicted else ""
        yield Finding(
            Level.FAIL if visit.settings.guard == "strict" else Level.WARN,
            "eviction",
            f"when memory is full it deletes keys ({policy}){so_far}: an evicted key is a "
            "forgotten holder, and its name is given to the next",
            "maxmemory-policy noeviction, or a server of its own for the locks",
        )
    if used >= FULL * limit:
        yield Finding(
            Level.WARN,
            "memory",
            f"{text}: when it is full nobody new is let in",
            "give it more (maxmemory)",
        )
    else:
        yield well("memory", text)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _disk(visit: Visit) -> Finding:
    """What a restart loses."""
    if visit.info.get("aof_enabled") == "1":
        fsync = visit.setting("appendfsync")
        if fsync == "always":
            return well("persistence", "a restart loses nothing (appendfsync always)")
        how = {"no": "what the system hadn't written yet", "everysec": "the last second"}
        lost = how.get(fsync or "", "what appendfsync allows")
        return well("persistence", f"append-only file: a crash of the machine loses {lost}")
    save = visit.setting("save")
    if save == "":
        kept = "nothing is written to the disk: a restart forgets every lock"
    elif save is None:
        kept = "there is no append-only file: a restart forgets what came after the last copy"
    else:
        kept = f"copies now and then (save {save}): a restart forgets what came after the last one"
    if visit.settings.guard != "off" and visit.info.get("run_id", "").strip("0"):
        return well("persistence", f"{kept}. The guard lets holders put themselves back")
    return Finding(
        Level.WARN,
        "persistence",
        kept,
        "appendonly yes; with appendfsync always if a restart must lose nothing",
    )


def _disk_trouble(visit: Visit) -> Iterator[Finding]:
    names = {
        "rdb_last_bgsave_status": "its last copy",
        "aof_last_write_status": "the append-only file",
        "aof_last_bgrewrite_status": "the shorter append-only file",
    }
    for key, what in names.items():
        if visit.info.get(key, "ok") != "ok":
            yield Finding(
                Level.WARN,
                "disk",
                f"it could not write {what} to the disk",
                "look into its log: is the disk full, or the folder not its own?",
            )


def _replicas(visit: Visit) -> Iterator[Finding]:
    """Which replicas there are, and how far behind they are."""
    count, offset = visit.number("connected_slaves") or 0, visit.number("master_repl_offset") or 0
    wanted = visit.settings.replicas
    if count < wanted:
        yield Finding(
            Level.FAIL,
            "replicas",
            f"{wanted} must confirm each grant (replicas={wanted}), but there are {count}",
            "give it more replicas, or ask for fewer in the URL",
        )
    if not count:
        return
    late, most = [], 0
    for at in range(count):
        row = visit.info.get(f"slave{at}", "")
        parts = (part.partition("=") for part in row.split(","))
        seen = {key: value for key, _, value in parts}
        behind = offset - int(seen.get("offset") or 0)
        silent = int(seen.get("lag") or 0)
        most = max(most, behind)
        if seen.get("state") != "online":
            late.append(f"{_at(seen)} is not in step yet ({seen.get('state', 'no state')})")
        elif behind > BEHIND_BYTES:
            late.append(f"{_at(seen)} is {_mib(behind)} behind")
        elif silent > SILENT_S:
            late.append(f"{_at(seen)} has been silent for {silent} s")
    if late:
        yield Finding(
            Level.WARN,
            "replicas",
            f"of {count}, {'; '.join(late)}. Promoted now, it would forget the holds that it "
            "hasn't heard of",
            "find out why it doesn't follow: the network, its disk, its load?",
        )
    else:
        yield well("replicas", f"{count}, at most {most:,} bytes behind")


def _at(replica: dict[str, str]) -> str:
    return f"{replica.get('ip', '?')}:{replica.get('port', '?')}"


def _connections(visit: Visit) -> Iterator[Finding]:
    most, now = visit.number("maxclients"), visit.number("connected_clients")
    if not most or now is None:
        return
    text = f"{now:,} of {most:,}"
    if now >= FULL * most:
        yield Finding(
            Level.WARN,
            "connections",
            f"{text}: each thread that acquires needs one, and one more to wait",
            "give it more (maxclients), or find out who has them (CLIENT LIST)",
        )
    else:
        yield well("connections", text)
