"""The face for threads. It holds no logic: each method runs a coroutine of the core to its end."""

from __future__ import annotations

from .client import Client, default_client, lock
from .locks import Election, Hold, Lock, MultiHold, MultiLock, RWLock, RWSide, Semaphore

__all__ = [
    "Client",
    "Election",
    "Hold",
    "Lock",
    "MultiHold",
    "MultiLock",
    "RWLock",
    "RWSide",
    "Semaphore",
    "default_client",
    "lock",
]
