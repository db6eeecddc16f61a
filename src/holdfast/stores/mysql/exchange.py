"""The exchange between a verb and its answer, for both kinds of runtime.

What was rolled back is sent again, within the time of the verb; tables and procedures that are
missing are made. What may have been carried out is never sent again from here: the core does that,
and knows afterwards that a copy may still be under way.
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
from .schema import ALREADY, statements

#: The longest pause before a transaction is tried again that was rolled back.
AGAIN_S = 0.2
#: Time limit of the first verb on an empty database, which makes the tables, seconds.
MAKE_S = 30.0
#: What renews or releases: one connection more is kept for these, so that they never wait behind
#: those who want something.
_URGENT = (
    "_leave_all", "_renew", "_stand", "_queue_extend", "_queue_settle", "_queue_return",
    "_refresh_prolong", "_refresh_abandon", "_refresh_finish",
)  # fmt: skip


def urgent(sql: str) -> bool:
    """Does this statement renew or release? A leave that buries its claim undoes a wish.

    >>> [urgent(f"CALL a_{one})") for one in ("leave_2(1,0", "leave_2(1,9", "stand_2(1")]
    [True, False, True]
    """
    verb = sql.partition("(")[0].rpartition("_")[0]
    return verb.endswith(_URGENT) or (verb.endswith("_leave") and sql.endswith(",0)"))


class Silent(StoreUnavailable):
    """The server gives no answer, and may still be at it."""

    def __init__(self, label: str, within: float) -> None:
        super().__init__(f"{label} gave no answer within {within:.3g} s")


class Link(Protocol):
    """One connection."""

    async def ask(self, sql: str, within: float) -> Rows:
        """The rows of the first result; the others are read, too.

        Raises ``ServerSaid`` if the server refuses, and then the connection can be used again;
        ``StoreUnavailable`` if it gives no answer within ``within`` seconds.
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
        """A connection for ourselves alone, within ``within`` seconds."""

    @abstractmethod
    def _give(self, link: L) -> None:
        """It can be used by others."""

    @abstractmethod
    def _drop(self, link: L) -> None:
        """It can't be used by anybody: it leads nowhere."""

    @abstractmethod
    def _abandon(self, link: L) -> None:
        """Nobody uses it any more, though the server may still be at what was asked."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def now(self) -> float:
        """Seconds that never jump."""

    async def call(self, sql: str, within: float) -> Rows:
        """The rows that a statement answers; see the protocol."""
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
        until = self.now() + MAKE_S
        for sql in statements(self._settings.prefix):
            try:
                await self._ask(sql, until)
            except ServerSaid as said:
                if said.code not in ALREADY:
                    raise complaint(said, self.label) from said
