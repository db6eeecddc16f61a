"""The embedded store: one SQLite file behind a kernel lock, for all processes of one machine.

``sqlite:///path/to/locks.db``; ``sqlite://`` alone is a file in the user's private state folder.
Options: ``network_fs=yes`` accepts a file system that isn't known to be local; ``wake=poll`` makes
waiters poll, where Unix sockets cannot be used. ``sync`` selects the changes of a serial queue that
are on the disk before their verb returns: ``puts`` (default), ``all`` or ``none``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...core.finding import Finding
from ...core.ports import Store
from ...core.url_options import word
from ...url import StoreURL
from .store import CAPABILITIES, SqliteStore

OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "network_fs": word("yes", "no"),
    "wake": word("push", "poll"),
    "sync": word("puts", "all", "none"),
}

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "mend", "open_aio", "open_blocking"]


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. Its first verb opens the files."""
    from .blocking.port import ThreadPort

    return SqliteStore(ThreadPort(url))


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. Its first verb opens the files."""
    from .aio import LoopPort

    return SqliteStore(LoopPort(url))


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine the files of a store, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(url)


def mend(url: StoreURL) -> Iterator[Finding]:
    """Repair damaged serial queues, for ``holdfast doctor --mend``."""
    from .blocking.doctor import mend

    return mend(url)
