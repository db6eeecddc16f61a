"""All stores, on the servers that tests share."""

from __future__ import annotations

import pytest

#: Each store, and the fixture that returns the address of its shared server.
STORES = {
    "memory": "",
    "sqlite": "",
    "redis": "redis_url",
    "postgresql": "postgres_url",
    "mysql": "mariadb_url",
    "zookeeper": "zookeeper_url",
}


def url_of(scheme: str, request: pytest.FixtureRequest, name: str) -> str:
    """Return the URL of this store; ``name`` is the name of a store in memory."""
    if STORES[scheme]:
        return str(request.getfixturevalue(STORES[scheme]))
    if scheme == "memory":
        return f"memory://{name}"
    return f"sqlite://{request.getfixturevalue('tmp_path')}/shared.db"
