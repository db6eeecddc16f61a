"""Rows of the tables were changed by another program: a clear error, or the store repairs them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Kind
from tests.servers.mariadb_server import MariadbServer
from tests.servers.process import until
from tests.stores.pauses import a_damaged_pause_ends_with_the_failure


def test_a_damaged_pause_after_a_failure_ends_with_the_failure(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    a_damaged_pause_ends_with_the_failure(
        locks,
        own_name,
        lambda: shared_mariadb.ask(
            "UPDATE holdfast.holdfast_refresh_duties SET pause = pause + 1000000000000"
            " WHERE guard = %s",
            own_name,
        ),
    )


#: Ways to damage the row of a line, so that it contradicts its claims.
DAMAGED = {
    "removed": "DELETE FROM holdfast.holdfast_lines WHERE name = %s",
    "no claims": "UPDATE holdfast.holdfast_lines SET claims = 0, waiters = 0 WHERE name = %s",
    "less than none": "UPDATE holdfast.holdfast_lines SET claims = -2 WHERE name = %s",
}


@contextlib.contextmanager
def contended(locks: Client, name: str) -> Iterator[threading.Event]:
    """Let a client wait for the name; yields an event that is set when it holds the name."""
    served = threading.Event()

    def wait() -> None:
        with locks.lock(name, timeout=60):
            served.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: locks.inspect(name, exact=True)[0].waiters, "somebody waits")
    yield served
    thread.join(60)


@pytest.mark.parametrize("damage", DAMAGED)
def test_several_names_are_not_granted_over_claims_of_a_damaged_line(
    shared_mariadb: MariadbServer, mariadb_url: str, own_name: str, damage: str
) -> None:
    with Client(mariadb_url) as locks, Client(mariadb_url) as other:
        hold = locks.lock(own_name, ttl=60).acquire()
        with contended(locks, own_name):
            # When the row of the line is damaged
            shared_mariadb.ask(DAMAGED[damage], own_name)
            # Then no client gets the name together with another name while it is held
            assert other.all(f"{own_name}:a", own_name).acquire(blocking=False) is None
            hold.extend()
            hold.check()
            hold.release()
        # And after the release the names can be acquired
        with other.all(f"{own_name}:a", own_name, timeout=60):
            pass


def test_a_removed_claim_frees_its_name_at_once(
    shared_mariadb: MariadbServer, mariadb_url: str, own_name: str
) -> None:
    with Client(mariadb_url) as locks, Client(mariadb_url) as other:
        locks.lock(own_name, ttl=60, auto_renew=False).acquire()
        with contended(other, own_name) as served:
            shared_mariadb.ask(
                "DELETE FROM holdfast.holdfast_claims WHERE name = %s AND held", own_name
            )
            assert served.wait(20)


def test_a_removed_claim_refuses_no_other_claim(
    shared_mariadb: MariadbServer, mariadb_url: str, own_name: str
) -> None:
    with Client(mariadb_url) as locks:
        wanted = locks.semaphore(own_name, 2, ttl=60, auto_renew=False)
        holds = [wanted.acquire() for _ in range(2)]
        assert wanted.acquire(blocking=False) is None
        shared_mariadb.ask(
            "DELETE FROM holdfast.holdfast_claims WHERE name = %s AND held LIMIT 1", own_name
        )
        assert wanted.acquire(blocking=False)
        assert len(holds) == 2


def test_a_line_with_an_unknown_kind_is_a_clear_error(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    hold = locks.lock(own_name, ttl=60).acquire()
    shared_mariadb.ask("UPDATE holdfast.holdfast_lines SET kind = 99 WHERE name = %s", own_name)
    with pytest.raises(StoreUnavailable, match=r"unknown kind 99.*delete its row"):
        locks.inspect(own_name)
    # And the next attempt to acquire the lock repairs the row
    assert not locks.lock(own_name).acquire(blocking=False)
    assert locks.inspect(own_name)[0].kind is Kind.LOCK
    hold.release()
