"""The verbs of the embedded store, for threads and for asyncio.

``blocking/lines.py`` defines the verbs; this module only passes each call to the port. The port for
threads runs a call immediately, on the caller's thread. The port for asyncio runs the calls on one
worker thread, in the order in which they arrive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...core.model import (
    Capabilities,
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)

if TYPE_CHECKING:
    from .guards import SqliteGuards, ValuePort
    from .queues import JobPort, SqliteQueues

T = TypeVar("T")

#: The features of the embedded store.
CAPABILITIES = Capabilities(
    store="sqlite",
    queues=True,
    guards=True,
    crash_noticed="at once",
    clock="machine",
)
#: Maximum number of claims in one batch: renewing them holds the file mutex for 1 to 4 ms.
BATCH_MAX = 200
#: Maximum seconds that `SqliteStore.session_fd` waits for the file mutex.
SESSION_S = 5.0


class Engine(Protocol):
    """The verbs as functions that can block; the last argument is the time limit in seconds.

    ``blocking/engine.py`` implements them.
    """

    label: str
    patience: float

    def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line of claims."""
        ...

    def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew a batch of held claims."""
        ...

    def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits."""
        ...

    def change(self, change: Change, within: float) -> Standing:
        """Change the id or the owner of a held claim."""
        ...

    def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release a claim."""
        ...

    def break_(self, name: str, ticket: int, within: float) -> bool:
        """End a claim by its ticket."""
        ...

    def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several lines that are empty."""
        ...

    def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release several claims."""
        ...

    def inspect(self, prefix: str, exact: bool, within: float) -> list[LineRecord]:
        """The records of the lines."""
        ...

    def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change a capacity."""
        ...

    def session_fd(self, within: float) -> int:
        """The descriptor that keeps the session alive."""
        ...


class Port(Protocol):
    """The runtime, threads or asyncio: it runs the engine's verbs, and waits for wake-ups."""

    @property
    def engine(self) -> Engine:
        """The engine that this port runs."""
        ...

    async def call(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` after all earlier calls, even if the caller is cancelled.

        Exception: a verb in ``aio.loop.LEFT_OUT`` is skipped if its caller was cancelled. The last
        argument is the time limit in seconds.
        """
        ...

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken, until a watched session has ended, or ``seconds`` have passed."""
        ...

    def unlisten(self, claim: Claim) -> None:
        """Free the resources with which the claim waited."""
        ...

    def jobs(self) -> JobPort:
        """The port of the serial queues."""
        ...

    def values(self) -> ValuePort:
        """The port of the refresh guards."""
        ...

    async def close(self) -> None:
        """End the session and close the files."""
        ...

    def forked(self) -> None:
        """Forget the parent's state, in the child of a fork."""
        ...


class SqliteStore:
    """See :class:`holdfast.core.ports.Store`."""

    capabilities = CAPABILITIES
    batch_max = BATCH_MAX
    watch_every = lease_max = math.inf

    def __init__(self, port: Port) -> None:
        self._port = port
        self._engine = port.engine
        self._call = port.call
        self.patience = port.engine.patience
        self.label = port.engine.label
        self._queues: SqliteQueues | None = None
        self._guards: SqliteGuards | None = None

    @property
    def queues(self) -> SqliteQueues:
        """The serial queues, in separate files that are opened at the first use."""
        if self._queues is None:
            from .queues import SqliteQueues  # because few programs have queues

            self._queues = SqliteQueues(self._port.jobs())
        return self._queues

    @property
    def guards(self) -> SqliteGuards:
        """The refresh guards, in separate files that are opened at the first use."""
        if self._guards is None:
            from .guards import SqliteGuards  # because few programs have guards

            self._guards = SqliteGuards(self._port.values())
        return self._guards

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line of claims, atomically; see the contract."""
        return await self._call(self._engine.join, claim, wait, within)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew a batch in one transaction; see the contract."""
        return await self._call(self._engine.renew, renewals, within)

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits, while the process that joined it lives; see the contract."""
        return await self._call(self._engine.turn, claim, ticket, within)

    async def change(self, change: Change, within: float) -> Standing:
        """Renew a held claim, and change its id or its owner; see the contract."""
        return await self._call(self._engine.change, change, within)

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release a claim, and wake the waiters that now fit; see the contract."""
        return await self._call(self._engine.leave, leave, within)

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End a claim by its ticket, and wake the waiters that now fit; see the contract."""
        return await self._call(self._engine.break_, name, ticket, within)

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several lines that are empty, in one pass; see the contract."""
        return await self._call(self._engine.join_free, claims, within)

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release several claims in one pass; see the contract."""
        return await self._call(self._engine.leave_all, leaves, within)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until the time-out has expired; see the contract."""
        return await self._port.wait(claim, waiting, seconds)

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """The lines whose name begins with the prefix; see the contract."""
        return await self._call(self._engine.inspect, prefix, exact, within)

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; see the contract."""
        return await self._call(self._engine.resize, name, capacity, within)

    def session_fd(self) -> int:
        """A descriptor that keeps this client's claims alive while a child process keeps it open.

        The kernel counts this client as alive while any process keeps the descriptor open. Pass it
        to a child with ``pass_fds``. A child of ``os.fork`` closes it at once, so give that child a
        copy (``os.dup``). The descriptor belongs to the store: don't close it yourself.
        """
        return self._engine.session_fd(SESSION_S)

    async def changed(self, within: float) -> bool:
        """Return False: each verb itself detects that the files were replaced; see the contract."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """Free the resources with which the claim waited; see the contract."""
        self._port.unlisten(claim)

    async def close(self) -> None:
        """End the session, with every claim that belongs to it."""
        await self._port.close()

    def forked(self) -> None:
        """Forget the parent's state, in the child of a fork; see the contract."""
        self._port.forked()
