"""The contract of a store that keeps the values of refresh guards. What the verbs mean stands in
``stores/memory/values.py``.

As with the five verbs of locks, each verb may be sent twice because its reply was lost, and then
changes nothing the second time (but ``tally``, which is sent once); it returns, or raises
``StoreUnavailable``, within ``within`` seconds. A store that has them says ``guards`` in its
``Capabilities`` and is a `GuardStore`.
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
    GuardLimits,
    GuardRecord,
    Prolong,
    Tally,
    Value,
    Wish,
)

if TYPE_CHECKING:
    from ..ports import Store


class Guards(Protocol):
    """Where values are kept, and who computes them."""

    limits: GuardLimits

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """The values of up to 1,000 entries, in order, in one round trip; None where there is
        none. It takes no lock and changes nothing."""
        ...

    async def begin(self, wish: Wish, within: float) -> Begun:
        """Take the refresh lease to compute the value, atomically, unless somebody else has it.

        A fresh value is the answer instead, if it isn't the one that is known. The same id once
        more gives the same refresh lease, its lease as it stands. The fence is greater than any
        that the entry's value has had. With ``wait``, `Busy` and `Failing` are followed by a
        wake-up when the refresh lease ends in any way.
        """
        ...

    async def finish(self, finish: Finish, within: float) -> bool:
        """Store the value and end the refresh lease; False, and nothing is changed, if the refresh
        lease of this id *and fence* isn't there any more: its lease has expired, or the entry was
        invalidated, maybe begun again by a late copy of our own request. Every waiter is woken, all
        at once. The same request once more gives the answer of the first time."""
        ...

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """End the refresh lease without a value; was it ours? Every waiter is woken."""
        ...

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of refresh leases; one that has ended, or was taken away by an
        invalidation, is ``Gone`` and never comes back."""
        ...

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """Forget the values, cached failures and refresh leases of up to 1,000 entries; for each:
        was there a value? What is being computed for one of them is refused when it comes, and
        every waiter is woken and begins again."""
        ...

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """Sleep until the refresh lease that a `Busy` told of has ended, or until ``seconds`` have
        passed; was it a wake-up? Waking for nothing is allowed, and losing a wake-up costs no more
        than ``seconds``."""
        ...

    def unlisten(self, wish: Wish) -> None:
        """Nobody waits by this request any more. Never fails, never suspends."""
        ...

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """How an entry stands, for people."""
        ...

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """The guards whose name begins with ``prefix`` (or is it), sorted by name."""
        ...

    async def tally(self, guard: str, tally: Tally, within: float) -> None:
        """Add to the numbers of a guard; they are kept a week beyond the last time."""
        ...


class Glancing(Protocol):
    """Guards that know some values without asking anybody; not every store has such."""

    def glance(self, entry: Entry) -> Value | None:
        """The value, if it can be told at this moment that ``read`` would find the same; else
        None. Never fails, not for a key of any kind either, and never suspends."""
        ...


def glance_of(guards: Guards) -> Callable[[Entry], Value | None] | None:
    """How these guards are glanced at, if they can be."""
    return cast("Glancing", guards).glance if hasattr(guards, "glance") else None


class GuardStore(Protocol):
    """A store that has guards, beside its lines."""

    guards: Guards


def guards_of(store: Store) -> Guards:
    """The guards of a store that says that it has some."""
    if not store.capabilities.guards:
        why = getattr(store, "no_guards", "")
        raise NotSupported(
            f"{store.label} has no refresh guards{why and ': '}{why}. Take a store that has some, "
            "such as redis or sqlite (see Client.supports('guards')); a cache of your own (cache=) "
            "keeps the values alone, and the duties need such a store all the same"
        )
    return cast("GuardStore", store).guards
