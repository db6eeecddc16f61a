"""The PostgreSQL store: two tables for the lines and their claims, and a function for each verb.

``postgresql://user@host:5432/db``, with all options of libpq: several hosts, TLS, a service, a
socket. Options of holdfast: ``schema=holdfast``, ``durable=on|relaxed``, ``recovery=`` and
``grace=``, ``create_schema=on|off``, ``pool=10``. A pool of psycopg_pool or an engine of
SQLAlchemy can replace the URL.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL
from .config import OPTIONS, settings
from .ddl import script
from .store import CAPABILITIES, PostgresStore

__all__ = [
    "CAPABILITIES",
    "OPTIONS",
    "apply_schema",
    "examine",
    "open_aio",
    "open_blocking",
    "schema_script",
]


def open_blocking(url: StoreURL) -> Store:
    """Return a store for threads. It connects with the first verb."""
    found = settings(url)
    from .blocking.port import ThreadPort

    return PostgresStore(ThreadPort(found), found)


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    found = settings(url)
    from .aio.port import LoopPort

    return PostgresStore(LoopPort(found), found)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine a server, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(settings(url))


def schema_script(url: StoreURL) -> str:
    """Return a script for psql that makes the schema."""
    found = settings(url)
    return script(found.schema, found.trust)


def apply_schema(url: StoreURL) -> str:
    """Make the schema as this user; return a sentence about what was done."""
    from .blocking.schema import apply

    return apply(settings(url))
