"""Redisson's locks, on the keys that services in Java use already.

The URL is ``redis+redisson://host:6379/0``, or ``rediss+redisson://`` for TLS. ``lock()`` is
Redisson's RLock, ``rwlock()`` its RReadWriteLock, ``semaphore()`` its RPermitExpirableSemaphore
(each permit has a lease). Options:

    client=current   the version of the Redisson clients: ``current``, or ``3.8.1``
    fair=true        ``lock()`` is FairLock: waiters are served in order
    fair_wait=5      seconds for which a dead waiter of holdfast delays the waiters behind it
    fenced=true      ``lock()`` is FencedLock: ``hold.fence`` is its token
    permits=counted  ``semaphore()`` is RSemaphore, whose permits have no owners and no leases
    prefix=          the beginning of every name at the server

The options of the connection are those of ``redis://``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...core.finding import Finding
from ...core.model import Capabilities
from ...core.ports import Store
from ...core.url_options import seconds, word
from ...errors import ConfigError
from ...url import StoreURL
from .. import opening
from .library import SCRIPTS
from .requests import FAIR_WAIT_S, Options
from .store import Port, RedissonStore

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]

#: The capabilities of a URL without options; ``fair=true`` and ``fenced=true`` have more.
CAPABILITIES = Capabilities(
    store="redisson",
    fair=False,
    election=False,
    detach=False,
    min_hold=False,
    fences=False,
    visible_line=False,
    owners=False,
    kinds=False,
    wakeup_grants=False,
    durable_fences=False,
    permits_reset_when_idle=False,
    reentry="prolongs",
)


def _yes(text: str) -> bool:
    return word("true", "false")(text) == "true"


#: All options of a URL.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **opening.OPTIONS,
    "client": word("3.8.1", "current"),
    "fair": _yes,
    "fair_wait": seconds(0.5, 86_400.0),
    "fenced": _yes,
    "permits": word("expirable", "counted"),
}


def _options(url: StoreURL) -> Options:
    said = url.options
    fair, fenced = said.get("fair", False), said.get("fenced", False)
    if fair and fenced:
        raise ConfigError(f"{url}: Redisson has no lock that is fair and fenced; choose one")
    return Options(
        said.get("prefix", ""),
        said.get("client") == "3.8.1",
        fair,
        fenced,
        said.get("permits") == "counted",
        said.get("fair_wait", FAIR_WAIT_S),
    )


def _new_uuid() -> str:
    from uuid import uuid4  # imported here, because few programs need it

    return str(uuid4())


#: The commands that the scripts need; `holdfast.dialects.doctor` tests the right to each.
_NEEDED = (
    "evalsha script|load get getrange set del exists type pttl pexpire incrby decrby hget hset "
    "hdel hlen hkeys hgetall hexists hincrby zadd zrem zscore zcard zrange zrangebyscore "
    "zremrangebyscore zincrby lindex llen lpop lrange lrem time"
)
_SPARE = {"scan": "holdfast ls can't find names"}


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. It connects with the first verb."""
    options = _options(url)
    port: Port
    from .blocking import ChannelThreadPort

    port = ChannelThreadPort(opening.reach(url), SCRIPTS)
    return RedissonStore(port, options, CAPABILITIES, _new_uuid)


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    options = _options(url)
    port: Port
    from .aio import ChannelLoopPort

    port = ChannelLoopPort(opening.reach(url), SCRIPTS)
    return RedissonStore(port, options, CAPABILITIES, _new_uuid)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine a server, for ``holdfast doctor``."""
    from ..doctor import examine

    return examine(url, _NEEDED.split(), _SPARE, tracks=False)
