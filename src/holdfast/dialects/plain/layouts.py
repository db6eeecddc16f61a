"""The layouts of lock libraries with plain locks: the keys of locks, and the format of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.url_options import word
from ...url import StoreURL
from ..opening import OPTIONS as _OF_DIALECTS
from .tokens import SHAPES


class Layout(NamedTuple):
    """The key of a lock, and the format of its token."""

    prefix: str = ""
    shape: str = "hex"
    unit: str = "milliseconds"
    signal: str = "none"

    def key(self, name: str) -> bytes:
        """Return the key of a name."""
        return (self.prefix + name).encode()


#: The lock library (the option ``layout=``) -> its layout. Other options override these values.
LAYOUTS = {
    "redis-py": Layout(),
    "redsync": Layout(shape="base64"),
    "node-redlock": Layout(),
    "pottery": Layout(prefix="redlock:", shape="uuid"),
    "python-redis-lock": Layout("lock:", "base64-18", "seconds", "python-redis-lock"),
}

#: All options of a URL.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **_OF_DIALECTS,
    "layout": word(*LAYOUTS),
    "token": word(*SHAPES),
    "unit": word("milliseconds", "seconds"),
    "signal": word("none", "python-redis-lock"),
}


def layout(url: StoreURL) -> Layout:
    """Return the layout of a URL."""
    options = url.options
    found = LAYOUTS[options.get("layout", "redis-py")]
    return Layout(
        options.get("prefix", found.prefix),
        options.get("token", found.shape),
        options.get("unit", found.unit),
        options.get("signal", found.signal),
    )
