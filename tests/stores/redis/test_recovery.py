"""The records of recovery, and which claims it grants, on the test's clock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import redis

from holdfast.core.model import Claim, Gone, Held, Loss, Renewal, Waiting
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.keys import BUCKETS
from holdfast.testing.promise import promised
from tests.servers.fixtures import NewRedis
from tests.stores.redis.recovery import WINDOW_S, RecoveryVerbs, barred, promoted
from tests.stores.redis.verbs import START, claim, fence, ticket


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[RecoveryVerbs]:
    with RecoveryVerbs(new_redis(known=False)) as one:
        one.at(START)
        yield one


# -- the records -------------------------------------------------------------------------------


def test_a_long_running_server_has_no_grace_period(verbs: RecoveryVerbs) -> None:
    verbs.up(30.0)
    run_id = verbs.know()
    assert verbs.judged() == (run_id, 0.0, b"", run_id)
    assert verbs.records() == {run_id}
    assert fence(verbs.join(claim()))


@pytest.mark.parametrize("up", [2.0, 29.0])
def test_a_new_server_grants_nothing_until_its_grace_period_has_passed(
    verbs: RecoveryVerbs, up: float
) -> None:
    # Given a server that no client could reach until now, as behind a readiness delay
    verbs.up(up)
    run_id = verbs.know()
    barred(verbs, claim())
    found = verbs.judged()
    assert found[:3] == (run_id, 5.0, b"r")
    verbs.at(START + 4.999)
    barred(verbs, claim())
    assert verbs.judged().seconds == 0.001
    # When the grace period has passed, then no further question is needed
    verbs.at(START + 5.001)
    one = claim()
    assert fence(verbs.join(one))
    assert verbs.client.get(verbs.keys()[3]) == run_id
    assert verbs.judged().seconds == 0
    assert verbs.records() == {run_id}


@pytest.mark.parametrize("up, window", [(40.0, 60.0), (58.0, 60.0), (62.0, 0.0)])
def test_strict_recovery_with_a_longer_window_takes_a_server_of_that_age_for_young(
    verbs: RecoveryVerbs, up: float, window: float
) -> None:
    verbs.up(up)
    verbs.know()
    with promised("no grant while another client can hold"):
        assert verbs.judged(60.0, strict=True).seconds == window


@pytest.mark.parametrize("how", ["FLUSHALL", "FLUSHDB", "FLUSHDB of another", "SWAPDB 2 3"])
def test_no_flush_takes_the_window_away_from_a_young_server(verbs: RecoveryVerbs, how: str) -> None:
    """The server counts the commands of all its databases together."""
    if how.endswith("another"):
        with verbs.client.pipeline() as both:  # it leaves the connection where it was
            both.execute_command("SELECT", 5)
            both.flushdb()
            both.execute_command("SELECT", 0)
            both.execute()
    else:
        verbs.client.execute_command(*how.split())
    verbs.at(START)
    verbs.up(2)
    verbs.know()
    with promised("no grant while another client can hold"):
        assert verbs.judged()[1:3] == (WINDOW_S, b"r")
        barred(verbs, claim())


def test_a_caller_that_knew_another_server_opens_a_window_however_long_this_one_is_up(
    verbs: RecoveryVerbs,
) -> None:
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(known=1.0, former=True)[1:3] == (4.0, b"r")
    barred(verbs, claim())
    # And once the grace period has begun, it holds for callers that know nothing, too
    assert verbs.judged().seconds == 4.0
    # But a caller that has known the server for a whole grace period opens none
    verbs.client.flushall()
    verbs.at(START)
    verbs.up(1000)
    assert verbs.judged(known=WINDOW_S, former=True).seconds == 0
    assert fence(verbs.join(claim()))


def test_a_promoted_server_opens_a_window_for_a_bucket_that_was_never_used(
    verbs: RecoveryVerbs,
) -> None:
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    verbs.at(START)
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(known=1.0)[1:3] == (4.0, b"p")
    # But not for a caller that has known it as the primary for the whole grace period
    verbs.client.flushall()
    verbs.at(START)
    verbs.up(1000)
    assert verbs.judged(known=20.0).seconds == 0


def test_a_window_lasts_until_no_fence_can_fall(verbs: RecoveryVerbs) -> None:
    # Given a promoted replica whose clock is 20 s behind the clock of the lost primary
    latest = int((START + 20) * 1e6)
    verbs.copied()
    assert verbs.judged(latest=latest).seconds == 20.0
    verbs.at(START + 20.001)
    assert fence(verbs.join(claim())) > latest


@pytest.mark.parametrize("cause", ["promoted", "restarted"])
def test_a_client_with_a_later_fence_extends_the_grace_period(
    verbs: RecoveryVerbs, cause: str
) -> None:
    # Given a server whose clock is 20 s behind, and a fresh client that asks first
    latest = int((START + 20) * 1e6)
    if cause == "promoted":
        verbs.remember(b"0" * 40)
    verbs.up(1000 if cause == "promoted" else 2)
    verbs.know()
    assert verbs.judged().seconds == WINDOW_S
    # When a client that knows the fence asks in the last moment of the grace period
    verbs.at(START + WINDOW_S - 0.001)
    assert verbs.judged(latest=latest).seconds == 15.001
    # Then nothing is granted until no fence can fall, and callers that know less shorten nothing
    for second in (WINDOW_S, 19.999):
        verbs.at(START + second)
        with promised("fences rise"):
            barred(verbs, claim())
            assert verbs.judged().seconds > 0
    verbs.at(START + 20.001)
    with promised("fences rise"):
        assert fence(verbs.join(claim())) > latest


def test_an_ended_grace_period_is_not_reopened_by_a_later_fence(verbs: RecoveryVerbs) -> None:
    # Otherwise each client with a fence from elsewhere would block all the others
    promoted(verbs)
    verbs.at(START + WINDOW_S)
    assert verbs.judged(latest=int((START + 20) * 1e6)).seconds == 0
    # And a fence that is an hour ahead extends no grace period
    verbs.remember(b"0" * 40)
    assert verbs.judged().seconds == WINDOW_S
    assert verbs.judged(latest=int((START + 3600) * 1e6)).seconds == WINDOW_S


def test_a_grace_period_ends_in_time_although_the_clock_was_set_back(verbs: RecoveryVerbs) -> None:
    promoted(verbs)
    verbs.at(START - 10 * 365 * 86400)
    barred(verbs, claim())
    assert verbs.judged().seconds == WINDOW_S
    verbs.at(START - 10 * 365 * 86400 + WINDOW_S + 0.001)
    assert fence(verbs.join(claim()))


@pytest.mark.parametrize("up", [1.0, 1000.0])
def test_the_data_of_another_server_are_not_to_be_trusted(verbs: RecoveryVerbs, up: float) -> None:
    # Given an old backup, or the copy of a replica
    verbs.copied(up)
    barred(verbs, claim())
    found = verbs.judged()
    assert found[1:3] == (5.0, b"r" if up < WINDOW_S else b"p")
    barred(verbs, claim())
    verbs.at(START + 5.001)
    assert fence(verbs.join(claim()))


def test_a_connection_that_knows_another_server_grants_nothing(verbs: RecoveryVerbs) -> None:
    # Given a promotion that ended no connection: the server has the records of the new primary
    verbs.up(1000)
    verbs.remember(b"0" * 40)
    verbs.run_id = b"1" * 40
    barred(verbs, claim())
    # When recovery has been asked, its reply names the server
    assert verbs.judged().run_id == verbs.know()


def test_a_primary_that_was_a_replica_meanwhile_is_another_server(verbs: RecoveryVerbs) -> None:
    # Given a primary that was a replica for a while
    verbs.up(1000)
    before = verbs.know()
    assert verbs.judged().seconds == 0
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    # Then it can have missed writes of the other primary, though it has its own records
    after = verbs.know()
    assert after.partition(b".")[0] == before
    assert after != before
    barred(verbs, claim())
    assert verbs.judged()[:3] == (after, 5.0, b"p")


def test_a_young_server_that_was_promoted_or_emptied_has_the_whole_window_before_it(
    verbs: RecoveryVerbs,
) -> None:
    verbs.client.flushdb()
    verbs.at(START)
    verbs.up(29)
    verbs.know()
    assert verbs.judged(30.0, strict=True)[1:3] == (30.0, b"l")
    # Given a replica that was started recently, and is promoted now
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    verbs.up(WINDOW_S - 1)
    for record in (b"0" * 40, b""):
        verbs.remember(record) if record else verbs.client.flushall()
        verbs.at(START)
        verbs.up(WINDOW_S - 1)
        verbs.know()
        assert verbs.judged()[1:3] == (WINDOW_S, b"p")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("how", ["FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "evicted"])
def test_strict_recovery_sees_that_data_were_thrown_away(
    verbs: RecoveryVerbs, strict: bool, how: str
) -> None:
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(30.0, strict).seconds == 0
    if how == "evicted":
        evict_all(verbs.client)
    else:
        verbs.client.execute_command(*how.split())
    verbs.at(START)
    verbs.up(1000)
    found = verbs.judged(30.0, strict)
    # Then strict recovery waits, and the usual recovery assumes a first use
    assert (found.seconds, found.cause) == ((30.0, b"l") if strict else (0.0, b""))


def evict_all(client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-random")
    client.config_set("maxmemory", "1")
    while client.dbsize():
        with contextlib.suppress(redis.ResponseError):
            client.set("more", "x")
    client.config_set("maxmemory", "0")


def test_a_foreign_key_in_the_place_of_a_record_is_named(verbs: RecoveryVerbs) -> None:
    key = verbs.keys()[3]
    verbs.client.lpush(key, "theirs")
    verbs.know()
    for call in (
        verbs.requests.join(claim(), True),
        verbs.requests.recovery(range(BUCKETS), 5, False),
    ):
        reply = verbs.ask(call)
        assert isinstance(reply, ServerSaid)
        assert f"{key.decode()} is a list, not a string" in str(reply)


# -- nothing is granted ------------------------------------------------------------------------


def stale_line(verbs: RecoveryVerbs) -> tuple[Claim, Claim]:
    """Return a holder and a waiter of a line on a lagging replica, which is then promoted."""
    holds, waits = claim(ttl=2.0), claim()
    fence(verbs.join(holds))
    ticket(verbs.join(waits, address=b"there"))
    promoted(verbs)
    return holds, waits


@pytest.mark.parametrize("release", ["short", "long", "expiry"])
def test_a_waiter_is_not_granted_until_the_grace_period_has_passed(
    verbs: RecoveryVerbs, release: str
) -> None:
    holds, waits = stale_line(verbs)
    with verbs.client.pubsub() as ear:
        ear.subscribe("there")
        ear.get_message(timeout=9)
        # When the holder releases or dies
        if release == "expiry":
            verbs.at(START + 2.5)
        else:
            assert verbs.gone(holds, suspect=release == "long")
        # Then the waiter continues to wait, whatever other verbs come
        assert isinstance(verbs.turn(waits), Waiting)
        verbs.resize("refund", 1)
        assert isinstance(verbs.turn(waits), Waiting)
        why = Loss.RELEASED if release == "long" else Loss.EXPIRED
        assert verbs.renew([Renewal(holds, 0, 30.0)]) == [Gone(why)]
        assert ear.get_message(timeout=0.05) is None
    # And when the grace period has passed, it is granted
    for second in (2.5, 4.9):
        verbs.at(START + second)
        assert isinstance(verbs.turn(waits), Waiting)
    verbs.at(START + 5.001)
    assert isinstance(verbs.turn(waits), Held)


def test_a_waiter_on_another_server_makes_its_client_ask_recovery(verbs: RecoveryVerbs) -> None:
    holds, waits = claim(), claim()
    fence(verbs.join(holds))
    place = ticket(verbs.join(waits))
    verbs.copied()
    verbs.gone(holds)
    assert verbs.ask(verbs.requests.turn(waits))[:2] == [6, place]
