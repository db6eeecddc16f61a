"""The embedded store: one SQLite file behind a kernel lock, for all processes of one machine.

``sqlite:///path/to/locks.db``; ``sqlite://`` alone is a file in the user's private state folder.
Options: ``any_fs=yes`` accepts a file system that isn't known to be local; ``wake=poll`` makes
waiters look instead of listening, where Unix sockets cannot be used; ``sync=all`` or ``none`` says
which changes of a serial queue are on the disk before they count, ``puts`` if nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL, word
from .store import CAPABILITIES, SqliteStore

OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "any_fs": word("yes", "no"),
    "wake": word("push", "poll"),
    "sync": word("puts", "all", "none"),
}

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]


def open_blocking(url: StoreURL) -> Store:
    """A store for threads. It opens its files with the first verb."""
    from .blocking.port import ThreadPort

    return SqliteStore(ThreadPort(url))


def open_aio(url: StoreURL) -> Store:
    """A store for one asyncio event loop. It opens its files with the first verb."""
    from .aio import LoopPort

    return SqliteStore(LoopPort(url))


def examine(url: StoreURL) -> Iterator[Finding]:
    """What is right and wrong with the files of a store, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(url)
