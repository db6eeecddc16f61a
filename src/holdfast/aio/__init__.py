"""The face for asyncio. It holds no logic: each method awaits a coroutine of the core."""

from __future__ import annotations

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

__all__ = [
    "AsyncClient",
    "AsyncElection",
    "AsyncHold",
    "AsyncLock",
    "AsyncMultiHold",
    "AsyncMultiLock",
    "AsyncRWLock",
    "AsyncRWSide",
    "AsyncSemaphore",
]
