"""The records of the guard, and who is let in, at a time of the test's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import redis

from holdfast.core.model import (
    Claim,
    Gone,
    Held,
    Keep,
    Loss,
    Waiting,
)
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.keys import BUCKETS
from holdfast.testing.promise import promised
from tests.servers.fixtures import NewRedis
from tests.stores.redis.guarded import WINDOW_S, Guarded, barred, promoted
from tests.stores.redis.verbs import START, claim, fence, ticket


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[Guarded]:
    """The scripts on a server of their own."""
    with Guarded(new_redis(known=False)) as one:
        one.at(START)
        yield one


# -- the records -------------------------------------------------------------------------------


def test_a_long_running_server_has_no_grace_period(verbs: Guarded) -> None:
    verbs.up(30.0)
    run_id = verbs.know()
    assert verbs.judged() == (run_id, 0.0, b"", run_id)
    assert verbs.records() == {run_id}
    assert fence(verbs.join(claim()))


@pytest.mark.parametrize("up", [2.0, 29.0])
def test_a_new_server_grants_nothing_until_its_grace_period_has_passed(
    verbs: Guarded, up: float
) -> None:
    # Given a server that nobody could reach until now, as behind a readiness delay
    verbs.up(up)
    run_id = verbs.know()
    barred(verbs, claim())
    found = verbs.judged()
    assert found[:3] == (run_id, 5.0, b"r")
    verbs.at(START + 4.999)
    barred(verbs, claim())
    assert verbs.judged().seconds == 0.001
    # When the time is over it needs no further question
    verbs.at(START + 5.001)
    one = claim()
    assert fence(verbs.join(one))
    assert verbs.client.get(verbs.keys()[3]) == run_id
    assert verbs.judged().seconds == 0
    assert verbs.records() == {run_id}


@pytest.mark.parametrize("up, window", [(40.0, 60.0), (58.0, 60.0), (62.0, 0.0)])
def test_a_strict_guard_with_a_longer_window_takes_a_server_of_that_age_for_young(
    verbs: Guarded, up: float, window: float
) -> None:
    verbs.up(up)
    verbs.know()
    with promised("nobody is let in beside who may hold"):
        assert verbs.judged(60.0, strict=True).seconds == window


@pytest.mark.parametrize("how", ["FLUSHALL", "FLUSHDB", "FLUSHDB of another", "SWAPDB 2 3"])
def test_no_flush_takes_the_window_away_from_a_young_server(verbs: Guarded, how: str) -> None:
    """The server counts its commands for all of its databases together."""
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
    with promised("nobody is let in beside who may hold"):
        assert verbs.judged()[1:3] == (WINDOW_S, b"r")
        barred(verbs, claim())


def test_a_caller_that_knew_another_server_opens_a_window_however_long_this_one_is_up(
    verbs: Guarded,
) -> None:
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(known=1.0, former=True)[1:3] == (4.0, b"r")
    barred(verbs, claim())
    # And once it is open it stays so for callers that know nothing
    assert verbs.judged().seconds == 4.0


def test_a_caller_that_has_known_the_server_for_a_window_opens_none(verbs: Guarded) -> None:
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(known=WINDOW_S, former=True).seconds == 0
    assert fence(verbs.join(claim()))


def test_a_promoted_server_opens_a_window_for_a_bucket_that_was_never_used(
    verbs: Guarded,
) -> None:
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    verbs.at(START)
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(known=1.0)[1:3] == (4.0, b"p")
    # But not for a caller that has seen it as the primary for as long
    verbs.client.flushall()
    verbs.at(START)
    verbs.up(1000)
    assert verbs.judged(known=20.0).seconds == 0


def test_a_window_lasts_until_no_fence_can_fall(verbs: Guarded) -> None:
    # Given a promoted replica whose clock is 20 s behind that of the primary that is lost
    latest = int((START + 20) * 1e6)
    verbs.remember(b"0" * 40)
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(latest=latest).seconds == 20.0
    verbs.at(START + 20.001)
    assert fence(verbs.join(claim())) > latest


@pytest.mark.parametrize("cause", ["promoted", "restarted"])
def test_a_client_with_a_later_fence_extends_the_grace_period(verbs: Guarded, cause: str) -> None:
    # Given a server whose clock is 20 s behind, and a fresh client that asks first
    latest = int((START + 20) * 1e6)
    if cause == "promoted":
        verbs.remember(b"0" * 40)
    verbs.up(1000 if cause == "promoted" else 2)
    verbs.know()
    assert verbs.judged().seconds == WINDOW_S
    # When one asks that knows the fence, in the last moment of that window
    verbs.at(START + WINDOW_S - 0.001)
    assert verbs.judged(latest=latest).seconds == 15.001
    # Then nobody is let in until no fence can fall, and whoever knows less shortens nothing
    for second in (WINDOW_S, 19.999):
        verbs.at(START + second)
        with promised("fences rise"):
            barred(verbs, claim())
            assert verbs.judged().seconds > 0
    verbs.at(START + 20.001)
    with promised("fences rise"):
        assert fence(verbs.join(claim())) > latest


def test_an_ended_grace_period_is_not_reopened_by_a_later_fence(verbs: Guarded) -> None:
    # Or each client that was given a fence elsewhere would bar all the others
    promoted(verbs)
    verbs.at(START + WINDOW_S)
    assert verbs.judged(latest=int((START + 20) * 1e6)).seconds == 0
    # And one that is an hour ahead is waited for in no window
    verbs.remember(b"0" * 40)
    assert verbs.judged().seconds == WINDOW_S
    assert verbs.judged(latest=int((START + 3600) * 1e6)).seconds == WINDOW_S


def test_a_fence_that_is_an_hour_ahead_is_not_waited_for(verbs: Guarded) -> None:
    verbs.remember(b"0" * 40)
    verbs.up(1000)
    verbs.know()
    assert verbs.judged(latest=int((START + 3600) * 1e6)).seconds == WINDOW_S


def test_a_grace_period_ends_in_time_although_the_clock_was_set_back(verbs: Guarded) -> None:
    promoted(verbs)
    verbs.at(START - 10 * 365 * 86400)
    barred(verbs, claim())
    assert verbs.judged().seconds == WINDOW_S
    verbs.at(START - 10 * 365 * 86400 + WINDOW_S + 0.001)
    assert fence(verbs.join(claim()))


@pytest.mark.parametrize("up", [1.0, 1000.0])
def test_the_data_of_another_server_are_not_to_be_trusted(verbs: Guarded, up: float) -> None:
    # Given an old backup, or the copy that a replica had
    verbs.remember(b"0" * 40)
    verbs.up(up)
    verbs.know()
    barred(verbs, claim())
    found = verbs.judged()
    assert found[1:3] == (5.0, b"r" if up < WINDOW_S else b"p")
    barred(verbs, claim())
    verbs.at(START + 5.001)
    assert fence(verbs.join(claim()))


def test_a_connection_that_knows_another_server_grants_nothing(
    verbs: Guarded,
) -> None:
    # Given a promotion that ended no connection: the server has the records of the new primary
    verbs.up(1000)
    verbs.remember(b"0" * 40)
    verbs.run_id = b"1" * 40
    barred(verbs, claim())
    # When the guard was asked, the connection is told which server it is
    assert verbs.judged().run_id == verbs.know()


def test_a_primary_that_was_a_replica_meanwhile_is_another_server(
    verbs: Guarded,
) -> None:
    # Given a primary, and a time in which it wasn't one
    verbs.up(1000)
    before = verbs.know()
    assert verbs.judged().seconds == 0
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    # Then it may have missed what the other one did, though it has its own records
    after = verbs.know()
    assert after.partition(b".")[0] == before
    assert after != before
    barred(verbs, claim())
    assert verbs.judged()[:3] == (after, 5.0, b"p")


def test_a_young_server_that_was_promoted_has_the_whole_window_before_it(verbs: Guarded) -> None:
    # Given a replica that was started lately, and takes over just now
    verbs.client.replicaof("127.0.0.1", "1")
    verbs.client.replicaof("NO", "ONE")
    verbs.up(WINDOW_S - 1)
    for record in (b"0" * 40, b""):
        verbs.remember(record) if record else verbs.client.flushall()
        verbs.at(START)
        verbs.up(WINDOW_S - 1)
        verbs.know()
        assert verbs.judged()[1:3] == (WINDOW_S, b"p")


def test_a_young_server_whose_data_were_thrown_away_has_the_whole_window_before_it(
    verbs: Guarded,
) -> None:
    verbs.client.flushdb()
    verbs.at(START)
    verbs.up(29)
    verbs.know()
    assert verbs.judged(30.0, strict=True)[1:3] == (30.0, b"l")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("how", ["FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "evicted"])
def test_a_strict_guard_sees_that_data_were_thrown_away(
    verbs: Guarded, strict: bool, how: str
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
    # Then the strict one waits, and the usual one takes it for a first use
    assert (found.seconds, found.cause) == ((30.0, b"l") if strict else (0.0, b""))


def evict_all(client: redis.Redis) -> None:
    """Have the server evict what it has."""
    client.config_set("maxmemory-policy", "allkeys-random")
    client.config_set("maxmemory", "1")
    while client.dbsize():
        with contextlib.suppress(redis.ResponseError):
            client.set("more", "x")
    client.config_set("maxmemory", "0")


def test_recovery_that_is_switched_off_bars_no_claim(verbs: Guarded) -> None:
    verbs.remember(b"0" * 40)
    assert fence(verbs.join(claim()))


def test_a_foreign_key_in_the_place_of_a_record_is_named(verbs: Guarded) -> None:
    key = verbs.keys()[3]
    verbs.client.lpush(key, "theirs")
    verbs.know()
    for call in (
        verbs.requests.join(claim(), True),
        verbs.requests.guard(range(BUCKETS), 5, False),
    ):
        reply = verbs.ask(call)
        assert isinstance(reply, ServerSaid)
        assert f"{key.decode()} is a list, not a string" in str(reply)


# -- nobody is let in --------------------------------------------------------------------------


def stale_line(verbs: Guarded) -> tuple[Claim, Claim]:
    """A line that a lagging replica has: one holds, one waits; and then it is promoted."""
    holds, waits = claim(ttl=2.0), claim()
    fence(verbs.join(holds))
    ticket(verbs.join(waits, address=b"there"))
    promoted(verbs)
    return holds, waits


@pytest.mark.parametrize("release", ["short", "long", "expiry"])
def test_a_waiter_is_not_granted_until_the_grace_period_has_passed(
    verbs: Guarded, release: str
) -> None:
    holds, waits = stale_line(verbs)
    with verbs.client.pubsub() as ear:
        ear.subscribe("there")
        ear.get_message(timeout=9)
        # When the holder leaves, or dies
        if release == "expiry":
            verbs.at(START + 2.5)
        else:
            assert verbs.gone(holds, suspect=release == "long")
        # Then the one who waits goes on to wait, whoever comes by
        assert isinstance(verbs.stand(Keep(waits, 0, 30.0)), Waiting)
        verbs.resize("refund", 1)
        assert isinstance(verbs.stand(Keep(waits, 0, 30.0)), Waiting)
        why = Loss.RELEASED if release == "long" else Loss.EXPIRED
        assert verbs.keep([Keep(holds, 0, 30.0)]) == [Gone(why)]
        assert ear.get_message(timeout=0.05) is None
    # And when the window is over it is served
    for second in (2.5, 4.9):
        verbs.at(START + second)
        assert isinstance(verbs.stand(Keep(waits, 0, 30.0)), Waiting)
    verbs.at(START + 5.001)
    assert isinstance(verbs.stand(Keep(waits, 0, 30.0)), Held)


def test_a_waiter_on_a_server_that_is_another_one_makes_the_guard_be_asked(
    verbs: Guarded,
) -> None:
    holds, waits = claim(), claim()
    fence(verbs.join(holds))
    place = ticket(verbs.join(waits))
    verbs.remember(b"0" * 40)
    verbs.up(1000)
    verbs.know()
    verbs.gone(holds)
    assert verbs.ask(verbs.requests.stand(Keep(waits, 0, 30.0)))[:2] == [6, place]
