"""Connection settings from the URL of a dialect: those of ``redis://``, and the dialect's options.

Each dialect has two schemes, for example ``redis+plain://host:6379/15`` for TCP and
``rediss+plain://`` for TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..stores.redis.config import OPTIONS as _OF_REDIS
from ..stores.redis.config import Settings, settings
from ..url import StoreURL

#: Maximum size of a prefix of keys, in bytes.
PREFIX_MAX = 128
#: Options of ``redis://`` that dialects don't support, or define themselves.
_NOT_HERE = ("prefix", "recovery", "grace", "replicas")


def prefix(text: str) -> str:
    """Check the option ``prefix=``, the beginning of every key; it may be empty."""
    if len(text.encode()) > PREFIX_MAX:
        raise ValueError(f"at most {PREFIX_MAX} bytes")
    return text


#: Options of every dialect: those of the connection, and the prefix of keys.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **{name: read for name, read in _OF_REDIS.items() if name not in _NOT_HERE},
    "prefix": prefix,
}


def reach(url: StoreURL) -> Settings:
    """Return the connection settings of a dialect's URL, with the dialect's label."""
    plain, _, _ = url.scheme.partition("+")
    known = {name: value for name, value in url.options.items() if name in _OF_REDIS}
    known.pop("prefix", None)
    found = settings(url._replace(scheme=plain, options=known))
    _, _, place = found.label.partition("://")
    return found._replace(label=f"{url.scheme}://{place}", recovery="off")
