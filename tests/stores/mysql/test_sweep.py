"""Names that no client uses any longer are forgotten; all other names stay."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from holdfast import Client
from tests.servers.mariadb_server import MariadbServer

HOUR = 3600 * 1_000_000


@pytest.fixture
def client(alone: MariadbServer) -> Iterator[tuple[Client, MariadbServer]]:
    """A client, and its separate server."""
    with Client(alone.url) as one:
        one.inspect()
        yield one, alone


def names(server: MariadbServer) -> list[str]:
    return [name.decode() for (name,) in server.ask("SELECT name FROM holdfast.holdfast_lines")]


def sweep(server: MariadbServer, idle: int) -> int:
    ((gone,),) = server.ask(f"CALL holdfast.holdfast_sweep_4(256, {idle})")
    return int(gone)


def test_what_is_idle_goes_and_what_is_used_stays(client: tuple[Client, MariadbServer]) -> None:
    locks, server = client
    # Given names that are idle, held by one or two claims, expired, and left with a tombstone
    for at in range(300):
        locks.lock(f"idle:{at}").acquire().release()
    held = locks.lock("held").acquire()
    shared = [locks.semaphore("shared", 3).acquire() for _ in range(2)]
    dead = [locks.semaphore("dead", 3, ttl=0.05, auto_renew=False).acquire() for _ in range(2)]
    broken = locks.lock("broken").acquire()
    locks.break_("broken", broken.fence)
    time.sleep(0.1)
    # When idle names are swept, first with a limit of one hour, and then with none
    assert sweep(server, HOUR) == 0
    assert len(names(server)) == 304
    gone = [sweep(server, 0) for _ in range(3)]
    # Then the names in use are still there
    assert sum(gone) == 301
    assert max(gone) <= 256
    assert set(names(server)) == {"held", "shared", "broken"}
    held.check()
    assert held.release()
    assert all(one.release() for one in shared)
    assert all(one.release() is False for one in dead)
    # And a forgotten name gets a new row, with a greater fence
    with locks.lock("held") as again:
        assert again.fence > held.fence


def test_a_sweep_skips_a_locked_row(client: tuple[Client, MariadbServer]) -> None:
    locks, server = client
    for name in ("a", "b"):
        locks.lock(name).acquire().release()
    with server.connect() as other, other.cursor() as cursor:
        cursor.execute("SELECT last FROM holdfast_lines WHERE name = 'a' FOR UPDATE")
        assert sweep(server, 0) == 1
        other.rollback()
    assert names(server) == ["a"]


def test_a_name_is_forgotten_and_used_in_the_same_moment(
    client: tuple[Client, MariadbServer],
) -> None:
    locks, server = client
    end = time.monotonic() + 1.5
    fences = []
    with server.root(database="holdfast") as other, other.cursor() as cursor:
        while time.monotonic() < end:
            hold = locks.lock("x").acquire()
            fences.append(hold.fence)
            cursor.execute("CALL holdfast_sweep_4(256, 0)")
            while cursor.nextset():
                pass
            hold.check()
            assert hold.release()
    assert fences == sorted(set(fences))


def test_after_a_burst_of_names_the_sweeping_keeps_up(
    client: tuple[Client, MariadbServer],
) -> None:
    locks, server = client
    # Given very many names that were not used for an hour
    locks.lock("first").acquire().release()
    with server.connect(autocommit=True) as one, one.cursor() as cursor:
        cursor.execute(
            "INSERT INTO holdfast_lines (name, last) SELECT CONCAT('old:', seq), 1"
            " FROM seq_1_to_8000"
        )
    # When far fewer names are used
    most = 1_600
    for number in range(most):
        locks.lock(f"new:{number % 50}").acquire().release()
    # Then most old names are gone; with two for each release it would be only 3,200
    old = [name for name in names(server) if name.startswith("old:")]
    assert len(old) < 8_000 - 3 * most, len(old)
