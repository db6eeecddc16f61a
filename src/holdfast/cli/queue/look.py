"""``holdfast queue ls``, ``show`` and ``dead``: list queues, jobs and dead letters."""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from ...core.queue import payload as payloads
from ...core.queue.model import JobRecord, JobState, QueueRecord
from ...errors import ConfigError
from ...runtime.blocking import boottime
from ...sync import Client
from .. import origin
from ..text import Paint, ago, count, due, lapses, span, table, visible

#: Maximum characters of a payload or a reason in a table.
CUT = 60
_QUEUES = ("NAME", "WAITING", "TAKEN", "DEAD", "GROUPS", "OLDEST", "DONE")
_RATES = ("PUT/S", "DONE/S")
_JOBS = ("ID", "GROUP", "STATE", "ATTEMPT", "ACCEPTED", "NEXT", "PAYLOAD")
_DEAD = ("ID", "GROUP", "ATTEMPTS", "ACCEPTED", "REASON", "PAYLOAD")


def ls(options: argparse.Namespace) -> int:
    """List the queues; with ``--rate``, also the jobs put and done per second."""
    with Client(options.url) as client:
        before, begun = [], boottime()
        if options.rate is not None:
            before = client.queues(options.prefix)
            time.sleep(options.rate)
        found = client.queues(options.prefix)
        passed = max(boottime() - begun, 0.001)
    rates = _rates(before, found, passed) if options.rate is not None else {}
    if options.json:
        print(json.dumps([{**one._asdict(), **rates.get(one.name, {})} for one in found]))
    elif options.names:
        for one in found:
            print(visible(one.name))
    elif not found:
        begin = f" that begins with {visible(options.prefix)}" if options.prefix else ""
        print(f"there is no queue{begin}{origin.beside(options, client.url)}")
    else:
        rows = [_QUEUES + _RATES * bool(rates)]
        rows += [_row(one) + _per_second(rates.get(one.name)) for one in found]
        print("\n".join(table(rows, Paint(sys.stdout))))
    return 0


def _rates(
    before: Sequence[QueueRecord], after: Sequence[QueueRecord], passed: float
) -> dict[str, dict[str, float]]:
    """Return for each queue the number of jobs put and done per second, in ``passed`` seconds."""
    was = {one.name: one for one in before}
    rates = {}
    for one in after:
        old = was.get(one.name)
        put, done = (old.accepted, old.done) if old else (0, 0)
        rates[one.name] = {
            "put_per_second": max(one.accepted - put, 0) / passed,
            "done_per_second": max(one.done - done, 0) / passed,
        }
    return rates


def _row(one: QueueRecord) -> tuple[str, ...]:
    sizes = (one.waiting, one.taken, one.dead, one.groups)
    oldest = span(one.oldest) if one.waiting else "-"
    return one.name, *map(str, sizes), oldest, str(one.done)


def _per_second(rates: dict[str, float] | None) -> tuple[str, ...]:
    return tuple(f"{one:.1f}" for one in rates.values()) if rates else ()


def show(options: argparse.Namespace) -> int:
    """Show the jobs of a queue."""
    with Client(options.url) as client:
        queue = client.queue(options.name)
        record = queue.stats()
        jobs = queue.jobs(options.state, group=options.group, limit=options.limit)
    if options.json:
        print(json.dumps([plain(one) for one in jobs]))
        return 0
    paint = Paint(sys.stdout)
    where = "" if jobs else origin.beside(options, client.url)
    if not (jobs or any(record[1:])):
        print(_missing(options, where))
        return 0
    print(f"{paint(visible(options.name), 'bold')}: {summary(record)}{where}")
    if jobs:
        print()
        print("\n".join(table([_JOBS, *map(_job, jobs)], paint)))
        _more(jobs, options.limit)
    return 0


def dead(options: argparse.Namespace) -> int:
    """List the dead letters of a queue."""
    with Client(options.url) as client:
        queue = client.queue(options.name)
        jobs = queue.jobs("dead", group=options.group, limit=options.limit)
        there = bool(jobs) or options.json or any(queue.stats()[1:])
    if options.json:
        print(json.dumps([plain(one) for one in jobs]))
    elif not jobs:
        where = origin.beside(options, client.url)
        text = f"{visible(options.name)} has no dead letters{where}"
        print(text if there else _missing(options, where))
    else:
        print("\n".join(table([_DEAD, *map(_letter, jobs)], Paint(sys.stdout))))
        _more(jobs, options.limit)
    return 0


def _missing(options: argparse.Namespace, where: str) -> str:
    return f"there is no queue {visible(options.name)!r}{where}"


def summary(one: QueueRecord) -> str:
    """Return the number of jobs in each state of a queue, in words."""
    text = f"{one.waiting} waiting, {one.taken} taken, {one.dead} dead, {one.done} done"
    groups = f" in {count(one.groups, 'group')}" if one.groups else ""
    oldest = f"; the oldest has waited for {span(one.oldest)}" if one.waiting else ""
    return text + groups + oldest


def _more(jobs: Sequence[JobRecord], most: int) -> None:
    if len(jobs) == most:
        print(f"... these are the first {most}; use --limit N to list more")


def _job(one: JobRecord) -> tuple[str, ...]:
    later = {
        JobState.DELAYED: f"due {due(one.due_in)}",
        JobState.TAKEN: f"{one.owner}, expires {lapses(one.expires_in)}",
        JobState.DEAD: _cut(one.reason),
    }
    stands = (one.state, str(one.attempts), ago(one.age), later.get(one.state, ""))
    return one.id, one.group or "-", *stands, _cut(_words(one.payload))


def _letter(one: JobRecord) -> tuple[str, ...]:
    what = (one.id, one.group or "-", str(one.attempts), ago(one.age))
    return *what, _cut(one.reason), _cut(_words(one.payload))


def _words(packed: bytes) -> str:
    """Return a payload as readable text."""
    content = _content(packed)
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return f"{count(len(content), 'byte')}: {content[:CUT]!r}"
    return json.dumps(content, ensure_ascii=False)


def _content(packed: bytes) -> Any:
    try:
        return payloads.unpack(packed)
    except (ConfigError, ValueError):
        return packed  # another program than holdfast has put it


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 3] + "..."


def plain(one: JobRecord) -> dict[str, Any]:
    """Return a job as data for JSON; a payload of bytes becomes base64, in ``payload_base64``."""
    content = _content(one.payload)
    told = one._asdict()
    del told["payload"]
    if isinstance(content, bytes):
        return {**told, "payload_base64": base64.b64encode(content).decode()}
    return {**told, "payload": content}
