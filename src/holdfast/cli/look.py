"""``holdfast ls`` and ``show``: print the holders and waiters of names.

Below the names, one line counts the refresh guards, one the serial queues, if any exist."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..core.model import RWLOCK_CAPACITY, ClaimRecord, LineRecord
from ..errors import HoldfastError
from ..sync import Client
from . import origin
from .text import Paint, ago, count, due, lapses, span, table, until, visible

#: Escape sequences: move the cursor to the top of the screen; clear the screen below the cursor.
HOME, CLEAR = "\033[H", "\033[J"


def ls(options: argparse.Namespace) -> int:
    """List the names that are in use, once or repeatedly."""
    with Client(options.url) as client:
        while True:
            lines = client.inspect(options.prefix)
            if options.json:
                print(json.dumps([record(line) for line in lines]))
            elif options.names:
                for line in lines:
                    print(visible(line.name))
            else:
                room = _size()[0] if options.watch is not None and sys.stdout.isatty() else 0
                text = [*_listing(lines, options, room, client.url)]
                others = _guards(client, options.prefix) + _queues(client, options.prefix)
                text += ["", *others] if others else []
                _draw(text, options.watch)
            if options.watch is None:
                return 0
            gc.enable()
            sys.stdout.flush()
            time.sleep(options.watch)


def show(options: argparse.Namespace) -> int:
    """Show one name: its holders, and the waiters behind them."""
    with Client(options.url) as client:
        lines = client.inspect(options.name, exact=True)
        others = []
        if not options.json:
            others = _queue(client, options.name) + _guard(client, options.name)
    if options.json:
        empty = {"name": options.name, "kind": None, "capacity": None, "claims": []}
        print(json.dumps(record(lines[0]) if lines else empty, indent=2))
    elif not lines:
        where = origin.beside(options, client.url)
        print(f"{visible(options.name)} is free: no holder, no waiter{where}")
    else:
        print("\n".join(_story(lines[0], Paint(sys.stdout))))
    for line in others:
        print(line)
    return 0


def record(line: LineRecord) -> dict[str, Any]:
    """Return the line of a name as data for JSON; ``since`` is local time, other times seconds."""
    now = datetime.now().astimezone()
    claims = []
    for claim in line.claims:
        known = claim.age >= 0
        since = (now - timedelta(seconds=claim.age)).isoformat(timespec="milliseconds")
        times = {
            "age": claim.age if known else None,
            "expires_in": claim.expires_in if claim.expires_in < math.inf else None,
            "since": since if known else None,
        }
        who = {"owner": claim.who, "detached": claim.detached}
        claims.append({**claim._asdict(), **times, **who})
    return {**line._asdict(), "claims": claims}


def _guards(client: Client, prefix: str) -> list[str]:
    """Return a line with the number of refresh guards with this prefix, and a command to list them.

    The list is empty if there are no guards, or if reading them fails: a user can have the right to
    read locks without the right to read guards.
    """
    found = []
    if client.supports("guards"):
        with contextlib.suppress(HoldfastError):
            found = [one for one in client.guards(prefix) if any(one.tally)]
    words = " ".join(["holdfast guard ls", visible(prefix)]).strip()
    return [f"and {count(len(found), 'refresh guard')}: see `{words}`"] if found else []


def _queues(client: Client, prefix: str) -> list[str]:
    """Return a line with the number of serial queues with this prefix, and of their jobs.

    The list is empty if there are no queues, or if reading them fails; see `_guards`.
    """
    found = []
    if client.supports("queues"):
        with contextlib.suppress(HoldfastError):
            found = client.queues(prefix)
    words = " ".join(["holdfast queue ls", visible(prefix)]).strip()
    waiting, taken = sum(one.waiting for one in found), sum(one.taken for one in found)
    jobs = f"{waiting} waiting, {taken} taken, {sum(one.dead for one in found)} dead"
    return [f"and {count(len(found), 'queue')} ({jobs}): see `{words}`"] if found else []


def _queue(client: Client, name: str) -> list[str]:
    """Return a blank line, and a line with the number of jobs in each state of this queue.

    The list is empty if there are no jobs, or if reading the queue fails; see `_guards`.
    """
    if client.supports("queues"):
        from .queue.look import summary  # because few programs have queues

        with contextlib.suppress(HoldfastError):
            record = client.queue(name).stats()
            return ["", f"queue: {summary(record)}"] if any(record[1:]) else []
    return []


def _guard(client: Client, name: str) -> list[str]:
    """Return a blank line and the counts of this refresh guard; nothing if reading fails."""
    if client.supports("guards"):
        from .guard.look import rows  # because few programs have guards

        with contextlib.suppress(HoldfastError):
            found = rows(client, name)
            return ["", *found] if found else []
    return []


# -- ls ---------------------------------------------------------------------------------------


def _listing(
    lines: Sequence[LineRecord], options: argparse.Namespace, room: int, shown: str
) -> Iterator[str]:
    paint = Paint(sys.stdout)
    if not lines:
        begin = f" that begin with {visible(options.prefix)}" if options.prefix else ""
        yield f"no names{begin} are held or waited for{origin.beside(options, shown)}"
    elif options.all:
        yield from table([_EVERY, *(row for line in lines for row in _every(line))], paint, room)
    else:
        yield from table([_EACH, *map(_each, lines)], paint, room)


_EACH = ("NAME", "KIND", "HOLDER", "SINCE", "FENCE", "WAITING")
_EVERY = ("NAME", "KIND", "PLACE", "OWNER", "SINCE", "EXPIRES", "FENCE")


def _each(line: LineRecord) -> tuple[str, ...]:
    """Return the row of a name for ``ls``: a holder, and the numbers of others and of waiters."""
    holders = line.holders
    if not holders:
        return line.name, _kind(line), "none yet", "", "", str(len(line.waiters))
    first = holders[0]
    more = f" and {count(len(holders) - 1, 'other')}" if len(holders) > 1 else ""
    owner = first.owner
    if first.kept:
        owner = f"{first.who} (released, kept {until(first.expires_in)})"
    since, fence = ago(first.age), str(first.fence)
    return line.name, _kind(line), owner + more, since, fence, str(len(line.waiters))


def _every(line: LineRecord) -> Iterator[tuple[str, ...]]:
    """Yield a row for each claim of a name, for ``ls --all``."""
    for claim in line.claims:
        yield line.name, _kind(line), *_claim(claim)


def _claim(claim: ClaimRecord) -> tuple[str, ...]:
    place = "holds" if claim.held else f"waits, {claim.position}."
    ends = lapses(claim.expires_in)
    if claim.kept:
        place, ends = "released", f"kept {until(claim.expires_in)}"
    elif claim.detached:
        place, ends = "detached", f"{due(claim.expires_in)}: no process renews it"
    return place, claim.who, ago(claim.age), ends, str(claim.fence)


def _kind(line: LineRecord) -> str:
    """Return the kind of a name; for a semaphore or rwlock also the permits or readers in use."""
    used = sum(claim.weight for claim in line.holders)
    if line.kind == "semaphore":
        return f"semaphore {used}/{line.capacity}"
    if line.kind == "rwlock":
        if used == RWLOCK_CAPACITY:
            return "rwlock, writing"
        return f"rwlock, {count(used, 'reader')}" if used else "rwlock"
    return line.kind


def _draw(text: list[str], watch: float | None) -> None:
    """Print the text; with ``--watch`` at a terminal, clear the screen first and cut the text."""
    if watch is None or not sys.stdout.isatty():
        print("\n".join(text) + ("\n" if watch is not None else ""))
        return
    head = f"{datetime.now().astimezone():%H:%M:%S}, every {span(watch)}, until Ctrl-C"
    room = max(1, _size()[1] - 2)
    if len(text) > room:
        text = [*text[: room - 1], f"... and {len(text) - room + 1} more"]
    print(HOME + CLEAR + "\n".join([head, "", *text]), end="")


def _size() -> tuple[int, int]:
    """Return the columns and rows of the terminal to which stdout is connected."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return columns or 80, rows or 24


# -- show -------------------------------------------------------------------------------------


def _story(line: LineRecord, paint: Paint) -> Iterator[str]:
    holders, waiters = line.holders, line.waiters
    state = "held" if holders else "not held yet"
    if holders and all(claim.kept for claim in holders):
        last = max(claim.expires_in for claim in holders)
        state = f"released, but kept {until(last)}"
    queue = f", {count(len(waiters), 'claim')} waiting" if waiters else ""
    yield f"{paint(visible(line.name), 'bold')}: {_kind(line)}, {state}{queue}"
    yield ""
    weighty = line.kind == "semaphore" and any(claim.weight != 1 for claim in line.claims)
    noted = any(claim.meta for claim in line.claims)
    head = ["PLACE", "OWNER", "SINCE", "EXPIRES", "FENCE"]
    rows = [head + ["WEIGHT"] * weighty + ["NOTE"] * noted]
    for claim in line.claims:
        row = list(_claim(claim))
        rows.append(row + [str(claim.weight)] * weighty + [claim.meta] * noted)
    yield from table(rows, paint)
