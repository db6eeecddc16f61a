"""``holdfast guard ls`` and ``show``: print the counts of guards, and the state of a value."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ...core import checks
from ...core.guard.codec import ELSEWHERE
from ...core.guard.model import (
    KEY_BYTES_MAX,
    Entry,
    EntryRecord,
    EntryState,
    GuardCounts,
    GuardRecord,
)
from ...core.guard.ports import guards_of
from ...core.policy import REQUEST_S
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import origin
from ..text import Paint, count, due, lapses, span, table, visible

_HEAD = ("HITS", "STALE", "MISSES", "COMPUTES", "WAITS", "MERGED", "FAILURES", "REFUSED")


def ls(options: argparse.Namespace) -> int:
    """List the guards."""
    with Client(options.url) as client:
        found = client.guards(options.prefix)
    if options.json:
        print(json.dumps([_plain(one) for one in found]))
    elif options.names:
        for one in found:
            print(visible(one.name))
    elif not found:
        begin = f" that begins with {visible(options.prefix)}" if options.prefix else ""
        where = origin.beside(options, client.url)
        print(f"no guard{begin} has any counts{where}")
    else:
        print("\n".join(_table(found)))
    return 0


def rows(client: Client, name: str) -> list[str]:
    """Return the lines of a table for ``holdfast show``: a head, and the row of this guard.

    The list is empty if the guard doesn't exist or has no counts.
    """
    guards = guards_of(client._ctx.store)
    found = run_sync(guards.survey(name, REQUEST_S, exact=True))
    return _table([one for one in found if any(one.tally)], "GUARD")


def _table(found: Sequence[GuardRecord], head: str = "NAME") -> list[str]:
    if not found:
        return []
    return list(table([(head, *_HEAD), *map(_row, found)], Paint(sys.stdout)))


def _plain(one: GuardRecord) -> dict[str, Any]:
    return {"name": one.name, **one.tally._asdict()}


def _row(one: GuardRecord) -> tuple[str, ...]:
    told = one.tally
    numbers = (told.hits, told.stale, told.misses, told.computes, told.waits, told.merged)
    return one.name, *map(str, (*numbers, told.failures, told.refused))


def show(options: argparse.Namespace) -> int:
    """Show the counts of one guard, and the state of one of its values."""
    entry = Entry(options.name, checks.text("key", options.key, KEY_BYTES_MAX, 0))
    with Client(options.url) as client:
        guards = guards_of(client._ctx.store)
        found = run_sync(guards.survey(options.name, REQUEST_S, exact=True))
        stands = run_sync(guards.look(entry, REQUEST_S))
        (value,) = run_sync(guards.read((entry,), REQUEST_S))
    elsewhere = value is not None and value.data == ELSEWHERE
    tally = found[0].tally if found else GuardCounts()
    if options.json:
        print(json.dumps(_told(options.name, tally, stands, elsewhere), indent=2))
        return 0
    paint = Paint(sys.stdout)
    nothing = stands.state is EntryState.MISSING and not stands.owner and not stands.failures
    where = origin.beside(options, client.url) if nothing and not any(tally) else ""
    print(f"{paint(visible(options.name), 'bold')}: {_sum(tally)}{where}")
    if options.key or not nothing:
        print()
        print("\n".join(_story(stands, elsewhere)))
    return 0


def _told(name: str, tally: GuardCounts, stands: EntryRecord, elsewhere: bool) -> dict[str, Any]:
    """Return all fields for JSON; an unknown field is null."""
    value = {**stands._asdict(), "key": stands.entry.key, "elsewhere": elsewhere}
    del value["entry"]
    gone = ["fresh_in", "stale_in", "cost", "version"]
    value.update(dict.fromkeys(gone if stands.state is EntryState.MISSING else []))
    value.update({"size": None} if elsewhere else {})
    value.update({} if stands.owner else {"owner": None, "lease_in": None})
    return {"name": name, "tally": tally._asdict(), "value": value}


def _sum(one: GuardCounts) -> str:
    if not any(one):
        return "it has no counts"
    near = f" ({one.near} in the process)" if one.near else ""
    text = f"{count(one.hits, 'hit')}{near}, {one.stale} stale, {count(one.misses, 'miss')}"
    text += f"; computed {count(one.computes, 'time')}, {count(one.failures, 'failure')}"
    return text + f", {one.refused} refused; {count(one.waits, 'wait')}, {one.merged} merged"


def _story(one: EntryRecord, elsewhere: bool) -> Iterator[str]:
    what = f"value {visible(one.entry.key)!r}" if one.entry.key else "its value"
    ages = {
        EntryState.FRESH: f"fresh, stale {due(one.fresh_in)}",
        EntryState.STALE: f"stale for {span(-one.fresh_in)}, served for {span(one.stale_in)} more",
        EntryState.EXPIRED: f"expired for {span(-one.stale_in)}, served only after a time-out",
        EntryState.MISSING: "missing",
    }
    yield f"{what}: {ages[one.state]}"
    if one.state is not EntryState.MISSING:
        size = "in an external cache" if elsewhere else count(one.size, "byte")
        yield f"  {size}, took {span(one.cost)} to compute, version {one.version}"
    if one.owner:
        yield f"  computed by {visible(one.owner)}, whose lease ends {lapses(one.lease_in)}"
    if one.failures:
        again = f"retried {due(one.pause_in)}" if one.pause_in > 0 else "retried on demand"
        yield f"  failed {count(one.failures, 'time')} in a row, {again}: {visible(one.reason)}"
