"""Trouble between the verbs: late copies, breaks, roll-outs, adoptions, strange names."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from holdfast.core.model import (
    Claim,
    Gone,
    Held,
    Joined,
    Keep,
    Loss,
    Mismatch,
    Refused,
    Waiting,
)
from holdfast.core.policy import PATIENCE_S, TOMB_S
from holdfast.core.ports import NotYet
from holdfast.stores.redis import replies
from tests.servers.redis_server import RedisServer
from tests.stores.redis.test_keys import NAMES
from tests.stores.redis.verbs import LABEL, START, Verbs, claim, fence, permit, ticket

# -- late copies and repetitions ---------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("busy", [True, False])
def test_a_late_copy_of_a_join_finds_a_tombstone(there: bool, busy: bool, verbs: Verbs) -> None:
    # Given a join that was sent twice, with one copy still under way
    one, other = claim(), claim()
    if busy:
        verbs.join(other)
    if there:
        verbs.join(one)
    # When the claim leaves, and then the copy arrives
    assert verbs.gone(one, suspect=True, ttl=30.0) is there
    late = verbs.join(one)
    # Then it doesn't enter while a request can be under way, and it blocks no other claim
    assert late == Gone(Loss.RELEASED)
    if busy:
        assert verbs.gone(other)
    verbs.at(START + 30.0 + TOMB_S - 0.001)
    assert verbs.join(one) == Gone(Loss.RELEASED)
    assert verbs.gone(other) is False
    assert fence(verbs.join(other))
    assert verbs.gone(other)
    # And after that time the server has forgotten the tombstone
    verbs.at(START + 30.0 + TOMB_S + 0.001)
    assert fence(verbs.join(one))


def test_a_release_that_is_sure_of_its_join_leaves_nothing_behind(verbs: Verbs) -> None:
    one = claim()
    verbs.join(one)
    assert verbs.gone(one)
    assert verbs.client.exists(*verbs.keys()[1:]) == 0
    assert verbs.client.hlen(verbs.keys()[0]) == 1


def test_a_repeated_leave_finds_no_claim(verbs: Verbs) -> None:
    one = claim()
    verbs.join(one)
    assert verbs.gone(one)
    assert not verbs.gone(one)
    assert not verbs.gone(one, suspect=True)


def test_a_repeated_join_enters_once_and_returns_the_rest_of_the_lease(verbs: Verbs) -> None:
    # Given a holder and a waiter
    one, two = claim(ttl=10.0), claim()
    held, waits = verbs.join(one), verbs.join(two)
    # When each repeats its request some time later
    verbs.at(START + 2.0)
    again, still = verbs.join(one), verbs.join(two)
    # Then the holder gets the rest of its lease, and the waiter's lease is renewed
    assert again == Held(fence(held), 8.0)
    assert ticket(still) == ticket(waits)
    verbs.at(START + 2.0 + PATIENCE_S - 0.01)
    assert verbs.gone(one)
    assert fence(verbs.stand(Keep(two, 0, 10.0))) == ticket(waits)


def test_tombstones_are_cleared_away(verbs: Verbs) -> None:
    for number in range(50):
        verbs.at(START + number * 10)
        verbs.gone(claim(), suspect=True)
    assert verbs.client.zcard(verbs.keys()[2]) <= 7
    assert verbs.client.pttl(verbs.keys()[2]) <= (30 + TOMB_S) * 1000
    verbs.at(START + 1000)
    assert fence(verbs.join(claim()))


# -- breaks, min_hold, resize, adopt -----------------------------------------------------------


@pytest.mark.parametrize("behind", [0, 2])
def test_a_broken_claim_stays_out_and_the_next_is_served(behind: int, verbs: Verbs) -> None:
    one = claim()
    held = fence(verbs.join(one))
    others = [claim() for _ in range(behind)]
    for other in others:
        verbs.join(other)
    assert verbs.break_("refund", held)
    assert verbs.stand(Keep(one, held, 30.0)) == Gone(Loss.BROKEN)
    assert verbs.join(one) == Gone(Loss.BROKEN)
    assert not verbs.gone(one)
    assert not verbs.break_("refund", held)
    for other in others:
        assert fence(verbs.stand(Keep(other, 0, 30.0)))
        assert verbs.gone(other)
    assert fence(verbs.join(claim()))


def test_a_waiter_can_be_broken_too(verbs: Verbs) -> None:
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    middle = ticket(verbs.join(two))
    verbs.join(three)
    assert verbs.break_("refund", middle)
    assert verbs.stand(Keep(two, middle, 30.0)) == Gone(Loss.BROKEN)
    assert verbs.gone(one)
    assert fence(verbs.stand(Keep(three, 0, 30.0)))


def test_a_claim_that_stays_on_can_not_be_kept_and_ends_in_time(verbs: Verbs) -> None:
    one, two = claim(), claim()
    verbs.join(one)
    assert verbs.gone(one, after=5.0)
    assert verbs.keep([Keep(one, 0, 60.0)]) == [Gone(Loss.EXPIRED)]
    assert verbs.join(one) == Gone(Loss.EXPIRED)
    assert verbs.join(two, wait=False) == Refused(1.0, "somebody")
    verbs.at(START + 4.5)
    # A repetition doesn't extend the stay.
    assert verbs.gone(one, after=5.0)
    assert verbs.join(two, wait=False) == Refused(0.5, "somebody")
    verbs.at(START + 5.0)
    assert fence(verbs.join(two, wait=False))


def test_a_roll_out_of_more_permits_takes_both_numbers_in(verbs: Verbs) -> None:
    old, new = (lambda: permit(2)), (lambda: permit(4))
    holds = [old(), old()]
    for one in holds:
        fence(verbs.join(one))
    waits = old()
    verbs.join(waits)
    assert verbs.join(new()) == Mismatch("semaphore", 2)
    assert verbs.resize("gpu", 4) == 2
    assert fence(verbs.stand(Keep(waits, 0, 30.0)))
    assert fence(verbs.join(new()))
    assert isinstance(verbs.join(old()), Waiting)
    assert verbs.join(permit(3)) == Mismatch("semaphore", 4)
    # And back again: no holder loses its hold, and a waiter that is too heavy now is removed.
    heavy = permit(4, 3)
    verbs.join(heavy)
    assert verbs.resize("gpu", 2) == 4
    assert all(isinstance(one, Held) for one in verbs.keep([Keep(h, 0, 30.0) for h in holds]))
    for one in holds:
        verbs.gone(one)
    verbs.gone(waits)
    assert verbs.stand(Keep(heavy, 0, 30.0)) == Gone(Loss.EXPIRED)


def test_of_two_adoptions_of_one_claim_one_succeeds(verbs: Verbs) -> None:
    one = claim(meta="note", owner="first")
    held = fence(verbs.join(one))
    mine, theirs = secrets.token_hex(16), secrets.token_hex(16)
    spec = one.spec._replace(owner="adopter of it")
    adopt = Keep(Claim(one.id, spec), held, 30.0, new_id=mine)
    assert fence(verbs.stand(adopt)) == held
    # When the request is repeated because its reply was lost, its reply is the same.
    assert fence(verbs.stand(adopt)) == held
    assert verbs.stand(adopt._replace(new_id=theirs)) == Gone(Loss.EXPIRED)
    assert verbs.stand(Keep(one, held, 30.0)) == Gone(Loss.EXPIRED)
    assert not verbs.gone(one)
    (row,) = verbs.look().claims  # type: ignore[union-attr]
    assert (row.owner, row.meta, row.fence) == ("adopter of it", "note", held)
    assert verbs.gone(Claim(mine, spec))


# -- the record of recovery --------------------------------------------------------------------


def test_where_a_guard_is_asked_its_record_must_fit(verbs: Verbs) -> None:
    state, _, _, guard = verbs.keys()
    one = claim()

    def joined(run_id: bytes) -> Joined:
        verbs.run_id = run_id
        return replies.joined(verbs.ask(verbs.requests.join(one, True)), one, LABEL)

    for record in (None, b"other"):
        if record:
            verbs.client.set(guard, record)
        with pytest.raises(NotYet):
            joined(b"this")
        assert not verbs.client.exists(state)
    verbs.client.set(guard, b"this")
    held = fence(joined(b"this"))
    assert fence(joined(b"this")) == held


# -- limits of a batch and of a name -----------------------------------------------------------


def test_a_batch_of_a_hundred_with_a_broken_key_in_its_middle(verbs: Verbs) -> None:
    holds = [claim(f"n{number}") for number in range(100)]
    fences = [fence(verbs.join(one)) for one in holds]
    verbs.client.delete(verbs.keys("n50")[0])
    verbs.client.rpush(verbs.keys("n50")[0], "theirs")
    answers = verbs.keep([Keep(one, 0, 30.0) for one in holds])
    assert isinstance(answers[50], Exception)
    assert "n50 is a list" in str(answers[50])
    assert [fence(a) for a in answers[:50] + answers[51:]] == fences[:50] + fences[51:]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_owner_and_note_are_returned_unchanged(name: str, verbs: Verbs) -> None:
    strange = "new\nline\r\n nul\0 %s 日本 {1} 17 "
    one = permit(3, 2, name, owner=strange, meta=strange * 2)
    two = permit(3, 2, name, owner=name[:80], meta="")
    held, waits = fence(verbs.join(one, tag=b"7f")), ticket(verbs.join(two, tag=b"7f"))
    for _ in range(2):
        rows = [(c.owner, c.meta, c.fence, c.weight) for c in verbs.look(name).claims]  # type: ignore[union-attr]
        assert rows == [(strange, strange * 2, held, 2), (name[:80], "", waits, 2)]
        assert isinstance(verbs.join(permit(3, 1, name), wait=False), Refused)
        verbs.keep([Keep(one, held, 30.0), Keep(two, waits, 30.0)])
    assert verbs.gone(one)
    assert fence(verbs.stand(Keep(two, 0, 30.0))) == waits
    assert verbs.gone(two)


def test_ids_that_look_alike_are_not_mixed_up(shared_redis: RedisServer, own_name: str) -> None:
    with Verbs(shared_redis) as verbs:
        spec = claim(own_name).spec
        ids = ["0" * 32, "0" * 31 + "1", "1" + "0" * 31, "*" + "0" * 31]
        claims: list[Any] = [Claim(one, spec) for one in ids]
        fence(verbs.join(claims[0]))
        for other in claims[1:]:
            assert verbs.keep([Keep(other, 0, 30.0)]) == [Gone(Loss.EXPIRED)]
            assert not verbs.gone(other)
        assert verbs.gone(claims[0])
