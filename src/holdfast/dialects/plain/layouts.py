"""Layouts of the clients of this family: the keys of their locks, and the form of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.url_options import word
from ...url import StoreURL
from ..opening import OPTIONS as _OF_DIALECTS
from .tokens import SHAPES


class Layout(NamedTuple):
    """What is at which key, and in which shape."""

    prefix: str = ""
    shape: str = "hex"
    unit: str = "milliseconds"
    signal: str = "none"

    def key(self, name: str) -> bytes:
        """The key of a name."""
        return (self.prefix + name).encode()


#: By the client that is to be joined. Whatever the URL says besides counts more.
LAYOUTS = {
    "redis-py": Layout(),
    "redsync": Layout(shape="base64"),
    "node-redlock": Layout(),
    "pottery": Layout(prefix="redlock:", shape="uuid"),
    "python-redis-lock": Layout("lock:", "base64-18", "seconds", "python-redis-lock"),
}

#: Everything that a URL may say behind its question mark.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **_OF_DIALECTS,
    "layout": word(*LAYOUTS),
    "token": word(*SHAPES),
    "unit": word("milliseconds", "seconds"),
    "signal": word("none", "python-redis-lock"),
}


def layout(url: StoreURL) -> Layout:
    """The layout that a URL asks for."""
    options = url.options
    found = LAYOUTS[options.get("layout", "redis-py")]
    return Layout(
        options.get("prefix", found.prefix),
        options.get("token", found.shape),
        options.get("unit", found.unit),
        options.get("signal", found.signal),
    )
