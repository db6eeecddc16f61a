"""The scripts of the guard, at a time of the test's: who is let in, who is put back, and when."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import redis

from holdfast.core.model import (
    RWLOCK_CAPACITY,
    Claim,
    Gone,
    Held,
    Keep,
    Kind,
    Leave,
    Loss,
    Standing,
    Waiting,
)
from holdfast.core.ports import NotYet
from holdfast.stores.redis import replies
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.config import settings
from holdfast.stores.redis.guard import Guard, Verdict
from holdfast.stores.redis.keys import BUCKETS, guard_of
from holdfast.stores.redis.scripts import GUARD, load_command, script_of
from holdfast.url import find
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.verbs import CLOCK, LABEL, START, Verbs, claim, fence, permit, ticket

WINDOW_S = 5.0
UP = b"string.match(said, 'uptime_in_seconds:(%d+)')"


class Guarded(Verbs):
    """The scripts and the guard, on a server that is as old as the test says."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(server, clock=True)
        text = self._debug[GUARD.sha].text.replace(UP, b"call('HGET', '%b', 'up')" % CLOCK.encode())
        assert text != self._debug[GUARD.sha].text
        script = self._debug[GUARD.sha] = script_of("guard", text)
        self.raw(load_command(script))

    def up(self, seconds: float) -> None:
        """It was started so many seconds ago at least: what it says may be a second too much."""
        self.client.hset(CLOCK, "up", str(int(seconds) + 1))

    def at(self, now: float) -> None:
        """It is this time now."""
        super().at(now)
        self.client.hsetnx(CLOCK, "up", "1000")

    def know(self) -> bytes:
        """Learn which server this is, as a new connection does."""
        said = [
            self.client.execute_command("INFO", section) for section in ("server", "replication")
        ]
        lines = ["".join(f"{key}:{value}\r\n" for key, value in one.items()) for one in said]
        guard = Guard(settings(find("redis://here")[1]))
        self.run_id = guard.server([line.encode() for line in lines])
        return self.run_id

    def judged(self, window: float = WINDOW_S, strict: bool = False) -> Verdict:
        """What the guard says once it has looked at all records."""
        reply = self.ask(self.requests.guard(range(BUCKETS), window, strict))
        found = Guard(settings(find("redis://here")[1])).verdict(reply)
        assert isinstance(found, Verdict), found
        return found._replace(record=found.record or found.run_id)

    def remember(self, record: bytes) -> None:
        """This is in all records."""
        self.client.mset({guard_of("holdfast", bucket): record for bucket in range(BUCKETS)})

    def records(self) -> set[bytes | None]:
        """What is in them."""
        return set(self.client.mget([guard_of("holdfast", bucket) for bucket in range(BUCKETS)]))

    def reclaim(self, keep: Keep) -> Standing:
        """Put a forgotten claim back."""
        reply = self.ask(self.requests.reclaim(keep, WINDOW_S))
        if reply == [6]:
            raise NotYet("ask the guard", 0.0)
        return replies.stood(reply, keep, LABEL)


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[Guarded]:
    """The scripts on a server of their own."""
    with Guarded(new_redis(known=False)) as one:
        one.at(START)
        yield one


def barred(verbs: Verbs, one: Claim) -> None:
    """It may not be let in, be it in a hurry or not."""
    for wait in (True, False):
        with pytest.raises(NotYet):
            verbs.join(one, wait)


# -- the records -------------------------------------------------------------------------------


def test_a_server_that_is_up_for_long_is_taken_as_it_is(verbs: Guarded) -> None:
    verbs.up(WINDOW_S)
    run_id = verbs.know()
    assert verbs.judged() == (run_id, 0.0, b"", run_id)
    assert verbs.records() == {run_id}
    assert fence(verbs.join(claim()))


def test_a_young_server_lets_nobody_in_until_it_is_as_old_as_the_window(verbs: Guarded) -> None:
    verbs.up(2)
    run_id = verbs.know()
    barred(verbs, claim())
    found = verbs.judged()
    assert found[:3] == (run_id, 3.0, b"r")
    verbs.at(START + 2.999)
    barred(verbs, claim())
    assert verbs.judged().seconds == 0.001
    # When the time is over it needs no further question
    verbs.at(START + 3.001)
    one = claim()
    assert fence(verbs.join(one))
    assert verbs.client.get(verbs.keys()[3]) == run_id
    assert verbs.judged().seconds == 0
    assert verbs.records() == {run_id}


@pytest.mark.parametrize("up", [1.0, 1000.0])
def test_the_data_of_another_server_are_not_to_be_trusted(verbs: Guarded, up: float) -> None:
    # Given an old backup, or the copy that a replica had
    verbs.remember(b"0" * 40)
    verbs.up(up)
    verbs.know()
    barred(verbs, claim())
    found = verbs.judged()
    assert found[1:3] == ((4.0, b"r") if up < WINDOW_S else (5.0, b"p"))
    barred(verbs, claim())
    verbs.at(START + 5.001)
    assert fence(verbs.join(claim()))


def test_a_connection_that_takes_the_server_for_another_one_lets_nobody_in(
    verbs: Guarded,
) -> None:
    # Given a promotion that ended no connection: the server has the records of the new primary
    verbs.up(1000)
    verbs.remember(b"0" * 40)
    verbs.run_id = b"1" * 40
    barred(verbs, claim())
    # When the guard was asked, the connection is told which server it is
    assert verbs.judged().run_id == verbs.know()


def test_who_became_a_replica_and_then_a_primary_again_is_another_server(
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


def test_a_guard_that_is_not_to_be_asked_bars_nobody(verbs: Guarded) -> None:
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


def promoted(verbs: Guarded) -> None:
    """The server is the copy of another one, and lets nobody in for the window."""
    verbs.remember(b"0" * 40)
    verbs.up(1000)
    verbs.know()
    assert verbs.judged().seconds == WINDOW_S


@pytest.mark.parametrize("release", ["short", "long", "expiry"])
def test_who_waits_is_not_served_until_the_window_is_over(verbs: Guarded, release: str) -> None:
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
        assert verbs.keep([Keep(holds, 0, 30.0)]) == [Gone(Loss.EXPIRED)]
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


# -- who held is put back ----------------------------------------------------------------------


def test_a_holder_that_was_forgotten_is_put_back_with_its_ticket(verbs: Guarded) -> None:
    one, other = claim(ttl=20.0, meta="why"), claim()
    held = fence(verbs.join(one))
    verbs.client.flushall()
    verbs.at(START + 1)
    promoted(verbs)
    for _ in range(2):  # a repetition changes nothing
        assert verbs.reclaim(Keep(one, held, 20.0)) == Held(held, 20.0)
    (row,) = verbs.look().holders  # type: ignore[union-attr]
    assert (row.fence, row.meta, row.owner, row.expires_in) == (held, "why", "somebody", 20.0)
    # Then it holds as before, and whoever comes later has a later ticket
    verbs.at(START + 7)
    later = ticket(verbs.join(other))
    assert later > held
    assert verbs.gone(one)
    assert fence(verbs.stand(Keep(other, later, 30.0))) == later


def test_nobody_is_put_back_but_in_the_window(verbs: Guarded) -> None:
    one = claim()
    held = fence(verbs.join(one))
    verbs.gone(one)
    keep = Keep(one, held, 30.0)
    # Where there is no guard
    assert verbs.reclaim(keep) == Gone(Loss.EXPIRED)
    # Where the server is the one that it was
    verbs.up(1000)
    verbs.know()
    verbs.judged()
    assert verbs.reclaim(keep) == Gone(Loss.EXPIRED)
    # Before the guard was asked
    verbs.remember(b"0" * 40)
    with pytest.raises(NotYet):
        verbs.reclaim(keep)
    # And when the window is over
    verbs.judged()
    verbs.at(START + WINDOW_S)
    assert verbs.reclaim(keep) == Gone(Loss.EXPIRED)
    assert verbs.look() is None


def test_who_was_broken_is_not_put_back(verbs: Guarded) -> None:
    one = claim()
    held = fence(verbs.join(one))
    verbs.leave(Leave("refund", "", held))
    promoted(verbs)
    assert verbs.reclaim(Keep(one, held, 30.0)) == Gone(Loss.BROKEN)


def test_who_is_known_as_one_who_waits_is_put_back_as_a_holder(verbs: Guarded) -> None:
    # Given a replica that missed that the first one left and the second one was served
    first, second, third = claim(ttl=30.0), claim(), claim()
    fence(verbs.join(first))
    served = ticket(verbs.join(second))
    ticket(verbs.join(third))
    verbs.at(START + 1)
    promoted(verbs)
    keep = Keep(second, served, 30.0)
    assert verbs.reclaim(keep) == Held(served, 30.0)
    # Then the one who had left is not in its way, nor is it in the line twice
    line = verbs.look()
    assert [row.fence for row in line.holders] == [served]  # type: ignore[union-attr]
    assert len(line.waiters) == 1  # type: ignore[union-attr]
    assert verbs.reclaim(Keep(first, 1, 30.0)) == Gone(Loss.EXPIRED)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_who_say_that_they_hold_the_later_one_does(verbs: Guarded, first: int) -> None:
    # Given one who was broken, doesn't know it, and of whom the server has forgotten it
    broken, holds = claim(), claim()
    keeps = [Keep(broken, fence(verbs.join(broken)), 30.0)]
    verbs.leave(Leave("refund", "", keeps[0].ticket))
    keeps.append(Keep(holds, fence(verbs.join(holds)), 30.0))
    verbs.client.flushall()
    verbs.at(START + 1)
    promoted(verbs)
    # When both want to be put back, in either order, and again
    for number in (first, 1 - first, 0, 1):
        answer = verbs.reclaim(keeps[number])
    # Then the later one holds
    assert isinstance(answer, Held)
    assert [row.fence for row in verbs.look().holders] == [keeps[1].ticket]  # type: ignore[union-attr]


def test_those_who_live_are_not_displaced_by_who_is_only_remembered(verbs: Guarded) -> None:
    # Given three permits; a replica that knows three holders, two of whom have left since
    live, gone, left, late = (permit(3, ttl=30.0) for _ in range(4))
    keep = {one: Keep(one, fence(verbs.join(one)), 30.0) for one in (live, gone, left)}
    verbs.at(START + 1)
    later = [Keep(late, int((START + 1) * 1e6), 30.0)]
    later.append(later[0]._replace(claim=permit(3), ticket=later[0].ticket + 1))
    promoted(verbs)
    # When those who hold by now say so
    verbs.at(START + 2)
    assert verbs.keep([keep[live]]) == [Held(keep[live].ticket, 30.0)]
    for one in later:
        assert isinstance(verbs.reclaim(one), Held)
    # Then exactly they do
    found = [row.fence for row in verbs.look("gpu").holders]  # type: ignore[union-attr]
    assert found == sorted(one.ticket for one in (keep[live], *later))
    # And a fourth one has no place
    fourth = later[0]._replace(claim=permit(3), ticket=keep[live].ticket - 1)
    assert verbs.reclaim(fourth) == Gone(Loss.EXPIRED)


def test_many_who_share_are_all_put_back(verbs: Guarded) -> None:
    readers = [claim("book", kind=Kind.RWLOCK, capacity=RWLOCK_CAPACITY) for _ in range(40)]
    keeps = [Keep(one, fence(verbs.join(one)), 30.0) for one in readers]
    verbs.client.flushall()
    verbs.at(START)
    promoted(verbs)
    assert {type(verbs.reclaim(keep)) for keep in keeps} == {Held}
    assert len(verbs.look("book").holders) == 40  # type: ignore[union-attr]
    # And each may leave, and the line is empty then
    for one in readers:
        assert verbs.gone(one)
    assert verbs.look("book") is None
