"""The contract of a store that keeps the values of refresh guards.

``stores/memory/values.py`` defines the verbs. As with the verbs of locks, a client can send a verb
twice because its reply was lost; the second request then changes nothing (except for ``tally``,
which is sent once). A verb returns, or raises ``StoreUnavailable``, within ``within`` seconds. A
store with these verbs sets ``guards`` in its ``Capabilities`` and is a `GuardStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ...errors import NotSupported
from ..model import Gone, Held
from .model import (
    Abandon,
    Begun,
    Entry,
    EntryRecord,
    Finish,
    GuardCounts,
    GuardLimits,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)

if TYPE_CHECKING:
    from ..ports import Store


class Guards(Protocol):
    """The values and refresh leases of a store."""

    limits: GuardLimits

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """Return the values of up to 1,000 entries, in order, in one round trip; None if no value.

        It takes no lock and changes nothing.
        """
        ...

    async def begin(self, wish: Wish, within: float) -> Begun:
        """Acquire the refresh lease, atomically, unless it is taken.

        If there is a fresh value other than the known one, it is the answer instead. A repeated
        request with the same id gets the same refresh lease, with the time that is left. The fence
        is greater than any fence of the entry's earlier values. With ``wait``, `Busy` and `Failing`
        are followed by a wake-up when the refresh lease ends in any way.
        """
        ...

    async def finish(self, finish: Finish, within: float) -> bool:
        """Store the value and end the refresh lease; False if that lease has ended.

        False changes nothing. It means that the refresh lease of this id *and fence* is gone: it
        has expired, or the entry was invalidated, and a late copy of our request can have begun a
        new one. All waiters are woken. A repeated request gets the first reply.
        """
        ...

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """End the refresh lease without a value; return True if the lease was held. All waiters are
        woken."""
        ...

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases.

        A lease that has ended, or was ended by an invalidation, is ``Gone``, permanently.
        """
        ...

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Forget the values, cached failures and refresh leases of up to 1,000 entries.

        Return True for each entry that had a value. If the next value of an entry is being
        computed, `finish` later refuses that value. All waiters are woken and begin again.
        """
        ...

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """Sleep until the refresh lease that `Busy` reported ends, or ``seconds`` have passed.

        Return True after a wake-up. A false wake-up is allowed; a lost wake-up costs at most
        ``seconds``.
        """
        ...

    def unlisten(self, wish: Wish) -> None:
        """End the wake-ups for this request. Never fails, never suspends."""
        ...

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """Return the state of an entry, for display."""
        ...

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """Return the guards whose name begins with ``prefix`` (``exact``: equals it), sorted by
        name."""
        ...

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """Add to the counts of a guard; the store keeps them for a week after the last addition."""
        ...


class Glancing(Protocol):
    """An optional verb: return some values without a request."""

    def glance(self, entry: Entry) -> Value | None:
        """Return the value, if it is certain that a ``read`` now would find this value; else None.

        It never fails, whatever the type of the key, and never suspends.
        """
        ...


def glance_of(guards: Guards) -> Callable[[Entry], Value | None] | None:
    """Return the `glance` method of these guards, if they have one."""
    return cast("Glancing", guards).glance if hasattr(guards, "glance") else None


class GuardStore(Protocol):
    """A store that has guards, in addition to its lines."""

    guards: Guards


def guards_of(store: Store) -> Guards:
    """Return the guards of a store; ``NotSupported`` if its capabilities have none."""
    if not store.capabilities.guards:
        why = getattr(store, "no_guards", "")
        raise NotSupported(
            f"{store.label} has no refresh guards{why and ': '}{why}. Use a store that has some, "
            "such as redis or sqlite (see Client.supports('guards')); an external cache (cache=) "
            "keeps only the values, and the refresh leases need such a store too"
        )
    return cast("GuardStore", store).guards
