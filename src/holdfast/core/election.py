"""Election: one leader among many, as a lock with another vocabulary.

A candidate waits in the line, the leader holds, and resigning releases. A leader is notified of a
loss like any holder. Observers only inspect the line, and change nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import ConfigError
from . import checks, functions
from .decorated import shown
from .lock import LockBase

#: Default interval of an observer's requests, in seconds.
OBSERVE_S = 1.0
OBSERVE_S_MIN, OBSERVE_S_MAX = 0.001, 86_400.0


class Leader(NamedTuple):
    """A leader: its owner text, and the fence of the term."""

    owner: str
    fence: int


class ElectionBase(LockBase):
    """The logic of an election, without its methods for threads or asyncio."""

    __slots__ = ()

    async def _leader(self) -> Leader | None:
        """Return the present leader, or None."""
        self._ctx.require_open()
        lines = await self._ctx.store.inspect(self.name, 5.0, exact=True)
        if not lines or not lines[0].holders:
            return None
        first = lines[0].holders[0]
        return Leader(first.owner, first.fence)

    async def _changed(self, seen: Leader | None, every: float) -> Leader | None:
        """Wait until ``seen`` is no longer the leader; return the new leader or None."""
        pause = checks.seconds("every", every, OBSERVE_S_MIN, OBSERVE_S_MAX)
        while True:
            leader = await self._leader()
            if leader != seen:
                return leader
            await self._ctx.runtime.sleep(pause)

    @staticmethod
    def _require_main(main: Any, awaits: bool) -> None:
        """Refuse a ``main`` that ``run`` can't call, or whose body wouldn't run as the leader."""
        if not callable(main):
            raise ConfigError(f"run() takes a function of (hold), not {checks.shown(main)}")
        if functions.late(main) or (not awaits and functions.awaited(main)):
            raise ConfigError(
                f"the body of {shown(main)} would not run inside of run(): give it a "
                + ("coroutine function" if awaits else "plain function, or use an AsyncClient")
            )

    async def _resign(self) -> bool:
        """Release the leadership that was won through this object."""
        return await self._release_one()
