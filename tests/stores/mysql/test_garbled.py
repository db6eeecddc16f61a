"""A reply that the driver cannot parse, as from a Galera node that breaks off its reply."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pymysql.cursors import Cursor

from holdfast import Client
from tests.servers.mariadb_server import MariadbServer


def test_an_answer_that_cannot_be_read_costs_its_connection_alone(
    shared_mariadb: MariadbServer, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(shared_mariadb.url) as client:
        client.lock(f"{own_name} first").acquire().release()
        execute, times = Cursor.execute, 0

        def garbled(self: Any, *args: Any, **options: Any) -> Any:
            nonlocal times
            done = execute(self, *args, **options)
            times += 1
            if times == 1:
                raise struct.error("unpack_from requires a buffer of at least 9 bytes")
            return done

        # When the reply to a join is cut short
        monkeypatch.setattr(Cursor, "execute", garbled)
        hold = client.lock(own_name).acquire(timeout=10)
        # Then the join was sent again on another connection, and entered once
        assert hold is not None
        assert times > 1
        (line,) = client.inspect(own_name, exact=True)
        assert [one.fence for one in line.claims] == [hold.fence]
        assert hold.release()
