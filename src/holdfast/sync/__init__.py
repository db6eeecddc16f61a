"""The API for threads. It has no logic: each method runs a coroutine of the core to its end."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .client import Client, default_client, lock
from .locks import Election, Hold, Lock, MultiHold, MultiLock, RWLock, RWSide, Semaphore

if TYPE_CHECKING:
    from .guard import Caching, Guard
    from .queue import Delivery, Queue, Worker

__all__ = [
    "Caching",
    "Client",
    "Delivery",
    "Election",
    "Guard",
    "Hold",
    "Lock",
    "MultiHold",
    "MultiLock",
    "Queue",
    "RWLock",
    "RWSide",
    "Semaphore",
    "Worker",
    "default_client",
    "lock",
]

#: The modules of names that few programs use.
_LATER = {
    "Caching": "guard",
    "Delivery": "queue",
    "Guard": "guard",
    "Queue": "queue",
    "Worker": "queue",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
