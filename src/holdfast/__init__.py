"""holdfast: locks that hold across processes and machines, for threads and asyncio.

>>> from holdfast import Client
>>> with Client("memory://").lock("invoice:42", timeout=5) as hold:
...     hold.check()

Everything public is here; ``holdfast.fenced`` guards resources by the fence, ``holdfast.sql`` locks
in your own transaction, ``holdfast.testing`` helps to test. Names are loaded when they are first
used, so that the import stays quick.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from .errors import (
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
        AsyncGuard,
        AsyncHold,
        AsyncLock,
        AsyncQueue,
        AsyncWorker,
    )
    from .core.election import Leader
    from .core.guard.model import EntryRecord, EntryState, GuardRecord, Tally
    from .core.model import Capabilities, ClaimRecord, LineRecord, Loss, State
    from .core.queue.model import JobRecord, QueueRecord
    from .core.queue.queue import Receipt
    from .sync import Client, Delivery, Guard, Hold, Lock, Queue, Worker, lock

__version__ = "0.1.0"

_WHERE = {
    "AsyncClient": "aio",
    "AsyncDelivery": "aio",
    "AsyncGuard": "aio",
    "AsyncHold": "aio",
    "AsyncLock": "aio",
    "AsyncQueue": "aio",
    "AsyncWorker": "aio",
    "Capabilities": "core.model",
    "ClaimRecord": "core.model",
    "Client": "sync",
    "Delivery": "sync",
    "EntryRecord": "core.guard.model",
    "EntryState": "core.guard.model",
    "Guard": "sync",
    "GuardRecord": "core.guard.model",
    "Hold": "sync",
    "JobRecord": "core.queue.model",
    "Leader": "core.election",
    "LineRecord": "core.model",
    "Lock": "sync",
    "Loss": "core.model",
    "Queue": "sync",
    "QueueRecord": "core.queue.model",
    "Receipt": "core.queue.queue",
    "State": "core.model",
    "Tally": "core.guard.model",
    "Worker": "sync",
    "lock": "sync",
}

__all__ = [
    "AsyncClient",
    "AsyncDelivery",
    "AsyncGuard",
    "AsyncHold",
    "AsyncLock",
    "AsyncQueue",
    "AsyncWorker",
    "Capabilities",
    "ClaimRecord",
    "Client",
    "ComputeFailed",
    "ConfigError",
    "Deadlock",
    "Delivery",
    "EntryRecord",
    "EntryState",
    "FenceRejected",
    "Guard",
    "GuardRecord",
    "Hold",
    "HoldfastError",
    "JobRecord",
    "Leader",
    "LineRecord",
    "Lock",
    "LockLost",
    "Loss",
    "NotAcquired",
    "NotHeld",
    "NotSupported",
    "Queue",
    "QueueRecord",
    "Receipt",
    "RefreshTimeout",
    "StaleSnapshot",
    "State",
    "StoreUnavailable",
    "Tally",
    "Worker",
    "lock",
]

logging.getLogger("holdfast").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
