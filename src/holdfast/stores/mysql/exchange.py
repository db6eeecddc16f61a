"""Exchange of statements and replies with a server, for threads and for an event loop.

A statement that was rolled back is sent again, within the time of the verb. Missing tables and
procedures are made. A statement that the server may have carried out is never sent again here. Only
the core repeats it, because the core must take a late copy of the statement into account.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from ...core.policy import back_off
from ...errors import StoreUnavailable
from .complaints import MISSING, OVER, ROLLED_BACK, ServerSaid, complaint
from .config import Settings
from .replies import Rows
from .schema import ALREADY, layout_of, refuse_newer, statements

#: The longest pause, in seconds, before a statement that was rolled back is sent again.
AGAIN_S = 0.2
#: Time limit, in seconds, for making the tables and procedures.
MAKE_S = 30.0
#: Procedures that renew or release. One more connection is reserved for them, so that they never
#: wait behind requests for something new.
_URGENT = (
    "_leave_all", "_renew", "_stand", "_queue_extend", "_queue_settle", "_queue_return",
    "_refresh_prolong", "_refresh_abandon", "_refresh_finish",
)  # fmt: skip


def urgent(sql: str) -> bool:
    """True if this statement renews or releases, but False for a leave that makes a tombstone.

    >>> [urgent(f"CALL a_{one})") for one in ("leave_2(1,0", "leave_2(1,9", "stand_2(1")]
    [True, False, True]
    """
    verb = sql.partition("(")[0].rpartition("_")[0]
    return verb.endswith(_URGENT) or (verb.endswith("_leave") and sql.endswith(",0)"))


class Silent(StoreUnavailable):
    """The server gave no reply, and may still carry out the request."""

    def __init__(self, label: str, within: float) -> None:
        super().__init__(f"{label} gave no answer within {within:.3g} s")


class Link(Protocol):
    """One connection."""

    async def ask(self, sql: str, within: float) -> Rows:
        """Return the rows of the first result; the other results are read, too.

        Raises ``ServerSaid`` for an error of the server; unless the error is in `OVER`, the
        connection can be used again. Raises ``StoreUnavailable`` if there is no reply within
        ``within`` seconds.
        """
        ...


L = TypeVar("L", bound=Link)


class Exchange(ABC, Generic[L]):
    """See :class:`holdfast.stores.mysql.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self._settings = settings

    @abstractmethod
    async def _take(self, within: float, urgent: bool) -> L:
        """Return a connection for one statement, within ``within`` seconds."""

    @abstractmethod
    def _give(self, link: L) -> None:
        """Make a connection available to other statements."""

    @abstractmethod
    def _drop(self, link: L) -> None:
        """End a connection that is of no use."""

    @abstractmethod
    def _abandon(self, link: L) -> None:
        """Give up a connection on which the server may still carry out a request."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds of a clock that never jumps."""

    async def call(self, sql: str, within: float) -> Rows:
        """Return the rows of the reply to a statement; see the protocol."""
        until = self.now() + within
        tries, made = 0, False
        while True:
            try:
                return await self._ask(sql, until)
            except ServerSaid as said:
                if said.code in MISSING and not made:
                    await self._make()
                    made, until = True, max(until, self.now() + AGAIN_S)
                    continue
                tries += 1
                pause = back_off(tries, random.random(), AGAIN_S)
                if said.code not in ROLLED_BACK or self.now() + pause >= until:
                    raise complaint(said, self.label) from None
            await self.sleep(pause)

    async def _ask(self, sql: str, until: float) -> Rows:
        link = await self._take(until - self.now(), urgent(sql))
        try:
            rows = await link.ask(sql, until - self.now())
        except ServerSaid as said:
            if said.code in OVER:
                self._drop(link)
            else:
                self._give(link)
            raise
        except StoreUnavailable as wrong:
            (self._abandon if isinstance(wrong, Silent) else self._drop)(link)
            raise
        except BaseException:
            self._abandon(link)
            raise
        self._give(link)
        return rows

    async def _make(self) -> None:
        """Make the tables and procedures."""
        until, prefix = self.now() + MAKE_S, self._settings.prefix
        refuse_newer(await self._ask(layout_of(prefix), until), self.label)
        for sql in statements(prefix):
            try:
                await self._ask(sql, until)
            except ServerSaid as said:
                if said.code not in ALREADY:
                    raise complaint(said, self.label) from said
