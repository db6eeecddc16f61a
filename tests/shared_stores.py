"""Every store, on the server that tests share."""

from __future__ import annotations

import pytest

#: Each store, and the fixture that has the address of a server that tests share.
STORES = {
    "memory": "",
    "sqlite": "",
    "redis": "redis_url",
    "postgresql": "postgres_url",
    "mysql": "mariadb_url",
    "zookeeper": "zookeeper_url",
}


def url_of(scheme: str, request: pytest.FixtureRequest, name: str) -> str:
    """Where this store is; ``name``: that of a space in memory."""
    if STORES[scheme]:
        return str(request.getfixturevalue(STORES[scheme]))
    if scheme == "memory":
        return f"memory://{name}"
    return f"sqlite://{request.getfixturevalue('tmp_path')}/shared.db"
