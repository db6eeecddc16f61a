"""Timestamp locks: a key with the time at which it expires, by the clocks of its users.

The URL is ``redis+timestamp://host:6379/0``, or ``rediss+timestamp://`` for TLS. This dialect is
for servers and proxies without scripts and without ``SET NX PX``. ``prefix=`` is the beginning of
keys; ``unit=seconds`` is for services that write seconds. ``docs/stores/dialects.md`` describes the
weak points of this dialect.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...core.url_options import word
from ...url import StoreURL
from ..opening import OPTIONS as _OF_DIALECTS
from ..opening import reach
from .store import CAPABILITIES, TimestampStore

__all__ = ["CAPABILITIES", "OPTIONS", "examine", "open_aio", "open_blocking"]

OPTIONS = {**_OF_DIALECTS, "unit": word("milliseconds", "seconds")}
#: The commands that this dialect needs; `holdfast.dialects.doctor` tests the right to each.
_NEEDED = ("get", "setnx", "getset", "del")
_SPARE = {"scan": "holdfast ls can't find names"}


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. It connects with the first verb."""
    from ..blocking import WatchingThreadPort

    return TimestampStore(WatchingThreadPort(reach(url)), *_words(url))


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    from ..aio import WatchingLoopPort

    return TimestampStore(WatchingLoopPort(reach(url)), *_words(url))


def _words(url: StoreURL) -> tuple[str, bool]:
    """Return the prefix, and True if times are written in seconds instead of milliseconds."""
    return url.options.get("prefix", ""), url.options.get("unit") == "seconds"


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine a server, for ``holdfast doctor``."""
    from ..doctor import examine

    return examine(url, _NEEDED, _SPARE, tracks=False)
