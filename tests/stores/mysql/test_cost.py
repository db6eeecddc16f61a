"""The number of statements that each verb takes, counted by the server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast import AsyncClient, Client
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import eventually, play

#: Number of waiters, and the seconds for which their statements are counted.
CREW, WAIT_S = 5, 3.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A server that no other test uses."""
    with MariadbServer(tmp_path_factory.mktemp("counted")) as one:
        yield one


@pytest.fixture
def count(server: MariadbServer) -> Callable[[], list[str]]:
    """A function that returns the statements since its last call, without those in procedures."""
    server.ask("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1")

    def seen() -> list[str]:
        rows = server.ask(
            "SELECT CAST(argument AS CHAR) FROM mysql.general_log WHERE user_host NOT LIKE 'root%' "
            "AND command_type = 'Query'"
        )
        server.ask("SET GLOBAL general_log = 0")
        server.ask("TRUNCATE mysql.general_log")
        server.ask("SET GLOBAL general_log = 1")
        return [text for (text,) in rows]

    return seen


def kinds(statements: list[str]) -> list[str]:
    """The names of the called procedures, without the sweeps, which happen at random."""
    found = [one.partition("(")[0].split()[-1] for one in statements]
    return [one for one in found if one != "holdfast_sweep_3"]


def test_each_verb_is_one_statement(server: MariadbServer, count: Callable[[], list[str]]) -> None:
    with Client(server.url) as client:
        client.lock("warm").acquire().release()
        count()
        hold = client.lock("x").acquire()
        assert kinds(count()) == ["holdfast_join_3"]
        hold.extend()
        assert kinds(count()) == ["holdfast_stand_3"]
        hold.release()
        assert kinds(count()) == ["holdfast_leave_3"]
        several = client.all(*(f"many:{at}" for at in range(20))).acquire()
        assert kinds(count()) == ["holdfast_join_free_3"]
        several.release()
        assert kinds(count()) == ["holdfast_leave_all_3"]
        client.inspect()
        assert len(count()) == 1


def test_under_asyncio_too(server: MariadbServer, count: Callable[[], list[str]]) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            await (await client.lock("warm").acquire()).release()
            count()
            async with client.lock("x"):
                pass
            assert kinds(count()) == ["holdfast_join_3", "holdfast_leave_3"]

    play(main)


def test_many_holds_are_renewed_by_one_statement(
    server: MariadbServer, count: Callable[[], list[str]]
) -> None:
    with Client(server.url) as client:
        client.lock("warm").acquire().release()
        holds = [client.lock(f"kept:{at}", ttl=3.0).acquire() for at in range(50)]
        count()
        time.sleep(3.5)
        for hold in holds:
            hold.check()
        sent = kinds(count())
        # On a busy machine the renewals can come in several statements
        assert "holdfast_renew_3" in sent
        assert set(sent) <= {"holdfast_renew_3", "holdfast_stand_3"}
        assert len(sent) < 50
        for hold in holds:
            hold.release()


def test_a_waiter_asks_less_than_ten_times_a_second(
    server: MariadbServer, count: Callable[[], list[str]]
) -> None:
    # Given a holder and waiters behind it, one of them a task
    def wait() -> None:
        with Client(server.url) as client:
            client.lock("busy", timeout=60).acquire().release()

    async def wait_too() -> None:
        async with AsyncClient(server.url) as client, client.lock("busy", timeout=60):
            pass

    with Client(server.url) as client, client.lock("busy"):
        crew = [threading.Thread(target=wait) for _ in range(CREW - 1)]
        crew.append(threading.Thread(target=lambda: asyncio.run(wait_too())))
        for one in crew:
            one.start()
        eventually(lambda: len(client.inspect("busy")[0].waiters) == CREW)
        time.sleep(0.5)  # who has just begun to wait looks more often
        # When they have waited for a while
        count()
        begun = time.monotonic()
        time.sleep(WAIT_S)
        sent = [one for one in kinds(count()) if one != "holdfast_renew_3"]
        took = time.monotonic() - begun
    for one in crew:
        one.join()
    # Then each waiter sends at most ten statements a second
    rate = len(sent) / took / CREW
    print(f"{rate:.1f} statements a second for each who waits")
    assert rate <= 10
