"""holdfast: locks that hold across processes and machines, for threads and asyncio.

>>> from holdfast import Client
>>> with Client("memory://").lock("invoice:42", timeout=5) as hold:
...     hold.check()

Everything public is here; ``holdfast.fenced`` guards resources by the fence, ``holdfast.testing``
helps to test. Names are loaded when they are first used, so that the import stays quick.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from .errors import (
    ConfigError,
    FenceRejected,
    HoldfastError,
    LockLost,
    NotAcquired,
    NotHeld,
    NotSupported,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from .aio import AsyncClient, AsyncHold, AsyncLock
    from .core.election import Leader
    from .core.model import Capabilities, ClaimRecord, LineRecord, Loss, State
    from .sync import Client, Hold, Lock, lock

__version__ = "0.1.0"

_WHERE = {
    "AsyncClient": "aio",
    "AsyncHold": "aio",
    "AsyncLock": "aio",
    "Capabilities": "core.model",
    "ClaimRecord": "core.model",
    "Client": "sync",
    "Hold": "sync",
    "Leader": "core.election",
    "LineRecord": "core.model",
    "Lock": "sync",
    "Loss": "core.model",
    "State": "core.model",
    "lock": "sync",
}

__all__ = [
    "AsyncClient",
    "AsyncHold",
    "AsyncLock",
    "Capabilities",
    "ClaimRecord",
    "Client",
    "ConfigError",
    "FenceRejected",
    "Hold",
    "HoldfastError",
    "Leader",
    "LineRecord",
    "Lock",
    "LockLost",
    "Loss",
    "NotAcquired",
    "NotHeld",
    "NotSupported",
    "State",
    "StoreUnavailable",
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
