"""``memory://``: a store in the memory of this process, for tests and for one process.

All clients of one process share it; ``memory://name`` is a separate store. No data survives the
process, and a forked child starts empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...core.model import Capabilities
from ...core.ports import Store

if TYPE_CHECKING:
    from ...url import StoreURL

CAPABILITIES = Capabilities(
    store="memory",
    queues=True,
    guards=True,
    across_processes=False,
    durable_fences=False,
    crash_noticed="it ends with the process",
    clock="boottime of the machine",
)
OPTIONS: Mapping[str, Callable[[str], Any]] = {}


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads."""
    from .blocking import BlockingPort
    from .store import MemoryStore

    return MemoryStore(BlockingPort(url.host + url.path))


def open_aio(url: StoreURL) -> Store:
    """Return a store for one event loop."""
    from .aio import AioPort
    from .store import MemoryStore

    return MemoryStore(AioPort(url.host + url.path))
