"""Holders are restored on a server that has forgotten them, each in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.model import RWLOCK_CAPACITY, Gone, Held, Kind, Loss, Renewal
from holdfast.core.ports import NotYet
from tests.servers.fixtures import NewRedis
from tests.stores.redis.recovery import WINDOW_S, RecoveryVerbs, promoted
from tests.stores.redis.verbs import START, claim, fence, permit, ticket


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[RecoveryVerbs]:
    with RecoveryVerbs(new_redis(known=False)) as one:
        one.at(START)
        yield one


def test_a_holder_that_was_forgotten_is_put_back_with_its_ticket(verbs: RecoveryVerbs) -> None:
    one, other = claim(ttl=20.0, meta="why"), claim()
    held = fence(verbs.join(one))
    verbs.client.flushall()
    verbs.at(START + 1)
    promoted(verbs)
    for _ in range(2):  # a repetition changes nothing
        assert verbs.reclaim(Renewal(one, held, 20.0)) == Held(held, 20.0)
    (row,) = verbs.look().holders  # type: ignore[union-attr]
    assert (row.fence, row.meta, row.owner, row.expires_in) == (held, "why", "somebody", 20.0)
    # Then it holds as before, and later claims have later tickets
    verbs.at(START + 7)
    later = ticket(verbs.join(other))
    assert later > held
    assert verbs.gone(one)
    assert fence(verbs.turn(other)) == later


def test_tickets_continue_after_a_restored_holder_despite_the_clock(verbs: RecoveryVerbs) -> None:
    one, other = claim(), claim()
    held = fence(verbs.join(one))
    verbs.client.flushall()
    verbs.at(START - 100)
    promoted(verbs)
    assert verbs.reclaim(Renewal(one, held, 30.0)) == Held(held, 30.0)
    verbs.at(START - 90)
    assert ticket(verbs.join(other)) == held + 1


def test_a_holder_is_restored_only_in_the_grace_period(verbs: RecoveryVerbs) -> None:
    one = claim()
    held = fence(verbs.join(one))
    verbs.gone(one)
    renewal = Renewal(one, held, 30.0)
    # When recovery is off
    assert verbs.reclaim(renewal) == Gone(Loss.EXPIRED)
    # When the server is still the same one
    verbs.up(1000)
    verbs.know()
    verbs.judged()
    assert verbs.reclaim(renewal) == Gone(Loss.EXPIRED)
    # When recovery has not judged the record of another server yet
    verbs.remember(b"0" * 40)
    with pytest.raises(NotYet):
        verbs.reclaim(renewal)
    # And when the grace period has passed
    verbs.judged()
    verbs.at(START + WINDOW_S)
    assert verbs.reclaim(renewal) == Gone(Loss.EXPIRED)
    assert verbs.look() is None


@pytest.mark.parametrize("used", [False, True])
def test_a_holder_is_restored_to_an_unused_line_without_a_grace_period(
    verbs: RecoveryVerbs, used: bool
) -> None:
    # Given a holder, and an empty server that another client accepted without a grace period
    one, other = claim(), claim()
    held = fence(verbs.join(one))
    verbs.client.flushall()
    verbs.at(START + 100)
    verbs.up(50)
    verbs.know()
    verbs.judged()
    if used:
        fence(verbs.join(other))
        verbs.gone(other)
    answer = verbs.reclaim(Renewal(one, held, 60.0))
    # Then it is restored, unless another claim has held the name since
    assert answer == (Gone(Loss.EXPIRED) if used else Held(held, 60.0))


def test_a_holder_does_not_come_back_if_its_keys_were_deleted(verbs: RecoveryVerbs) -> None:
    verbs.up(1000)
    verbs.know()
    verbs.judged()
    one = claim()
    held = fence(verbs.join(one))
    verbs.client.delete(verbs.keys()[0])
    assert verbs.reclaim(Renewal(one, held, 30.0)) == Gone(Loss.EXPIRED)


def test_a_broken_hold_is_not_restored(verbs: RecoveryVerbs) -> None:
    one = claim()
    held = fence(verbs.join(one))
    verbs.break_("refund", held)
    promoted(verbs)
    assert verbs.reclaim(Renewal(one, held, 30.0)) == Gone(Loss.BROKEN)


def test_a_claim_recorded_as_a_waiter_is_restored_as_a_holder(verbs: RecoveryVerbs) -> None:
    # Given a replica that missed the release of the first claim and the grant of the second
    first, second, third = claim(ttl=30.0), claim(), claim()
    fence(verbs.join(first))
    served = ticket(verbs.join(second))
    ticket(verbs.join(third))
    verbs.at(START + 1)
    promoted(verbs)
    renewal = Renewal(second, served, 30.0)
    assert verbs.reclaim(renewal) == Held(served, 30.0)
    # Then the first claim is not in its way, and the second is in the line only once
    line = verbs.look()
    assert [row.fence for row in line.holders] == [served]  # type: ignore[union-attr]
    assert len(line.waiters) == 1  # type: ignore[union-attr]
    assert verbs.reclaim(Renewal(first, 1, 30.0)) == Gone(Loss.EXPIRED)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_claimed_holds_the_later_one_is_restored(verbs: RecoveryVerbs, first: int) -> None:
    # Given a broken claim whose client doesn't know it, a later holder, and a server without both
    broken, holds = claim(), claim()
    renewals = [Renewal(broken, fence(verbs.join(broken)), 30.0)]
    verbs.break_("refund", renewals[0].ticket)
    renewals.append(Renewal(holds, fence(verbs.join(holds)), 30.0))
    verbs.client.flushall()
    verbs.at(START + 1)
    promoted(verbs)
    for number in (first, 1 - first, 0, 1):
        answer = verbs.reclaim(renewals[number])
    assert isinstance(answer, Held)
    assert [row.fence for row in verbs.look().holders] == [renewals[1].ticket]  # type: ignore[union-attr]


def test_live_claims_are_not_displaced_by_remembered_ones(verbs: RecoveryVerbs) -> None:
    # Given three permits, and a replica with three holders, two of which were released since
    live, gone, left, late = (permit(3, ttl=30.0) for _ in range(4))
    held = {one: Renewal(one, fence(verbs.join(one)), 30.0) for one in (live, gone, left)}
    verbs.at(START + 1)
    later = [Renewal(late, int((START + 1) * 1e6), 30.0)]
    later.append(later[0]._replace(claim=permit(3), ticket=later[0].ticket + 1))
    promoted(verbs)
    # When the present holders renew or ask to be restored
    verbs.at(START + 2)
    assert verbs.renew([held[live]]) == [Held(held[live].ticket, 30.0)]
    for one in later:
        assert isinstance(verbs.reclaim(one), Held)
    found = [row.fence for row in verbs.look("gpu").holders]  # type: ignore[union-attr]
    assert found == sorted(one.ticket for one in (held[live], *later))
    # And there is no permit for a fourth claim
    fourth = later[0]._replace(claim=permit(3), ticket=held[live].ticket - 1)
    assert verbs.reclaim(fourth) == Gone(Loss.EXPIRED)


def test_many_readers_are_all_restored(verbs: RecoveryVerbs) -> None:
    readers = [claim("book", kind=Kind.RWLOCK, capacity=RWLOCK_CAPACITY) for _ in range(40)]
    renewals = [Renewal(one, fence(verbs.join(one)), 30.0) for one in readers]
    verbs.client.flushall()
    verbs.at(START)
    promoted(verbs)
    assert {type(verbs.reclaim(one)) for one in renewals} == {Held}
    assert len(verbs.look("book").holders) == 40  # type: ignore[union-attr]
    # And each can release, and then the line is empty
    for one in readers:
        assert verbs.gone(one)
    assert verbs.look("book") is None
