"""Redis and Valkey: the line of claims in Lua scripts, for all clients of one server.

The URLs are ``redis://``, ``rediss://`` (TLS), ``redis+unix://`` (a socket), and the same schemes
with ``valkey``. URLs of redis-py and of Celery work unchanged. Options: ``prefix`` (``holdfast``)
begins every key; ``recovery``, ``grace`` and ``replicas`` protect against lost data; ``protocol=2``
is for a proxy without RESP3; all other options are those of redis-py. Instead of a URL, a
``redis.Redis`` or ``redis.asyncio.Redis`` can be given.

``redis+sentinel://host1,host2/NAME/0`` is the primary that the sentinels name, and
``redis+cluster://host1,host2`` is a cluster; with ``rediss`` in place of ``redis``, connections use
TLS. Instead of these URLs, a client that ``master_for()`` returned or a ``RedisCluster`` can be
given.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL
from .config import OPTIONS as _OF_ONE
from .config import settings
from .port import Port
from .store import CAPABILITIES, RedisStore
from .topology import OPTIONS as _OF_SENTINELS
from .topology import Members, topology

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]


OPTIONS = {**_OF_ONE, **_OF_SENTINELS}


def open_blocking(url: StoreURL) -> Store:
    """A store for threads. It connects with the first verb."""
    several = topology(url)
    found = settings(url) if several is None else several.settings
    port: Port
    if several is None:
        from .blocking.port import ThreadPort

        port = ThreadPort(found)
    elif isinstance(several, Members):
        from .blocking.cluster import open_cluster

        port = open_cluster(several)
    else:
        from .blocking.sentinel import WatchedThreadPort

        port = WatchedThreadPort(several)
    return RedisStore(port, found.prefix)


def open_aio(url: StoreURL) -> Store:
    """A store for one asyncio event loop. It connects with the first verb."""
    several = topology(url)
    found = settings(url) if several is None else several.settings
    port: Port
    if several is None:
        from .aio.port import LoopPort

        port = LoopPort(found)
    elif isinstance(several, Members):
        from .aio.cluster import open_cluster

        port = open_cluster(several)
    else:
        from .aio.sentinel import WatchedLoopPort

        port = WatchedLoopPort(several)
    return RedisStore(port, found.prefix)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Findings about a server, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(url)
