"""Actions of the callers: read through a guard, change its source, and invalidate.

The source has one version number per key. A computation returns the number that it reads from the
source, so the value of an entry is a version number. A caller that changes the source invalidates
the key afterwards. When the invalidation has returned, the caller records the version. The rule: a
``get`` that begins after this record must return the recorded version or a later one. Exception: a
local cache of another process may return an earlier version for `local_ttl` seconds.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ....core.client import ClientBase
from ....core.guard.guard import GuardBase
from ....core.guard.options import options
from ....errors import ComputeFailed, RefreshTimeout, StoreUnavailable
from ..trouble import Violation
from ..world import Cancelled, Process

if TYPE_CHECKING:
    from .history import GuardHistory

KEYS = ("a", "b")
#: Maximum age of a value in a local cache, in seconds.
LOCAL_S = 0.5
#: Upper limit of the difference between the rates of two clocks.
RATE_ERROR = 0.01


class Source:
    """The source of the guards' values, and the record of its invalidated changes."""

    def __init__(self) -> None:
        self.version: dict[str, int] = defaultdict(int)
        #: For each key, (time, version) of each invalidation that has returned, in order of time.
        self._floors: dict[str, list[tuple[float, int]]] = defaultdict(list)
        #: For each process and key, the latest version that this process itself has invalidated.
        #: Its own local cache must return no older version after that.
        self._own: dict[tuple[int, str], int] = defaultdict(int)

    def invalidated(self, pid: int, key: str, version: int, when: float) -> None:
        """Record that an invalidation has returned, for a change of the source to ``version``."""
        floors = self._floors[key]
        floors.append((when, max(version, floors[-1][1] if floors else 0)))
        self._own[pid, key] = max(self._own[pid, key], version)

    def floor(self, pid: int, key: str, when: float) -> int:
        """Return the earliest version that a call may return.

        That is the latest version that any process had invalidated at the time ``when``, or that
        this process has invalidated until now.
        """
        known = [version for at, version in self._floors[key] if at <= when]
        return max(self._own[pid, key], known[-1] if known else 0)


class Caller:
    """A task of a process; it draws its actions from its own seed."""

    def __init__(self, history: GuardHistory, process: Process, number: int, seed: int) -> None:
        self.history = history
        self.process = process
        self.number = number
        self.rng = random.Random(seed)
        self.guards: dict[str, GuardBase] = history.guards[process.pid]

    async def main(self) -> None:
        """Execute a number of actions, one after the other."""
        choices = [self.get] * 8 + [self.change] * 3 + [self.many, self.look]
        for _ in range(self.history.plan.actions):
            act = self.rng.choice(choices)
            try:
                await act()
            except (StoreUnavailable, RefreshTimeout, ComputeFailed, LookupError) as failure:
                self.history.tell(self, f"  {type(failure).__name__}")
            except (Cancelled, KeyboardInterrupt):
                self.history.tell(self, "  interrupted")
            await self.pause(self.history.pace)

    async def pause(self, longest: float) -> None:
        """Sleep for at most ``longest`` seconds; an interrupt ends the sleep."""
        try:
            await self.client._ctx.runtime.sleep(longest * self.rng.random())
        except (Cancelled, KeyboardInterrupt):
            return

    @property
    def client(self) -> ClientBase:
        """The client of the process."""
        its: ClientBase = self.history.clients[self.process.pid]
        return its

    def _compute(self, key: str) -> Any:
        source, rng = self.history.source, self.rng
        spans = (0.0, 0.002, 0.01) if self.history.storm else (0.0, 0.2, 3.0)
        before, after = rng.choice(spans), rng.choice(spans)
        fails = rng.random() < 0.1

        async def compute() -> int:
            sleep = self.client._ctx.runtime.sleep
            await sleep(before * rng.random())
            version = source.version[key]
            await sleep(after * rng.random())
            if fails:
                raise LookupError("no value")
            return version

        return compute

    async def get(self) -> None:
        """Get one value through one of the guards."""
        key, kind = self._key(), self.rng.choice(sorted(self.guards))
        guard = self.guards[kind]
        floor = self._floor(guard, key)
        timeout = self.rng.choice((0.0, 1.0, 30.0))
        self.history.tell(self, f"get {kind} {key}")
        near = guard._nearby(key)
        if near is None:
            value = await guard._get(key, self._compute(key), timeout)
        else:
            value = guard._opened(near)
        self._judge(guard, key, value, floor)

    def _key(self) -> str:
        return KEYS[0] if self.history.storm else self.rng.choice(KEYS)

    async def many(self) -> None:
        """Get the values of both keys in one call."""
        kind = self.rng.choice(sorted(self.guards))
        guard = self.guards[kind]
        floors = {key: self._floor(guard, key) for key in KEYS}
        self.history.tell(self, f"get_many {kind}")
        values = await guard._get_many(KEYS, self._compute, 5.0)
        for key, value in values.items():
            self._judge(guard, key, value, floors[key])

    def _floor(self, guard: GuardBase, key: str) -> int:
        """Return the earliest version that a call of this guard may return if it begins now."""
        when = self.history.world.time - guard._options.local_ttl * (1 + RATE_ERROR)
        return self.history.source.floor(self.process.pid, guard.name + key, when)

    def _judge(self, guard: GuardBase, key: str, value: int, floor: int) -> None:
        self.history.tell(self, f"  {guard.name} {key} = {value}, at least {floor}")
        if value < floor:
            raise Violation(
                "no stale value",
                f"{self.process!r}/{self.number} got version {value} of {guard.name} {key}, though "
                f"the invalidation for version {floor} had returned before the call",
            )

    async def change(self) -> None:
        """Change the version of the source, and then invalidate the key."""
        key = self._key()
        source, history = self.history.source, self.history
        source.version[key] += 1
        version = source.version[key]
        history.tell(self, f"changes {key} to {version}")
        for name in sorted({guard.name for guard in self.guards.values()}):
            guards = [one for one in self.guards.values() if one.name == name]
            # Each guard has its own local cache, and `_invalidate` clears only that cache.
            for guard in guards:
                await guard._invalidate([key])
            source.invalidated(self.process.pid, name + key, version, history.world.time)
        history.tell(self, f"  invalidated {key} at {version}")

    async def look(self) -> None:
        """Inspect an entry."""
        await self.guards["plain"]._inspect(self.rng.choice(KEYS))


def guards_of(client: ClientBase) -> dict[str, GuardBase]:
    """Make the guards of a process: every kind of guard, on two names."""
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "plain": ("page", {"ttl": 2.0}),
        "stale": ("page", {"ttl": 2.0, "stale": 5.0}),
        "behind": ("page", {"ttl": 2.0, "stale": 5.0, "refresh": "background"}),
        "early": ("page", {"ttl": 2.0, "stale": 5.0, "early": 3.0, "jitter": 0.5}),
        "local": ("near", {"ttl": 2.0, "stale": 5.0, "local_ttl": LOCAL_S}),
        "failing": ("near", {"ttl": 2.0, "failure_ttl": 1.0, "failure_ttl_max": 4.0}),
        "late": ("near", {"ttl": 2.0, "on_timeout": "stale", "on_store_error": "compute"}),
        "alone": ("near", {"ttl": 2.0, "on_timeout": "compute"}),
    }
    return {
        kind: GuardBase(client._ctx, name, options(**{**_DEFAULTS, **given}))
        for kind, (name, given) in kinds.items()
    }


_DEFAULTS: dict[str, Any] = {
    "stale": 0.0,
    "timeout": 30.0,
    "on_timeout": "error",
    "on_store_error": "error",
    "refresh": "foreground",
    "lease": 1.5,
    "early": 0.0,
    "jitter": 0.0,
    "failure_ttl": 0.0,
    "failure_ttl_max": 60.0,
    "local_ttl": 0.0,
    "local_entries_max": 1000,
    "max_bytes": None,
    "codec": None,
    "most": 1000,
}
