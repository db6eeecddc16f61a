"""Torture with troubles on real servers: clocks that step, damage, exhausted limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.testing.faults import dice
from holdfast.testing.torture import Descriptors, Options, Trouble, run
from tests.servers.clock import Clock
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_server import RedisServer
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.redis.ground import RedisGround
from tests.stores.rows import RowsGround
from tests.stores.sqlite.ground import SqliteGround
from tests.stores.zookeeper.ground import ZooKeeperGround
from tests.torture.scale import FULL, IGNORED, times
from tests.torture.troubles import Clocks, Connections, Damage

#: With ``HOLDFAST_TORTURE=full``: twenty minutes on each store.
SECONDS = times(1200, 8)
USUAL = Options(
    seconds=SECONDS,
    processes=times(8, 4),
    names=3,
    ttl=1.0,
    every=0.4,
    long=0.3,
    trouble=0.7,
    strikes=("kill", "stop", "stop"),
)
#: A usual run leaves these tests out, because each store takes twenty minutes.
pytestmark = pytest.mark.skipif(not FULL, reason="HOLDFAST_TORTURE=full; workers under troubles")
STORES = ("sqlite", "redis", "postgresql", "mysql", "zookeeper")


class Place(NamedTuple):
    """The URL of a store, and the troubles for it."""

    url: str
    troubles: list[Trouble]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, server_clock: Clock, tmp_path: Path) -> Iterator[Place]:
    """A store whose server, if it has one, has a clock that the test steps."""
    if request.param == "sqlite":
        ground = SqliteGround(str(tmp_path / "locks.db"))
        yield Place(ground.url, [Descriptors(), Damage(ground, together=True)])
        return
    make = {"redis": _redis, "postgresql": _postgres, "mysql": _mysql, "zookeeper": _zookeeper}
    with server_clock.worn():
        url, troubles = make[request.param](request.getfixturevalue)
    yield Place(url, [Descriptors(), Clocks(server_clock), *troubles])


def _redis(get: Callable[[str], Any]) -> Place:
    server: RedisServer = get("new_redis")()
    admin = server.client()

    def limit(few: bool) -> None:
        admin.config_set("maxclients", 1 if few else 10_000)

    return Place(server.url, [Damage(RedisGround(server)), Connections(limit)])


def _postgres(get: Callable[[str], Any]) -> Place:
    server: PostgresServer = get("new_postgres")()
    server.ask("CREATE ROLE workers LOGIN")
    server.ask("GRANT CREATE ON DATABASE postgres TO workers")

    def limit(few: bool) -> None:
        server.ask(f"ALTER ROLE workers CONNECTION LIMIT {1 if few else -1}")

    ground = RowsGround(server.url_for("workers"), server.ask, "holdfast")
    return Place(ground.url, [Damage(ground), Connections(limit)])


def _mysql(get: Callable[[str], Any]) -> Place:
    server: MariadbServer = get("new_mariadb")()

    def limit(few: bool) -> None:
        server.ask(f"SET GLOBAL max_connections = {10 if few else 150}")

    ground = RowsGround(server.url, server.ask, DATABASE, "holdfast_lines", "holdfast_claims")
    return Place(ground.url, [Damage(ground), Connections(limit)])


def _zookeeper(get: Callable[[str], Any]) -> Place:
    server: ZooKeeperServer = get("new_zookeeper")()
    return Place(f"{server.url}?session=4", [Damage(ZooKeeperGround(server))])


def test_no_promise_is_broken_under_troubles(place: Place) -> None:
    seed = dice("torture with troubles").randrange(1 << 32)
    outcome = run(USUAL._replace(store=place.url, seed=seed), place.troubles)
    print(outcome)
    outcome.demand(IGNORED)
    assert outcome.verdict.figures["held"] > SECONDS


#: For each bug: the complaint that names it, and the fault that is injected into workers.
BUGS = {
    "no_deadline": ("exclusion", "stop"),
    "fence_falls": ("fence order", "kill"),
    "raw_error": ("ended by itself with 1", "kill"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_under_troubles(bug: str, tmp_path: Path) -> None:
    complaint, strike = BUGS[bug]
    seed = dice("troubles, with a bug").randrange(1 << 32)
    said = ""
    for number in range(10):  # if no fault came at the right moment
        ground = SqliteGround(str(tmp_path / f"locks-{number}.db"))
        options = Options(ground.url, 5, seed + number, 4, 1, 0.3, strikes=(strike,), trouble=0.3)
        troubles: list[Trouble] = [Descriptors(), Damage(ground, together=True)]
        outcome = run(options._replace(first=f"tests.torture.{bug}"), troubles)
        said = str(outcome)
        print(said)
        if complaint in outcome.verdict.counts or complaint in " ".join(outcome.troubles):
            break
    assert complaint in said
