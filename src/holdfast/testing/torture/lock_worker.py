"""A process under torture: it acquires locks of all kinds, and records what it does."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import Any, NamedTuple

from ...core.model import RWLOCK_CAPACITY
from ...core.policy import PATIENCE_S
from ...errors import (
    ConfigError,
    FenceRejected,
    HoldfastError,
    LockLost,
    NotHeld,
    StoreUnavailable,
)
from ...fenced import FencedFile
from ...sync import Client
from .. import lag
from ..faces import now
from ..faults import Fork
from ..faults.stage import Stage
from ..histories import Recorder
from .process import Process

PERMITS = 3
#: The kinds of locks. A name is the prefix of the run, the kind and a number: ``lock-0``.
KINDS = ("lock", "rwlock", "semaphore")
TIMEOUTS_S = (0.0, 0.05, 0.3, 1.0, None)
BODY_S = 0.05
#: Part of the rounds of a body that check the hold; in the other rounds only the fence protects
#: writes.
LOOK_PART = 0.7
#: Part of the acquires that are cancelled; only under asyncio.
CANCEL_PART = 0.2


class Work(NamedTuple):
    """The options that all workers of a run share."""

    store: str
    folder: str
    prefix: str
    names: int
    ttl: float
    long: float
    seed: int


class Wish(NamedTuple):
    """The arguments of one acquire."""

    name: str
    kind: str
    weight: int
    capacity: int
    timeout: float | None


def work(stage: Stage, number: int, face: str, options: list[Any]) -> None:
    """Work until the message to end; the workers of a run execute this."""
    lag.watch()
    Worker(stage, number, face, Work(*options)).live()


class Worker(Process):
    """A worker that locks."""

    def __init__(self, stage: Stage, number: int, face: str, options: Work) -> None:
        super().__init__(stage, f"worker-{number}", face, options, ttl=options.ttl)
        self._options = options
        self._forks = 0
        self._to_fork = False

    def told(self, what: Any) -> None:
        """Handle a message: after "fork" the worker forks as soon as it holds a lock."""
        self._to_fork = what == "fork"

    def _wish(self) -> Wish:
        dice = self._dice
        kind = dice.choice(("lock", *KINDS))
        name = f"{self._options.prefix}{kind}-{dice.randrange(self._options.names)}"
        timeout = dice.choice(TIMEOUTS_S)
        if kind == "semaphore":
            return Wish(name, kind, dice.randrange(1, PERMITS + 1), PERMITS, timeout)
        if kind == "rwlock":
            weight = 1 if dice.random() < 0.7 else RWLOCK_CAPACITY
            return Wish(name, kind, weight, RWLOCK_CAPACITY, timeout)
        return Wish(name, kind, 1, 1, timeout)

    def _lock(self, wish: Wish) -> Any:
        ttl = self._options.ttl
        if self._options.long and self._dice.random() < self._options.long:
            ttl = max(ttl, PATIENCE_S)
        if wish.kind == "semaphore":
            return self._client.semaphore(wish.name, PERMITS, weight=wish.weight, ttl=ttl)
        if wish.kind == "rwlock":
            sides = self._client.rwlock(wish.name, ttl=ttl)
            return sides.read if wish.weight == 1 else sides.write
        return self._client.lock(wish.name, ttl=ttl)

    async def turn(self) -> None:
        """Acquire once, work with the hold, and release it."""
        wish = self._wish()
        asked = wish._asdict()
        name = asked.pop("name")
        begun, claim = now(), self._recorder.ask(name, **asked)
        try:
            hold = await self._acquire(wish)
        except (HoldfastError, asyncio.CancelledError) as why:
            self._recorder.failed(claim, why)
            self._recorder.halted(begun)
            return
        if hold is None:
            self._recorder.busy(claim)
            self._recorder.halted(begun)
            return
        self._recorder.held(claim, hold)
        self._recorder.halted(begun)
        with contextlib.suppress(LockLost, NotHeld):
            await self._body(claim, wish, hold)
        self._recorder.leaving(claim)
        with contextlib.suppress(HoldfastError):
            self._recorder.left(claim, await hold.release())

    async def _acquire(self, wish: Wish) -> Any:
        lock = self._lock(wish)
        if self._face.name != "aio" or self._dice.random() > CANCEL_PART:
            return await lock.acquire(timeout=wish.timeout)
        task = asyncio.ensure_future(lock.acquire(timeout=wish.timeout))
        await asyncio.sleep(self._dice.random() * 0.01)
        task.cancel()
        return await task

    async def _body(self, claim: int, wish: Wish, hold: Any) -> None:
        """Wait a little, check the hold, write, and repeat; raise if the hold is lost."""
        for _ in range(self._dice.randrange(1, 4)):
            await self._face.sleep(self._dice.random() * BODY_S)
            if self._dice.random() < LOOK_PART:
                self._recorder.look(claim, hold)
            if wish.kind == "lock":
                await self._write(wish.name, hold.fence)
            elif wish.kind == "rwlock" and hold.weight > 1 and self._dice.random() < 0.3:
                self._recorder.shrink(claim, 1)
                # In a run with troubles, the store reports damaged data as a ConfigError.
                with contextlib.suppress(StoreUnavailable, ConfigError):
                    await hold.downgrade()
            if self._to_fork:
                self._to_fork = False
                await self._fork(hold)

    async def _write(self, name: str, fence: int) -> None:
        """Write to the fenced file without a check of the hold: only the fence protects it."""
        thing = name.rpartition(":")[2]
        number = self._recorder.write(thing, fence)
        ledger = FencedFile(self._folder / thing, durable=False)
        entry = f"{fence} {self._name} {number}\n"
        try:
            await self._face.outside(lambda: ledger.append(fence, entry))
        except FenceRejected:
            self._recorder.wrote(number, False)
        except OSError as wrong:  # no free descriptors: a fault of the run, not of the ledger
            if wrong.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        else:
            self._recorder.wrote(number, True)

    async def _fork(self, hold: Any) -> None:
        """Fork a child. In the child the hold must be lost; the child acquires another lock."""
        self._forks += 1
        name = f"{self._name}-fork-{self._forks}"

        def live() -> None:
            recorder = Recorder(self._folder / f"{name}.jsonl", name)
            if hold.lost is None:
                claim = recorder.ask(hold.name)
                recorder.held(claim, hold)
            hold.__class__.__del__ = lambda _: None  # only the parent may warn about it
            with Client(self._options.store, label=name) as client:
                _try(client, self._options.prefix + "lock-0", recorder)
            recorder.bye()

        with Fork(live) as child:
            await self._face.outside(child.result)


def _try(client: Client, name: str, recorder: Recorder) -> None:
    """Acquire the name and release it; give up after one second."""
    claim = recorder.ask(name, timeout=1.0)
    try:
        hold = client.lock(name).acquire(timeout=1.0)
    except HoldfastError as why:
        recorder.failed(claim, why)
        return
    if hold is None:
        recorder.busy(claim)
        return
    recorder.held(claim, hold)
    recorder.leaving(claim)
    with contextlib.suppress(HoldfastError):
        recorder.left(claim, hold.release())
