"""The API for asyncio. It has no logic: each method awaits a coroutine of the core."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .client import AsyncClient
from .locks import (
    AsyncElection,
    AsyncHold,
    AsyncLock,
    AsyncMultiHold,
    AsyncMultiLock,
    AsyncRWLock,
    AsyncRWSide,
    AsyncSemaphore,
)

if TYPE_CHECKING:
    from .guard import AsyncCaching, AsyncGuard
    from .queue import AsyncDelivery, AsyncQueue, AsyncWorker

__all__ = [
    "AsyncCaching",
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
]

#: The modules of names that few programs use.
_LATER = {
    "AsyncCaching": "guard",
    "AsyncDelivery": "queue",
    "AsyncGuard": "guard",
    "AsyncQueue": "queue",
    "AsyncWorker": "queue",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
