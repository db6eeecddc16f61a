"""Queues on PostgreSQL behind a pooler, and in a schema from an earlier release."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, ConfigError
from holdfast.core.finding import Level
from holdfast.stores.postgres import ddl, examine
from holdfast.url import StoreURL, find
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres_server import PostgresServer


def test_a_worker_behind_a_pooler_asks_by_itself(
    shared_postgres: PostgresServer, own_name: str
) -> None:
    with PgBouncer(shared_postgres) as pooler, Client(pooler.url) as client:
        queue = client.queue(own_name)
        got: list[Any] = []

        def work() -> None:
            got.extend(job.payload for job in queue.consume(timeout=4))

        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.2)
        queue.put_many(range(5), group="g")
        worker.join(60)
        assert got == list(range(5))


def url_of(text: str) -> StoreURL:
    return find(text)[1]


def test_a_schema_from_before_queues_is_added_to(
    new_postgres: Callable[..., PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a schema as an earlier release made it, which is in use
    server = new_postgres()
    ddl.statements.cache_clear()
    with monkeypatch.context() as before:
        before.setattr(ddl, "_PARTS", ("tables", "line", "verbs", "look", "guard", "rights"))
        with server.connect() as admin:
            admin.execute(ddl.script("holdfast"))  # type: ignore[call-overload]
    ddl.statements.cache_clear()
    fixed = server.url_for(options="create_schema=off")
    with Client(server.url) as client, Client(fixed) as other:
        hold = other.lock("x").acquire()
        (old,) = (one for one in examine(url_of(fixed)) if one.subject == "schema")
        assert (old.level, "queue_put_2" in old.text) == (Level.WARN, True)
        with pytest.raises(ConfigError, match="holdfast schema"):
            other.queue("q").put(1)
        # When a queue is used for the first time
        client.queue("q").put("x")
        # Then all clients can use it, and the hold is still valid
        job = other.queue("q").take(timeout=5)
        assert job is not None
        assert job.ack()
        hold.extend()
        assert hold.release()
    assert server.ask("SELECT version FROM holdfast.version ORDER BY 1") == [(2,), (3,), (5,)]
