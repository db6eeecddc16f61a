"""The values of refresh guards in memory, and the exact meaning of the verbs on them.

An entry is a value, a refresh lease, and a failure, each of which can be missing:

* A **value** is there until ``ttl + stale + keep`` seconds after it was stored.
* A **refresh lease** is there until it expires. Only its holder, recognised by its id *and* its
  fence, can store a value. So a computation that outlives its lease, or began before an
  invalidation, overwrites nothing. The id alone isn't enough: after an invalidation, a late copy of
  the request can get the refresh lease again, with the same id and another fence.
* A **failure** counts the failed computations in a row; during its pause the refresh lease is
  granted to no caller. A stored value ends the failure.

When a verb ends the refresh lease, all waiters are woken at the same time, because they form no
line. If the holder has died, the refresh lease expires, and no waiter is woken: each waiter knows
the time of the expiry from `Busy`.
"""

from __future__ import annotations

from typing import Any

from ...core.guard.model import (
    Abandon,
    Begun,
    Busy,
    Duty,
    Entry,
    EntryRecord,
    EntryState,
    Failing,
    Finish,
    GuardCounts,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from ...core.model import Gone, Held, Loss

#: Number of entries at which expired ones are first removed; next at twice the number that remain.
SWEEP_AT = 1000


class _Kept:
    """A stored value; its times are by the store's clock."""

    def __init__(self, finish: Finish, now: float) -> None:
        self.data = finish.data
        self.fresh_until = now + finish.ttl
        self.stale_until = self.fresh_until + finish.stale
        self.kept_until = self.stale_until + finish.keep
        self.cost = finish.cost
        self.version = finish.fence

    def seen(self, now: float) -> Value:
        fresh, stale = self.fresh_until - now, self.stale_until - now
        return Value(self.data, fresh, stale, self.cost, self.version)


class _Entry:
    """The state of one entry."""

    def __init__(self) -> None:
        self.value: _Kept | None = None
        #: Id of the refresh lease (empty: none), its fence, and the time at which it expires.
        self.id = self.owner = ""
        self.fence = 0
        self.lease_until = 0.0
        self.failures = 0
        self.pause_until = self.failed_until = 0.0
        self.reason = ""
        #: The mailboxes of the waiters, by the ids of their requests.
        self.waiting: dict[str, Any] = {}

    def tidy(self, now: float) -> None:
        """Drop what has expired: the value, the refresh lease, the failure."""
        if self.value is not None and now >= self.value.kept_until:
            self.value = None
        if self.id and now >= self.lease_until:
            self.id = ""
        if now >= self.failed_until:
            self.failures, self.reason = 0, ""

    def empty(self) -> bool:
        """Has the entry no value, no refresh lease, no failure and no waiter?"""
        return self.value is None and not self.id and not self.failures and not self.waiting


class Values:
    """The values of every guard in one space, and the counts of each guard."""

    def __init__(self) -> None:
        self._entries: dict[Entry, _Entry] = {}
        self._tallies: dict[str, GuardCounts] = {}
        #: Number of entries at which expired ones are removed.
        self._sweep_at = SWEEP_AT
        #: The mailboxes to wake after this verb.
        self.pokes: list[Any] = []

    def _at(self, entry: Entry, now: float) -> _Entry | None:
        found = self._entries.get(entry)
        if found is not None:
            found.tidy(now)
            if found.empty():
                del self._entries[entry]
                return None
        return found

    def _wake(self, entry: Entry, at: _Entry) -> None:
        self.pokes.extend(at.waiting.values())
        at.waiting.clear()
        if at.empty():
            self._entries.pop(entry, None)

    def _sweep(self, now: float) -> None:
        if len(self._entries) >= self._sweep_at:
            for entry in list(self._entries):
                self._at(entry, now)
            self._sweep_at = max(SWEEP_AT, 2 * len(self._entries))

    def read(self, entry: Entry, now: float) -> Value | None:
        """See ``core.guard.ports.Guards``."""
        at = self._at(entry, now)
        return None if at is None or at.value is None else at.value.seen(now)

    def begin(self, wish: Wish, now: float, box: Any) -> Begun:
        """See ``core.guard.ports.Guards``."""
        at = self._at(wish.entry, now)
        if at is None:
            self._sweep(now)
            at = self._entries[wish.entry] = _Entry()
        if at.id == wish.id:
            return Duty(at.fence, at.lease_until - now, at.failures)
        kept = at.value
        if kept is not None and now < kept.fresh_until and kept.version != wish.known:
            at.waiting.pop(wish.id, None)
            return kept.seen(now)
        if at.id or now < at.pause_until:
            if wish.wait and box is not None:
                at.waiting[wish.id] = box
            return Busy(at.lease_until - now) if at.id else Failing(at.pause_until - now, at.reason)
        at.waiting.pop(wish.id, None)
        at.id, at.owner, at.fence = wish.id, wish.owner, max(at.fence + 1, int(now * 1e6))
        at.lease_until = now + wish.lease
        return Duty(at.fence, wish.lease, at.failures)

    def finish(self, finish: Finish, now: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        at = self._at(finish.entry, now)
        if at is None:
            return False
        if at.id != finish.id or at.fence != finish.fence:
            return at.value is not None and at.value.version == finish.fence
        at.value, at.id, at.failures, at.failed_until = _Kept(finish, now), "", 0, 0.0
        at.pause_until = 0.0
        self._wake(finish.entry, at)
        return True

    def abandon(self, abandon: Abandon, now: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        at = self._at(abandon.entry, now)
        if at is None:
            return False
        at.waiting.pop(abandon.id, None)
        if at.id != abandon.id:
            return False
        at.id = ""
        if abandon.pause:
            at.failures += 1
            at.reason = abandon.reason
            at.pause_until = now + abandon.pause
            at.failed_until = now + max(abandon.memory, abandon.pause)
        self._wake(abandon.entry, at)
        return True

    def prolong(self, prolong: Prolong, now: float) -> Held | Gone:
        """See ``core.guard.ports.Guards``."""
        at = self._at(prolong.entry, now)
        if at is None or at.id != prolong.id or at.fence != prolong.fence:
            return Gone(Loss.EXPIRED)
        at.lease_until = now + prolong.lease
        return Held(at.fence, prolong.lease)

    def invalidate(self, entry: Entry, now: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        at = self._at(entry, now)
        if at is None:
            return False
        there = at.value is not None
        at.value, at.id, at.failures, at.failed_until = None, "", 0, 0.0
        at.pause_until = 0.0
        self._wake(entry, at)
        return there

    def unlisten(self, wish: Wish, now: float) -> None:
        """Remove the waiter of this request."""
        at = self._at(wish.entry, now)
        if at is not None and at.waiting.pop(wish.id, None) is not None and at.empty():
            del self._entries[wish.entry]

    def look(self, entry: Entry, now: float) -> EntryRecord:
        """See ``core.guard.ports.Guards``."""
        at = self._at(entry, now)
        if at is None:
            return EntryRecord(entry, EntryState.MISSING)
        record = EntryRecord(
            entry,
            EntryState.MISSING,
            owner=at.owner if at.id else "",
            lease_in=at.lease_until - now if at.id else 0.0,
            failures=at.failures,
            pause_in=max(0.0, at.pause_until - now),
            reason=at.reason,
        )
        if at.value is None:
            return record
        value = at.value.seen(now)
        return record._replace(
            state=state_of(value),
            size=len(value.data),
            fresh_in=value.fresh_in,
            stale_in=value.stale_in,
            cost=value.cost,
            version=value.version,
        )

    def survey(self, prefix: str, exact: bool) -> list[GuardRecord]:
        """See ``core.guard.ports.Guards``."""
        return [
            GuardRecord(name, self._tallies[name])
            for name in sorted(self._tallies)
            if (name == prefix if exact else name.startswith(prefix))
        ]

    def tally(self, guard: str, tally: GuardCounts) -> None:
        """See ``core.guard.ports.Guards``."""
        self._tallies[guard] = self._tallies.get(guard, GuardCounts()).plus(tally)


def state_of(value: Value) -> EntryState:
    """Return the state of a value: fresh, stale or expired."""
    if value.fresh_in > 0:
        return EntryState.FRESH
    return EntryState.STALE if value.stale_in > 0 else EntryState.EXPIRED
