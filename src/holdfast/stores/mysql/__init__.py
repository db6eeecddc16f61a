"""MySQL and MariaDB: the line of claims in two tables, one stored procedure per verb.

``mysql://user:password@host:3306/database``, or ``mariadb://``; the URLs of SQLAlchemy for PyMySQL
and asyncmy work as well. Options: ``prefix=holdfast`` begins the names of tables and procedures;
``unix_socket``, ``ssl_mode`` and similar options are for connecting. An engine of SQLAlchemy can
replace the URL.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.finding import Finding
from ...core.ports import Store
from ...url import StoreURL
from .config import DEFAULT_PREFIX, OPTIONS, of_driver, settings
from .schema import script
from .store import CAPABILITIES, MysqlStore

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
    found = of_driver(settings(url), "pymysql", "an Engine for PyMySQL")
    from .blocking.port import ThreadPort

    return MysqlStore(ThreadPort(found), found.prefix)


def open_aio(url: StoreURL) -> Store:
    """Return a store for one asyncio event loop. It connects with the first verb."""
    found = of_driver(settings(url), "asyncmy", "an AsyncEngine for asyncmy")
    from .aio.port import LoopPort

    return MysqlStore(LoopPort(found), found.prefix)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine a server, for ``holdfast doctor``."""
    from .blocking.doctor import examine

    return examine(url)


def schema_script(url: StoreURL) -> str:
    """Return the script that makes the tables and procedures, for the server's own client."""
    return script(url.options.get("prefix", DEFAULT_PREFIX))


def apply_schema(url: StoreURL) -> str:
    """Make the tables and procedures as this user; return a sentence that reports it."""
    from .blocking.make import make

    return make(settings(url))
