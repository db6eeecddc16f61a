"""The store model of the guards: the reference values behind a network that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.guard.model import (
    Abandon,
    Begun,
    Entry,
    Finish,
    GuardCounts,
    GuardLimits,
    Prolong,
    Wish,
)
from ....stores.memory.values import Values
from ..server import Server
from ..store import CAPABILITIES, Box, SimStore, Verbs, listing, verb
from ..world import Process, World

#: Maximum seconds in the workload: of a refresh lease, of the pause after failures, and of the
#: memory of failures.
LEASE_S_MAX, PAUSE_S_MAX, FAILED_S_MAX = 2.0, 4.0, 60.0


class GuardServer(Server):
    """The only server of the simulation, with values."""

    verbs = ("read", "begin", "finish", "abandon", "prolong", "invalidate")

    def __init__(self, world: World, ttl_max: float) -> None:
        super().__init__(world, ttl_max)
        self.values = Values()

    def restart(self, keep_data: bool) -> None:
        """Restart with the values or without them; guards need no grace period."""
        super().restart(keep_data)
        self.grace_until = 0.0
        if not keep_data:
            self.values = Values()

    def clamp(self, now: float) -> None:
        """Let no refresh lease, pause or remembered failure end later than its maximum from now."""
        super().clamp(now)
        for entry in self.values._entries.values():
            entry.lease_until = min(entry.lease_until, now + LEASE_S_MAX)
            entry.pause_until = min(entry.pause_until, now + PAUSE_S_MAX)
            entry.failed_until = min(entry.failed_until, now + FAILED_S_MAX)

    def _woken(self, answer: Any) -> tuple[Any, list[Any]]:
        pokes, self.values.pokes = self.values.pokes, []
        return answer, pokes

    def _read(self, entries: Sequence[Entry], now: float, address: Any) -> Any:
        return self._woken([self.values.read(entry, now) for entry in entries])

    def _begin(self, wish: Wish, now: float, address: Any) -> Any:
        box = (address, wish.id, 0) if wish.wait else None
        return self._woken(self.values.begin(wish, now, box))

    def _finish(self, finish: Finish, now: float, address: Any) -> Any:
        return self._woken(self.values.finish(finish, now))

    def _abandon(self, abandon: Abandon, now: float, address: Any) -> Any:
        return self._woken(self.values.abandon(abandon, now))

    def _prolong(self, prolongs: Sequence[Prolong], now: float, address: Any) -> Any:
        return self._woken([self.values.prolong(one, now) for one in prolongs])

    def _invalidate(self, entries: Sequence[Entry], now: float, address: Any) -> Any:
        return self._woken([self.values.invalidate(entry, now) for entry in entries])

    def _look(self, entry: Entry, now: float, address: Any) -> Any:
        return self._woken(self.values.look(entry, now))

    def _survey(self, prefix: str, exact: bool, now: float, address: Any) -> Any:
        return self._woken(self.values.survey(prefix, exact))

    def _tally(self, guard: str, tally: GuardCounts, now: float, address: Any) -> Any:
        self.values.tally(guard, tally)
        return None, []


class SimGuards(Verbs):
    """The client's side: the verbs of guards as messages."""

    limits = GuardLimits()
    read, finish, abandon = verb("read"), verb("finish"), verb("abandon")
    prolong, invalidate = verb("prolong"), verb("invalidate")
    look, survey, tally = verb("look"), listing("survey"), verb("tally")

    async def begin(self, wish: Wish, within: float) -> Begun:
        """See ``core.guard.ports.Guards``."""
        if wish.wait:
            self._store.boxes.setdefault(wish.id, Box())
        begun: Begun = await self._call("begin", (wish,), within)
        return begun


class GuardedStore(SimStore):
    """The simulated store, with guards."""

    capabilities = CAPABILITIES._replace(guards=True)

    def __init__(self, server: GuardServer, process: Process) -> None:
        super().__init__(server, process)
        self.guards = SimGuards(self)
