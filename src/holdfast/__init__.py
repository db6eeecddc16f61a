"""holdfast: locks that hold across processes and machines, for threads and asyncio.

>>> from holdfast import Client
>>> with Client("memory://").lock("invoice:42", timeout=5) as hold:
...     hold.check()

Everything public is here, except three modules: ``holdfast.fenced`` protects resources by the
fence, ``holdfast.sql`` locks in your own transaction, and ``holdfast.testing`` helps to test. Each
name is loaded when it is first used, so that the import stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import (
    CapacityMismatch,
    ComputeFailed,
    ConfigError,
    Deadlock,
    FenceRejected,
    HoldfastError,
    LockLost,
    NotAcquired,
    NotHeld,
    NotSupported,
    RefreshTimeout,
    StaleSnapshot,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from .aio import (
        AsyncClient,
        AsyncDelivery,
        AsyncElection,
        AsyncGuard,
        AsyncHold,
        AsyncLock,
        AsyncMultiHold,
        AsyncMultiLock,
        AsyncQueue,
        AsyncRWLock,
        AsyncRWSide,
        AsyncSemaphore,
        AsyncWorker,
    )
    from .aio.guard import AsyncCached, AsyncCachedMethod
    from .core.election import Leader
    from .core.guard.model import EntryRecord, EntryState, GuardCounts, GuardRecord
    from .core.model import Capabilities, ClaimRecord, LineRecord, Loss, State
    from .core.queue.model import JobRecord, JobState, QueueRecord
    from .core.queue.queue import Receipt
    from .sync import (
        Client,
        Delivery,
        Election,
        Guard,
        Hold,
        Lock,
        MultiHold,
        MultiLock,
        Queue,
        RWLock,
        RWSide,
        Semaphore,
        Worker,
        lock,
    )
    from .sync.guard import Cached, CachedMethod

__version__ = "0.1.0"

_WHERE = {
    "AsyncCached": "aio.guard",
    "AsyncCachedMethod": "aio.guard",
    "AsyncClient": "aio",
    "AsyncDelivery": "aio",
    "AsyncElection": "aio",
    "AsyncGuard": "aio",
    "AsyncHold": "aio",
    "AsyncLock": "aio",
    "AsyncMultiHold": "aio",
    "AsyncMultiLock": "aio",
    "AsyncQueue": "aio",
    "AsyncRWLock": "aio",
    "AsyncRWSide": "aio",
    "AsyncSemaphore": "aio",
    "AsyncWorker": "aio",
    "Cached": "sync.guard",
    "CachedMethod": "sync.guard",
    "Capabilities": "core.model",
    "ClaimRecord": "core.model",
    "Client": "sync",
    "Delivery": "sync",
    "Election": "sync",
    "EntryRecord": "core.guard.model",
    "EntryState": "core.guard.model",
    "Guard": "sync",
    "GuardRecord": "core.guard.model",
    "Hold": "sync",
    "JobRecord": "core.queue.model",
    "JobState": "core.queue.model",
    "Leader": "core.election",
    "LineRecord": "core.model",
    "Lock": "sync",
    "Loss": "core.model",
    "MultiHold": "sync",
    "MultiLock": "sync",
    "Queue": "sync",
    "QueueRecord": "core.queue.model",
    "RWLock": "sync",
    "RWSide": "sync",
    "Receipt": "core.queue.queue",
    "Semaphore": "sync",
    "State": "core.model",
    "GuardCounts": "core.guard.model",
    "Worker": "sync",
    "lock": "sync",
}

__all__ = [
    "AsyncCached",
    "AsyncCachedMethod",
    "AsyncClient",
    "AsyncDelivery",
    "AsyncElection",
    "AsyncGuard",
    "AsyncHold",
    "AsyncLock",
    "AsyncMultiHold",
    "AsyncMultiLock",
    "AsyncQueue",
    "AsyncRWLock",
    "AsyncRWSide",
    "AsyncSemaphore",
    "AsyncWorker",
    "Cached",
    "CachedMethod",
    "Capabilities",
    "CapacityMismatch",
    "ClaimRecord",
    "Client",
    "ComputeFailed",
    "ConfigError",
    "Deadlock",
    "Delivery",
    "Election",
    "EntryRecord",
    "EntryState",
    "FenceRejected",
    "Guard",
    "GuardCounts",
    "GuardRecord",
    "Hold",
    "HoldfastError",
    "JobRecord",
    "JobState",
    "Leader",
    "LineRecord",
    "Lock",
    "LockLost",
    "Loss",
    "MultiHold",
    "MultiLock",
    "NotAcquired",
    "NotHeld",
    "NotSupported",
    "Queue",
    "QueueRecord",
    "RWLock",
    "RWSide",
    "Receipt",
    "RefreshTimeout",
    "Semaphore",
    "StaleSnapshot",
    "State",
    "StoreUnavailable",
    "Worker",
    "lock",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
