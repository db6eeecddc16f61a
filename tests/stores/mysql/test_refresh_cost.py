"""The number of statements of refresh guards, counted by the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdfast import AsyncClient, Client
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import play
from tests.stores.mysql.test_cost import count, kinds, server

__all__ = ["count", "server"]
Count = Callable[[], list[str]]
COMPUTING = ["holdfast_refresh_begin_2", "holdfast_refresh_finish_2"]


def test_a_fresh_hit_is_one_statement_and_a_computation_three(
    server: MariadbServer, count: Count
) -> None:
    with Client(server.url) as client:
        guard = client.guard("g", ttl=60)
        keys = [f"{number}" for number in range(100)]
        assert guard.get_many(keys, len) == {key: len(key) for key in keys}
        count()
        for _ in range(20):
            guard.get(len, key="1")
        assert len(count()) == 20
        assert guard.get_many(keys, len) == {key: len(key) for key in keys}
        assert len(count()) == 1
        guard.get(lambda: 1, key="a new one")
        said = kinds(count())
        # Once a second, expired rows are removed as well
        assert [one for one in said if "refresh" in one and "sweep" not in one] == COMPUTING
        assert guard.invalidate(*keys) == 100
        assert kinds(count()) == ["holdfast_refresh_invalidate_2"]


def test_under_asyncio_too(server: MariadbServer, count: Count) -> None:
    async def main() -> None:
        async def compute() -> int:
            return 1

        async with AsyncClient(server.url) as client:
            guard = client.guard("aio", ttl=60)
            assert await guard.get(compute) == 1
            count()
            for _ in range(20):
                await guard.get(compute)
            assert len(count()) == 20

    play(main)


def test_a_waiter_asks_less_than_ten_times_a_second(server: MariadbServer, count: Count) -> None:
    inside, counting = threading.Event(), threading.Event()

    def compute() -> int:
        inside.set()
        counting.wait(20)
        time.sleep(1.5)
        return 1

    with Client(server.url) as one, Client(server.url) as two:
        assert two.guard("warm", ttl=60).get(lambda: 1) == 1
        first = threading.Thread(target=lambda: one.guard("slow", ttl=60).get(compute))
        first.start()
        assert inside.wait(20)
        count()
        counting.set()
        begun = time.monotonic()
        assert two.guard("slow", ttl=60).get(lambda: 2) == 1
        took = time.monotonic() - begun
        looks = [said for said in count() if said.startswith("SELECT ended")]
        first.join(20)
    print(f"{len(looks)} looks in {took:.1f} s")
    assert 3 < len(looks) < 5 + 10 * took
