"""Plain locks: a key with a token and a ttl, the format of most lock libraries for Redis.

The URL is ``redis+plain://host:6379/0``, or ``rediss+plain://`` for TLS. ``layout=`` names the
library whose locks are shared: ``redis-py`` (the default), ``node-redlock``, ``redsync``,
``pottery``, ``python-redis-lock``. ``prefix=``, ``token=``, ``unit=`` and ``signal=`` set the
details; see ``docs/stores/dialects.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL
from ..opening import reach
from .layouts import OPTIONS, layout
from .requests import SCRIPTS
from .store import CAPABILITIES, PlainStore

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]

#: The commands that this dialect needs; `holdfast.dialects.doctor` tests the right to each.
_NEEDED = (
    "evalsha",
    "script|load",
    "get",
    "set",
    "exists",
    "del",
    "pttl",
    "type",
    "hexists",
    "hget",
    "pexpire",
    "expire",
)
_SPARE = {"scan": "holdfast ls can't find names"}


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. It connects with the first verb."""
    from ..blocking import WatchingThreadPort

    return PlainStore(WatchingThreadPort(reach(url), SCRIPTS), layout(url))


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    from ..aio import WatchingLoopPort

    return PlainStore(WatchingLoopPort(reach(url), SCRIPTS), layout(url))


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine a server, for ``holdfast doctor``."""
    from ..doctor import examine

    found = layout(url)
    signals = ("lpush",) if found.signal != "none" else ()
    named = url._replace(options={**url.options, "prefix": found.prefix})
    return examine(named, (*_NEEDED, *signals), _SPARE)
