"""The wait for locks in ``holdfast run`` and ``acquire``, and its messages."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Any

from ..core import checks
from ..core.model import ClaimRecord, LineRecord
from ..errors import CapacityMismatch, HoldfastError, LockLost, StoreUnavailable
from ..runtime.blocking import boottime, run_sync
from ..runtime.polling.blocking import READ, poller
from ..sync import Client, Hold, Lock
from .text import count, say, span, until, visible

#: Seconds of waiting after which a message names the holder.
SAY_AFTER_S = 1.0
#: Maximum attempts. An attempt is repeated if the line of claims has another kind, or the hold was
#: lost. The kind can change only while the line is empty, so this limit is rarely reached.
TRIES = 20


class Waiting:
    """The wait for one lock, or for several locks together."""

    def __init__(
        self,
        client: Client,
        options: argparse.Namespace,
        names: Sequence[str],
        line: socket.socket | None = None,
        **terms: Any,
    ) -> None:
        self.client = client
        self.options = options
        self.names = names
        #: The name that was busy.
        self.name = names[0]
        #: The connection to the front, in the holder process of ``run``; else None.
        self.line = line
        #: The arguments of each lock: ttl and others.
        self.terms = {"ttl": options.ttl, **terms}
        self.over = False

    def acquire(self) -> list[Hold]:
        """Return a hold on each name; an empty list if a name stays busy until the time-out.

        If other clients share a name with ``-s``, the name is a read-write lock. Then ``run``
        without ``-s`` acquires this name as a writer. If the name is a plain lock, ``-s`` acquires
        the plain lock, and holds it alone. So commands with and without ``-s`` exclude each other
        in one line of claims, as with flock(1).
        """
        options = self.options
        ways = {name: self._ways(name) for name in self.names}
        end = None if options.wait is None else boottime() + options.wait
        if not options.nonblock:
            threading.Thread(target=self._attend, daemon=True).start()
        try:
            for _ in range(TRIES):
                left = None if end is None else max(0.0, end - boottime())
                try:
                    return self._all(ways, checks.TRY if options.nonblock else left)
                except CapacityMismatch as other:
                    way = ways[other.name]
                    if len(way) == 1 or other.kind not in ("lock", "rwlock"):
                        raise
                    way.reverse()  # so that the next attempt uses the other kind
                except LockLost:
                    continue  # the hold was lost before the first use
        finally:
            self.over = True
        which = ", ".join(map(repr, self.names))
        raise StoreUnavailable(f"{which} could not be acquired in {TRIES} attempts; try again")

    def _all(self, ways: dict[str, list[Lock]], wait: float | None) -> list[Hold]:
        """Acquire the first lock in ``ways`` of each name; return the holds in order of names."""
        locks = self.client.all(*(ways[name][0] for name in self.names))
        found, busy, _ = run_sync(locks._try(wait))
        if found is None:
            self.name = busy.name
            return []
        holds = {hold.name: _whole(hold) for hold in found._holds}
        return [holds[name] for name in self.names]

    def _ways(self, name: str) -> list[Lock]:
        """Return the locks to try for a name: the requested kind, then one of the other kind."""
        options, client, terms = self.options, self.client, self.terms
        if options.semaphore:
            return [client.semaphore(name, options.semaphore, **terms)]
        lock = client.lock(name, **terms)
        if terms.get("min_hold") or not (client.supports("rwlock") or options.shared):
            return [lock]
        both = client.rwlock(name, **terms)
        if options.shared:
            return [both.read, lock]
        return [both.write, lock] if options.exclusive else [lock, both.write]

    def _attend(self) -> None:
        """Print the holder after ``SAY_AFTER_S``; end the wait if the front dies.

        This runs in a thread."""
        polling = poller()
        if self.line is not None:
            polling.register(self.line, READ)
        if not polling.poll(SAY_AFTER_S * 1000) and not self.over:
            if not self.options.quiet:
                self.tell()
            if self.line is not None:
                polling.poll()
        if self.line is not None and not self.over:
            # The front sends nothing before the lock is held, so this event means that it has died.
            os.kill(os.getpid(), signal.SIGINT)

    def tell(self) -> None:
        """Print what this process waits for: a holder, or an answer of the store."""
        try:
            text = self._story()
        except StoreUnavailable as wrong:
            text = f"waiting for {self.name!r}: {wrong}"
        except HoldfastError:
            return  # the wait reports this error
        if text and not self.over:
            say(text)

    def _story(self) -> str:
        """Return a text about a holder, or about a store that grants a free name to no client."""
        found = {name: self.client.inspect(name, exact=True) for name in self.names}
        held = {name: lines for name, lines in found.items() if lines and lines[0].holders}
        if not held:
            return (
                f"waiting for {self.name!r}: no client holds it, but {self.client.url} grants "
                "nothing yet; `holdfast doctor` shows why"
            )
        return next(filter(None, (self._about(name, lines) for name, lines in held.items())), "")

    def _about(self, name: str, lines: Sequence[LineRecord]) -> str:
        """Return a text about the holder of a name, and this client's position.

        With several names, return "" for a name on which this client has no waiting claim."""
        holders, text = lines[0].holders, f"waiting for {name!r}, {_held(lines[0].holders)}"
        places = [c.position for c in lines[0].waiters if c.owner == self.client.owner]
        if not places and len(self.names) > 1:
            return ""
        if places:
            text += "; next in line" if places[0] == 1 else f"; number {places[0]} in line"
        inside = os.environ.get("HOLDFAST_NAME") == name
        if inside and os.environ.get("HOLDFAST_FENCE") in [str(c.fence) for c in holders]:
            text += ". That is the command that runs this one: it waits for itself"
        return text

    def busy(self) -> str:
        """Return the message that the name is busy, with its holder."""
        text = f"{self.name!r} is busy"
        try:
            lines = self.client.inspect(self.name, exact=True)
        except HoldfastError:
            lines = []
        if lines and lines[0].holders:
            text += f", {_held(lines[0].holders)}"
            if lines[0].waiters:
                text += f", with {count(len(lines[0].waiters), 'waiter')} ahead"
        waited = self.options.wait
        return text + (f"; waited {span(waited)}" if waited else "")


def _whole(hold: Hold) -> Hold:
    """Return the hold, renewed if less than half of its lease is left.

    A hold that began with a hand-off has only the rest of the waiter TTL. Without this renewal,
    `keep` would take the short lease for failed renewals, and print a warning.
    """
    if hold.remaining() < hold.ttl / 2:
        try:
            hold.extend()
        except BaseException:
            hold.release()
            raise
    return hold


def _held(holders: Sequence[ClaimRecord]) -> str:
    first = holders[0]
    since = f" for {span(first.age)}" if first.age >= 0 else ""
    text = f"held by {visible(first.owner)}{since} (fence {first.fence})"
    if first.kept:
        text = (
            f"released by {visible(first.who)}, and kept {until(first.expires_in)} by --min-hold "
        )
        text += f"or min_hold (fence {first.fence})"
    return text + (f" and {count(len(holders) - 1, 'other')}" if len(holders) > 1 else "")
