"""External caches for a refresh guard: the objects that ``cache=`` accepts.

``client.guard("page", ttl=60, cache=django.core.cache.cache)`` keeps the refresh leases in the
store, and the values in that cache. The caches of Django, aiocache and cashews are recognised, and
so are mappings, such as those of cachetools; `django`, `aiocache`, `cashews` and `mapping` name
them explicitly. Any other cache must be a `Cache`.

`dogpile` works in the other direction: it gives a region of dogpile.cache mutexes that hold in the
whole cluster.

No library is imported before one of its caches is used, and nothing is ever pickled here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters import aiocache, cashews, django, mapping
    from .base import Cache
    from .mutex import dogpile

__all__ = ["Cache", "aiocache", "cashews", "django", "dogpile", "mapping"]

_WHERE = {
    "Cache": "base",
    "aiocache": "adapters",
    "cashews": "adapters",
    "django": "adapters",
    "dogpile": "mutex",
    "mapping": "adapters",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
