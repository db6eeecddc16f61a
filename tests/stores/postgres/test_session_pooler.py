"""PgBouncer in session mode, as the URL states: waiters get wake-ups, as without a pooler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from holdfast import AsyncClient, Client
from holdfast.core.finding import Level
from holdfast.testing.faults import Step, aim
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.examined import worst
from tests.stores.postgres.conftest import asked_when_woken

SESSIONS = 40
#: The URL options; with recovery off, the client sends no requests by itself.
SAID = "?pooler=session&recovery=off"


@pytest.fixture(scope="module")
def pooler(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(shared_postgres, "session", SESSIONS) as one:
        yield one


@pytest.fixture(scope="module")
def sharing(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A pooler in transaction mode, whatever the URL states."""
    with PgBouncer(shared_postgres) as one:
        yield one


def test_threads_are_woken(pooler: PgBouncer, own_name: str) -> None:
    with Client(pooler.url + SAID) as one, Client(pooler.url + SAID) as two:
        asked = [asked_when_woken(one, two, own_name) for _ in range(3)]
        assert two.capabilities.wakes_waiters
    assert min(asked) == 0


def test_tasks_are_woken(pooler: PgBouncer, own_name: str) -> None:
    async def main() -> None:
        url = pooler.url + SAID
        async with AsyncClient(url) as one, AsyncClient(url) as two:
            for _ in range(3):
                steps: list[Step] = []
                with aim(two, steps.append):
                    await _served(one, two, own_name)
                asked.append(steps.count(Step("keep", "before")))
            assert two.capabilities.wakes_waiters

    asked: list[int] = []
    asyncio.run(main())
    assert min(asked) == 0


async def _served(one: AsyncClient, two: AsyncClient, name: str) -> None:
    """Let the second client wait while the first one holds; then it holds and releases."""
    hold = await one.lock(name).acquire()
    waiter = asyncio.create_task(two.lock(name, timeout=20).acquire())
    while not (await one.inspect(name))[0].waiters:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    await hold.release()
    assert await (await waiter).release()


def test_without_the_option_pooler_no_client_listens(pooler: PgBouncer, own_name: str) -> None:
    with Client(pooler.url) as one, Client(pooler.url) as two:
        assert asked_when_woken(one, two, own_name) > 0
        assert not two.capabilities.wakes_waiters


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_a_wrong_pooler_option_is_noticed_before_any_client_listens(
    face: str,
    sharing: PgBouncer,
    own_name: str,
    caplog: pytest.LogCaptureFixture,
    postgres_url: str,
) -> None:
    # When a client waits there, and no other client uses its sessions
    if face == "threads":
        with Client(postgres_url) as one, Client(sharing.url + SAID) as two:
            assert asked_when_woken(one, two, own_name) > 0
            assert not two.capabilities.wakes_waiters
    else:
        asyncio.run(_wait_as_tasks(postgres_url, sharing.url + SAID, own_name))
    # Then the wrong option is logged
    assert "isn't in session mode" in caplog.text
    # And no session that other clients get listens to a channel
    with ExitStack() as stack:
        for _ in range(5):
            plain = stack.enter_context(psycopg.connect(sharing.url, prepare_threshold=None))
            row = plain.execute("SELECT count(*) FROM pg_listening_channels()").fetchone()
            assert row == (0,)


async def _wait_as_tasks(direct: str, pooled: str, name: str) -> None:
    async with AsyncClient(direct) as one, AsyncClient(pooled) as two:
        await _served(one, two, name)
        assert not two.capabilities.wakes_waiters


def test_doctor_distinguishes_the_kinds_of_poolers(pooler: PgBouncer, sharing: PgBouncer) -> None:
    said = worst(pooler.url + SAID)
    assert said["pooler"].level is Level.OK
    assert "arrives" in said["pokes"].text
    unsaid = worst(pooler.url)["pooler"]
    assert unsaid.level is Level.WARN
    assert "pooler=session" in unsaid.remedy
    wrong = worst(sharing.url + SAID)
    assert wrong["pooler"].level is Level.FAIL
    assert "pokes" not in wrong


def test_a_session_returned_to_the_pooler_listens_to_no_channel(
    pooler: PgBouncer, own_name: str, shared_postgres: PostgresServer
) -> None:
    # Given a client that has listened, and is closed
    with Client(pooler.url + SAID) as one, Client(pooler.url + SAID) as two:
        asked_when_woken(one, two, own_name)
    # Then a session that is used again listens to no channel
    until(lambda: not _busy(shared_postgres), "the sessions are given back")
    with psycopg.connect(pooler.url, prepare_threshold=None) as plain:
        row = plain.execute("SELECT count(*) FROM pg_listening_channels()").fetchone()
        assert row == (0,)


def _busy(server: PostgresServer) -> bool:
    rows = server.ask("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    return bool(rows)
