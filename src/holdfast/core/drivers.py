"""The drivers of the stores, and the error for one that can't be imported."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..errors import ConfigError

_PSYCOPG = "psycopg[binary]>=3.2"
#: Module -> the requirement that installs it, as in pyproject.toml; empty: a part of Python.
NEEDED = {
    "redis": "redis>=5.2",
    "kazoo": "kazoo>=2.10",
    "psycopg": _PSYCOPG,
    "psycopg_binary": _PSYCOPG,
    "psycopg_c": _PSYCOPG,
    "pymysql": "PyMySQL>=1.1.2",
    "asyncmy": "asyncmy>=0.2.18",
    "mcp": "mcp>=2.3",
    **dict.fromkeys(("fcntl", "grp", "pwd", "resource", "sqlite3", "_sqlite3"), ""),
}


@contextmanager
def needed(needy: str = "this store") -> Generator[None]:
    """Raise `ConfigError` with the remedy if an import in the body finds no driver.

    ``needy`` is the subject of the message. Another ``ImportError`` is raised unchanged.
    """
    try:
        yield
    except ImportError as missing:
        requirement = NEEDED.get((missing.name or "").partition(".")[0])
        if requirement is None:
            raise
        if not requirement:
            raise ConfigError(
                f"the embedded store (sqlite://) needs a POSIX system with {missing.name}, which "
                "is not here: name the store of a server, as in "
                "HOLDFAST_URL=redis://localhost:6379/0"
            ) from missing
        raise ConfigError(
            f"{needy} needs {requirement}: pip install '{requirement}' ({missing})"
        ) from missing
