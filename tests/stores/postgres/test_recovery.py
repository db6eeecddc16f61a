"""Recovery: after a loss of acknowledged data, nothing is granted until holders have renewed."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.core.model import Change, Held, Renewal
from holdfast.runtime.blocking import run_sync
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.postgres.conftest import NewServer
from tests.stores.sql.queueing import WITHIN_S
from tests.stores.sql.waiting import NOT_HELD, TTL_S, joined
from tests.torture.scale import FULL

#: The URL option that sets the grace period, in seconds.
GRACE = "grace=5"


def forget(server: PostgresServer) -> None:
    """Change the tables as if the last commits had not reached the disk before a crash."""
    server.ask("DELETE FROM holdfast.claims")
    server.ask(
        "UPDATE holdfast.lines SET holders = 0, used = 0, waiters = 0, low = 9223372036854775807,"
        " high = 0, first = 9223372036854775807, head = 9223372036854775807"
    )


def is_barred(client: Client, name: str) -> bool:
    """Return whether the lock is refused because recovery grants nothing."""
    try:
        hold = client.lock(name).acquire(timeout=0.2)
    except StoreUnavailable as wrong:
        return "grants nothing" in str(wrong)
    if hold:
        hold.release()
    return False


def test_after_a_crash_of_a_relaxed_server_only_old_holders_come_back(
    new_postgres: NewServer,
) -> None:
    server = new_postgres(fsync=True)
    with (
        Client(server.url_for(options=f"durable=relaxed&{GRACE}")) as one,
        Client(server.url_for(options=f"durable=relaxed&{GRACE}")) as two,
    ):
        hold = one.lock("a").acquire()
        # When it crashes, and has lost the hold
        forget(server)
        server.crash()
        # Then it grants nothing at first
        assert until(lambda: is_barred(two, "b"), "nothing is granted")
        # And the hold is back with its fence before another claim is granted
        until(lambda: two.inspect("a"), "it is back")
        (claim,) = two.inspect("a")[0].claims
        assert claim.fence == hold.fence
        # Its record in the store lasts longer than the holder's own deadline
        assert claim.expires_in > hold.remaining()
        with two.lock("b", timeout=20):
            assert two.lock("a").acquire(blocking=False) is None
        hold.check()
        assert hold.release()


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "options, fsync, event",
    [
        ("grace=60", True, "crash"),
        ("durable=relaxed&grace=60", False, "restart"),
        ("durable=relaxed&recovery=off", False, "crash"),
    ],
    ids=["durable", "orderly", "off"],
)
def test_where_nothing_is_lost_or_recovered_there_is_no_grace_period(
    new_postgres: NewServer, options: str, fsync: bool, event: str
) -> None:
    server = new_postgres(fsync=fsync)
    with Client(server.url_for(options=options)) as one:
        hold = one.lock("a").acquire()
        getattr(server, event)()
        begun = time.monotonic()
        with one.lock("b", timeout=20):
            pass
        assert time.monotonic() - begun < (5 if "off" in options else 20)
        if "off" not in options:  # the hold can be forgotten
            assert hold.release()


def test_a_mark_that_came_with_a_dump_is_taken_for_none(new_postgres: NewServer) -> None:
    server = new_postgres()
    url = server.url_for(options=f"durable=relaxed&{GRACE}")
    with Client(url) as one, Client(url) as two:
        hold = one.lock("a").acquire()
        assert not is_barred(two, "b")
        # When the mark of a running server is in another table than the one that it names
        server.ask("UPDATE holdfast.alive SET home = 1")
        # Then nothing is granted in the grace period, and the holder keeps its hold
        assert until(lambda: is_barred(two, "c"), "nothing is granted")
        with two.lock("d", timeout=20):
            hold.check()
        assert hold.release()


def test_only_a_renewal_restores_a_claim_that_was_forgotten(new_postgres: NewServer) -> None:
    server = new_postgres()
    with Client(server.url_for(options=f"durable=relaxed&{GRACE}")) as one:
        store: Any = one._ctx.store
        claim, held = joined(store, "a")
        # When the server has lost the claim, and the grace period begins
        forget(server)
        server.ask("UPDATE holdfast.alive SET home = 1")
        # Then a waiter and the bearer of a token learn that it is gone
        assert run_sync(store.turn(claim, held.fence, WITHIN_S)) == NOT_HELD
        assert run_sync(store.change(Change(claim, held.fence, TTL_S), WITHIN_S)) == NOT_HELD
        # But the holder gets it back
        renewal = Renewal(claim, held.fence, TTL_S)
        assert run_sync(store.renew([renewal], WITHIN_S)) == [Held(held.fence, TTL_S)]


def test_the_death_of_one_of_its_processes_is_a_crash_too(new_postgres: NewServer) -> None:
    """The server continues under the same process id, but data that was not on the disk is lost."""
    server = new_postgres()
    with Client(server.url_for(options=f"durable=relaxed&{GRACE}")) as one:
        one.lock("a").acquire().release()
        with server.connect() as doomed:
            os.kill(doomed.info.backend_pid, signal.SIGKILL)
        assert until(lambda: is_barred(one, "b"), "nothing is granted")
        # Another name is used, because the last release of the first one can be lost: it came just
        # before
        with one.lock("c", timeout=20):
            pass


@pytest.mark.parametrize("options", ["", "durable=relaxed&"] if FULL else [""])
def test_a_promoted_standby_grants_nothing_at_first(options: str, new_postgres: NewServer) -> None:
    # Given a standby that has missed the last grant
    server = new_postgres()
    with Client(server.url) as one:
        one.lock("warm").acquire().release()
    standby = new_postgres(standby_of=server)
    hosts = f"{server.host}:{server.port},{standby.host}:{standby.port}"
    url = f"postgresql://postgres@{hosts}/postgres?{options}{GRACE}"
    with Client(url) as one, Client(url) as two:
        standby.ask("ALTER SYSTEM SET primary_conninfo = ''")
        standby.ask("SELECT pg_reload_conf()")
        until(lambda: not standby.ask("SELECT 1 FROM pg_stat_wal_receiver"), "it follows no more")
        hold = one.lock("a").acquire()
        # When its primary dies and it takes over
        server.kill()
        standby.ask("SELECT pg_promote()")
        assert until(lambda: is_barred(two, "b"), "nothing is granted")
        # Then the hold is back before another claim is granted
        until(lambda: two.inspect("a"), "it is back")
        with two.lock("b", timeout=20):
            assert two.lock("a").acquire(blocking=False) is None
        assert hold.release()


def test_strict_recovery_keeps_leases_within_its_window(postgres_url: str, own_name: str) -> None:
    with (
        Client(f"{postgres_url}?recovery=strict&grace=3") as one,
        one.lock(own_name, ttl=60) as hold,
    ):
        assert hold.remaining() <= 3
    with pytest.raises(ConfigError, match="too short"):
        Client(f"{postgres_url}?recovery=strict&grace=1").lock("x").acquire()
