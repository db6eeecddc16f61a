"""Redis and Valkey: the line of claims as Lua, for all who reach one server.

``redis://``, ``rediss://`` (TLS), ``redis+unix://`` (a socket), and the same for ``valkey``: the
URLs of redis-py and of Celery, unchanged. Options: ``prefix=holdfast`` is what every key begins
with; ``protocol=2`` for a proxy that knows no RESP3; the rest is redis-py's. A ``redis.Redis`` or
``redis.asyncio.Redis`` may be given instead of a URL.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...errors import ConfigError
from ...url import StoreURL
from .config import OPTIONS, settings
from .store import CAPABILITIES, RedisStore

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]


def open_blocking(url: StoreURL) -> Store:
    """A store for threads. It connects with the first verb."""
    found = settings(url)
    try:
        from .blocking.port import ThreadPort
    except ImportError as missing:
        raise _no_driver(url, missing) from missing
    return RedisStore(ThreadPort(found), found.prefix)


def open_aio(url: StoreURL) -> Store:
    """A store for one asyncio event loop. It connects with the first verb."""
    found = settings(url)
    try:
        from .aio.port import LoopPort
    except ImportError as missing:
        raise _no_driver(url, missing) from missing
    return RedisStore(LoopPort(found), found.prefix)


def examine(url: StoreURL) -> Iterator[Finding]:
    """What is right and wrong with a server, for ``holdfast doctor``."""
    try:
        from .blocking.doctor import examine
    except ImportError as missing:
        raise _no_driver(url, missing) from missing
    return examine(url)


def _no_driver(url: StoreURL, missing: ImportError) -> ImportError | ConfigError:
    if (missing.name or "").partition(".")[0] != "redis":
        return missing
    return ConfigError(
        f"{url.scheme}:// needs redis-py 5.2 or later: pip install 'holdfast[redis]' ({missing})"
    )
