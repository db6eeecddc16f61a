"""The verbs of refresh guards in one transaction. ``stores/memory/values.py`` defines them.

The caller begins and ends the transaction. After the commit, it wakes the waiters for the entries
in ``ended``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from .....core.guard.model import (
    TALLY_KEPT_S,
    Abandon,
    Begun,
    Busy,
    Duty,
    Entry,
    Failing,
    Finish,
    GuardCounts,
    Prolong,
    Wish,
)
from .....core.model import Gone, Held, Loss
from ..sql import guards as statements
from .rows import DutyRow, value_of

#: Maximum number of expired rows that one `finish` or `begin` removes.
FADE = 4

_SQL = statements()


class Values:
    """The values in one transaction; ``now`` is its time."""

    def __init__(
        self, run: Callable[..., sqlite3.Cursor], now: float, fence: Callable[[], int]
    ) -> None:
        self.run = run
        self.now = now
        self._next_fence = fence
        #: Entries whose refresh lease has ended.
        self.ended: list[Entry] = []
        #: If the last `begin` returned `Busy`: the session that holds the refresh lease.
        self.holder = ""
        #: A session that was found dead: its refresh leases have ended.
        self.dead = ""

    def _duty(self, entry: Entry) -> DutyRow:
        row = self.run(_SQL.duty, entry).fetchone()
        duty = DutyRow(*entry) if row is None else DutyRow(*row)
        duty.tidy(self.now)
        return duty

    def _save(self, duty: DutyRow) -> None:
        """Write the refresh lease and the failures of an entry; delete the row if it has
        neither."""
        if duty.id or duty.failures:
            self.run(_SQL.duty_put, duty.values())
        else:
            self.run(_SQL.duty_drop, (duty.guard, duty.key))

    def begin(self, wish: Wish, session: str, dead: Callable[[str], bool]) -> Begun:
        """See :meth:`holdfast.core.guard.ports.Guards.begin`. ``dead(session)``: has this session
        ended? Then its refresh leases end, too."""
        now, entry = self.now, wish.entry
        duty = self._duty(entry)
        if duty.id == wish.id:
            return Duty(duty.fence, duty.lease - now, duty.failures)
        head = self.run(_SQL.value_head, entry).fetchone()
        if head is not None and now < head[0] and head[2] != wish.known:
            value = value_of(self.run(_SQL.value, entry).fetchone(), now)
            assert value is not None
            return value
        if duty.id and duty.session != session and dead(duty.session):
            self.dead = duty.session
            self.run(_SQL.session_over, (duty.session,))
            duty.over()
        if duty.id:
            self.holder = duty.session
            return Busy(duty.lease - now)
        if now < duty.pause:
            return Failing(duty.pause - now, duty.reason)
        duty.id, duty.owner, duty.session = wish.id, wish.owner, session
        duty.fence, duty.lease = self._next_fence(), now + wish.lease
        self._save(duty)
        self.run(_SQL.duties_fade, (now, FADE))
        return Duty(duty.fence, wish.lease, duty.failures)

    def finish(self, finish: Finish) -> bool:
        """See :meth:`holdfast.core.guard.ports.Guards.finish`."""
        now, entry = self.now, finish.entry
        duty = self._duty(entry)
        if duty.id != finish.id or duty.fence != finish.fence:
            head = self.run(_SQL.value_head, entry).fetchone()
            return head is not None and now < head[1] and head[2] == finish.fence
        fresh = now + finish.ttl
        stale = fresh + finish.stale
        ends = (fresh, stale, stale + finish.keep)
        # Expired values are removed first, so that this value can use their place in the file.
        self.run(_SQL.values_fade, (now, FADE))
        self.run(_SQL.value_put, (*entry, *ends, finish.cost, finish.fence, finish.data))
        self.run(_SQL.duty_drop, entry)
        self.ended.append(entry)
        return True

    def abandon(self, abandon: Abandon) -> bool:
        """See :meth:`holdfast.core.guard.ports.Guards.abandon`."""
        now = self.now
        duty = self._duty(abandon.entry)
        if duty.id != abandon.id:
            return False
        duty.over()
        if abandon.pause:
            duty.failures += 1
            duty.reason = abandon.reason
            duty.pause = now + abandon.pause
            duty.failed = now + max(abandon.memory, abandon.pause)
        self._save(duty)
        self.ended.append(abandon.entry)
        return True

    def prolong(self, prolong: Prolong) -> Held | Gone:
        """See :meth:`holdfast.core.guard.ports.Guards.prolong`."""
        duty = self._duty(prolong.entry)
        if duty.id != prolong.id or duty.fence != prolong.fence:
            return Gone(Loss.EXPIRED)
        duty.lease = self.now + prolong.lease
        self._save(duty)
        return Held(duty.fence, prolong.lease)

    def invalidate(self, entry: Entry) -> bool:
        """See :meth:`holdfast.core.guard.ports.Guards.invalidate`."""
        head = self.run(_SQL.value_head, entry).fetchone()
        if head is not None:
            self.run(_SQL.value_drop, entry)
        if self.run(_SQL.duty_drop, entry).rowcount:
            self.ended.append(entry)
        return head is not None and self.now < head[1]

    def tally(self, guard: str, tally: GuardCounts) -> None:
        """See :meth:`holdfast.core.guard.ports.Guards.tally`."""
        self.run(_SQL.tallies_fade, (self.now - TALLY_KEPT_S,))
        self.run(_SQL.tally_add, (guard, self.now, *tally))
