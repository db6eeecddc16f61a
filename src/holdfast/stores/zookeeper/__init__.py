"""The ZooKeeper store: each claim is an ephemeral node in an ensemble that all clients share.

A URL is ``zookeeper://host1,host2:2181/chroot``, or ``zk://...``, with these options:

* ``session=30``: seconds until a dead process is noticed, whatever the ttl.
* ``prefix=holdfast``: the folder of the names.
* ``recipe=kazoo|curator``: the nodes are named as in that library, so that its locks and the locks
  of holdfast exclude each other. ``recipe=simple``: one node named after the lock, and no line.
* ``acl``, ``sasl``, ``tls``, ``ca``, ``certfile``, ``keyfile``, ``keyfile_password``,
  ``check_hostname``.

A ``KazooClient`` may be given instead of a URL.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL
from .config import OPTIONS, Settings, settings
from .names import SIMPLE
from .port import Port
from .simple import SimpleStore
from .store import CAPABILITIES, ZooKeeperStore

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. It connects with the first verb."""
    found = settings(url)
    from .blocking.port import ThreadPort

    return _over(ThreadPort(found), found)


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    found = settings(url)
    from .aio import LoopPort

    return _over(LoopPort(found), found)


def _over(port: Port, found: Settings) -> Store:
    if found.recipe == SIMPLE:
        return SimpleStore(port, found.root, found.session)
    return ZooKeeperStore(port, found.root, found.recipe, found.session)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine an ensemble, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(settings(url))
