"""Rows of the tables were changed by another program: a clear error, or the store repairs them."""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Kind
from tests.stores.crowds import waiting
from tests.stores.mysql.conftest import Bench
from tests.stores.sql.damage import *  # noqa: F403
from tests.stores.sql.fixtures import MakeClient

#: Ways to damage the row of a line, so that it contradicts its claims.
DAMAGED = {
    "removed": "DELETE FROM {lines} WHERE name = %s",
    "no claims": "UPDATE {lines} SET claims = 0, waiters = 0 WHERE name = %s",
    "less than none": "UPDATE {lines} SET claims = -2 WHERE name = %s",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_several_names_are_not_granted_over_claims_of_a_damaged_line(
    bench: Bench, new_client: MakeClient, own_name: str, damage: str
) -> None:
    locks, other = new_client(), new_client()
    hold = locks.lock(own_name, ttl=60).acquire()
    with waiting(locks, own_name):
        # When the row of the line is damaged
        bench.ask(DAMAGED[damage], own_name)
        # Then no client gets the name together with another name while it is held
        assert other.all(f"{own_name}:a", own_name).acquire(blocking=False) is None
        hold.extend()
        hold.check()
        hold.release()
    # And after the release the names can be acquired
    with other.all(f"{own_name}:a", own_name, timeout=60):
        pass


def test_a_removed_claim_frees_its_name_at_once(
    bench: Bench, new_client: MakeClient, own_name: str
) -> None:
    locks, other = new_client(), new_client()
    locks.lock(own_name, ttl=60, auto_renew=False).acquire()
    with waiting(other, own_name) as served:
        bench.ask("DELETE FROM {claims} WHERE name = %s AND held", own_name)
        assert served.wait(20)


def test_a_removed_claim_refuses_no_other_claim(
    bench: Bench, new_client: MakeClient, own_name: str
) -> None:
    locks = new_client()
    wanted = locks.semaphore(own_name, 2, ttl=60, auto_renew=False)
    holds = [wanted.acquire() for _ in range(2)]
    assert wanted.acquire(blocking=False) is None
    bench.ask("DELETE FROM {claims} WHERE name = %s AND held LIMIT 1", own_name)
    assert wanted.acquire(blocking=False)
    assert len(holds) == 2


def test_a_line_with_an_unknown_kind_is_a_clear_error(
    bench: Bench, locks: Client, own_name: str
) -> None:
    hold = locks.lock(own_name, ttl=60).acquire()
    bench.ask("UPDATE {lines} SET kind = 99 WHERE name = %s", own_name)
    with pytest.raises(StoreUnavailable, match=r"unknown kind 99.*delete its row"):
        locks.inspect(own_name)
    # And the next attempt to acquire the lock repairs the row
    assert not locks.lock(own_name).acquire(blocking=False)
    assert locks.inspect(own_name)[0].kind is Kind.LOCK
    hold.release()
