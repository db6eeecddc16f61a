"""ZooKeeper: the line of claims as ephemeral nodes, for all clients of one ensemble.

``zookeeper://host1,host2:2181/chroot``, or ``zk://``. Options: ``session=30``, the seconds after
which a dead process is noticed, whatever the ttl; ``prefix=holdfast``, the folder of the names;
``recipe=kazoo|curator``: our nodes look like those of that library, so that its locks and ours
exclude each other; or ``recipe=simple``: one node with the name of the lock, and no line;
``acl``, ``sasl``, and ``tls``, ``ca``, ``certfile``, ``keyfile``, ``keyfile_password``,
``check_hostname``. A ``KazooClient`` may be given instead of a URL.
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
    """A store for threads. It connects with the first verb."""
    found = settings(url)
    from .blocking.port import ThreadPort

    return _over(ThreadPort(found), found)


def open_aio(url: StoreURL) -> Store:
    """A store for one asyncio event loop. It connects with the first verb."""
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
