"""What can go wrong between the verbs on a server: late copies, pokes that nobody hears, clocks
that step, keys that end. Each pitfall that was found once is a test here."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.model import (
    Claim,
    Gone,
    Held,
    Joined,
    Keep,
    Leave,
    Loss,
    Mismatch,
    Refused,
    Standing,
    Waiting,
)
from holdfast.core.policy import PATIENCE_S, TOMB_S
from holdfast.stores.redis import replies
from holdfast.stores.redis.replies import Barred
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.test_keys import NAMES
from tests.stores.redis.verbs import LABEL, Verbs, claim, permit

START = 1_700_000_000.0
HOUR_MS = 3_600_000


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[Verbs]:
    """The scripts on a server of their own, at a time of the test's."""
    with Verbs(new_redis(), clock=True) as verbs:
        verbs.at(START)
        yield verbs


def fence(standing: Joined | Standing | Exception) -> int:
    """The ticket of what must be held."""
    assert isinstance(standing, Held), standing
    return standing.fence


def ticket(standing: Joined | Standing | Exception) -> int:
    """The ticket of what must wait."""
    assert isinstance(standing, Waiting), standing
    return standing.ticket


class Ear:
    """Listens on an address."""

    def __init__(self, verbs: Verbs, address: bytes = b"ear") -> None:
        self.address = address
        self._pushes = verbs.client.pubsub()
        self._pushes.subscribe(address)
        self._pushes.get_message(timeout=9)

    def heard(self) -> list[tuple[str, int] | None]:
        """The pokes that have come since the last time."""
        seen = []
        self._pushes.ping()
        while (message := self._pushes.get_message(timeout=9))["type"] != "pong":
            seen.append(replies.poked(message["data"]))
        return seen

    def close(self) -> None:
        """Listen no more."""
        self._pushes.close()


# -- late copies and repetitions --------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("busy", [True, False])
def test_a_late_copy_of_a_join_finds_a_tombstone(there: bool, busy: bool, verbs: Verbs) -> None:
    # Given a join that was sent twice, of which one copy is still under way
    one, other = claim(), claim()
    if busy:
        verbs.join(other)
    if there:
        verbs.join(one)
    # When the claim leaves, and then the copy arrives
    assert verbs.gone(one, suspect=True, ttl=30.0) is there
    late = verbs.join(one)
    # Then it doesn't enter, as long as a request may be under way, and nobody is in its way
    assert late == Gone(Loss.EXPIRED)
    if busy:
        assert verbs.gone(other)
    verbs.at(START + 30.0 + TOMB_S - 0.001)
    assert verbs.join(one) == Gone(Loss.EXPIRED)
    assert verbs.gone(other) is False
    assert fence(verbs.join(other))
    assert verbs.gone(other)
    # And after that the server has forgotten it
    verbs.at(START + 30.0 + TOMB_S + 0.001)
    assert fence(verbs.join(one))


def test_a_release_that_is_sure_of_its_join_leaves_nothing_behind(verbs: Verbs) -> None:
    one = claim()
    verbs.join(one)
    assert verbs.gone(one)
    assert verbs.client.exists(*verbs.keys()[1:]) == 0
    assert verbs.client.hlen(verbs.keys()[0]) == 1


def test_a_leave_that_is_repeated_says_that_it_was_not_there(verbs: Verbs) -> None:
    one = claim()
    verbs.join(one)
    assert verbs.gone(one)
    assert not verbs.gone(one)
    assert not verbs.gone(one, suspect=True)


def test_a_join_that_is_repeated_enters_once_and_says_what_is_left(verbs: Verbs) -> None:
    # Given one who holds and one who waits
    one, two = claim(ttl=10.0), claim()
    held, waits = verbs.join(one), verbs.join(two)
    # When each sends the same again, some time later
    verbs.at(START + 2.0)
    again, still = verbs.join(one), verbs.join(two)
    # Then the holder learns what is left, and who waits lives for another while
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


# -- pokes --------------------------------------------------------------------------------------


def test_a_grant_is_poked_once_whoever_joins_meanwhile(verbs: Verbs) -> None:
    # Given two who wait where somebody listens
    ear = Ear(verbs)
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    second = ticket(verbs.join(two, address=ear.address))
    third = ticket(verbs.join(three, address=ear.address))
    # When the holder leaves, and others come before the poked one has said anything
    assert verbs.gone(one)
    for _ in range(5):
        assert isinstance(verbs.join(claim()), Waiting)
    # Then it was poked once, with its ticket in full, and nobody else was
    assert ear.heard() == [(two.id, second)]
    assert second > 10**15
    assert verbs.gone(two)
    assert ear.heard() == [(three.id, third)]
    ear.close()


def test_nothing_is_published_where_nobody_waits(verbs: Verbs) -> None:
    server_calls = verbs.client.info("commandstats")
    for _ in range(10):
        one = claim()
        verbs.join(one)
        verbs.keep([Keep(one, 0, 30.0)])
        verbs.gone(one)
    assert "cmdstat_publish" not in server_calls
    assert "cmdstat_publish" not in verbs.client.info("commandstats")


def test_a_push_grants_no_lease(verbs: Verbs) -> None:
    # Given one who waits since a second
    one, two = claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.at(START + 1.0)
    # When it is served
    verbs.gone(one)
    # Then it holds for what is left of its patience
    assert verbs.join(two) == Held(verbs.look().holders[0].fence, PATIENCE_S - 1.0)  # type: ignore[union-attr]
    verbs.at(START + PATIENCE_S)
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)


def test_one_leave_passes_over_one_whom_nobody_hears(verbs: Verbs) -> None:
    # Given four who wait; the connections of the first three are just being made anew
    ear = Ear(verbs)
    first = claim()
    verbs.join(first)
    waiting = [claim() for _ in range(4)]
    for one in waiting[:3]:
        verbs.join(one, address=b"deaf")
    verbs.join(waiting[3], address=ear.address)
    # When the holder leaves
    assert verbs.gone(first)
    # Then one of them is passed over; the next holds, though nobody heard that either
    line = verbs.look()
    assert line is not None
    assert [c.held for c in line.claims] == [True, False, False]
    assert verbs.stand(Keep(waiting[0], 0, 30.0)) == Gone(Loss.EXPIRED)
    assert fence(verbs.stand(Keep(waiting[1], 0, 30.0)))
    # And the order of the others is what it was
    assert isinstance(verbs.stand(Keep(waiting[2], 0, 30.0)), Waiting)
    assert ear.heard() == []
    ear.close()


def test_who_gave_no_address_is_never_passed_over(verbs: Verbs) -> None:
    one, two = claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.gone(one)
    assert fence(verbs.stand(Keep(two, 0, 30.0)))


def test_an_address_that_comes_later_is_used(verbs: Verbs) -> None:
    ear = Ear(verbs)
    one, two = claim(), claim()
    verbs.join(one)
    waits = ticket(verbs.join(two))
    verbs.stand(Keep(two, 0, 30.0), ear.address)
    verbs.stand(Keep(two, 0, 30.0))
    verbs.gone(one)
    assert ear.heard() == [(two.id, waits)]
    ear.close()


def test_a_server_that_lets_nobody_publish_serves_all_the_same(new_redis: NewRedis) -> None:
    server = new_redis(users=("user mute on >secret ~* resetchannels +@all",))
    with Verbs(server) as verbs:
        verbs.raw(b"AUTH mute secret\r\n")
        one, two = claim(), claim()
        verbs.join(one)
        verbs.join(two, address=b"somewhere")
        assert verbs.gone(one)
        assert fence(verbs.stand(Keep(two, 0, 30.0)))


# -- the clock, and what is remembered ---------------------------------------------------------


def test_tickets_rise_though_the_clock_steps_back(verbs: Verbs) -> None:
    tickets = []
    for number in range(60):
        verbs.at(START - 61.0 * number)
        one, two = claim(ttl=0.5), claim()
        tickets.append(fence(verbs.join(one)))
        waits = verbs.join(two)
        verbs.gone(one)
        tickets.append(ticket(waits))
        verbs.gone(two)
    assert tickets == sorted(set(tickets))
    look = verbs.join(claim())
    assert fence(look) > tickets[-1]
    (row,) = verbs.look().claims  # type: ignore[union-attr]
    assert row.age >= 0


def test_the_last_ticket_is_remembered_for_an_hour_and_more(verbs: Verbs) -> None:
    # Given a name that is used once a minute
    state = verbs.keys()[0]
    renewed, ends = 0, 0
    for minute in range(60):
        verbs.at(START + minute * 60)
        one = claim(ttl=5.0)
        verbs.join(one)
        verbs.gone(one)
        if (now_ends := verbs.client.pexpiretime(state)) > ends:
            renewed, ends = minute, now_ends
        # Then its key was renewed within ten minutes, for so long that an hour remains
        assert minute - renewed < 10
        assert verbs.client.pttl(state) - 600_000 > HOUR_MS


@pytest.mark.parametrize("ttl", [0.5, 599.0, 601.0, 86_400.0])
def test_the_keys_outlive_what_they_hold(ttl: float, verbs: Verbs) -> None:
    one, two = permit(2, ttl=ttl), permit(2, ttl=1.0)
    state = verbs.keys("gpu")[0]
    verbs.join(one)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.join(two)
    verbs.keep([Keep(two, 0, 0.01)])
    verbs.stand(Keep(two, 0, 0.01))
    verbs.gone(two)
    assert verbs.client.pttl(state) > ttl * 1000 + HOUR_MS
    verbs.keep([Keep(one, 0, 86_400.0)])
    assert verbs.client.pttl(state) > 86_400_000 + HOUR_MS


def test_a_hold_that_is_renewed_for_days_keeps_its_keys(verbs: Verbs) -> None:
    # Given a hold, and one who waits for it, kept for longer than any key lives
    state, waiters = verbs.keys()[:2]
    one, two = claim(ttl=60.0), claim()
    held = verbs.join(one)
    verbs.join(two)
    renewed = {state: 0.0, waiters: 0.0}
    now = START
    before = {key: verbs.client.pexpiretime(key) for key in renewed}
    for _ in range(2000):
        now += 1.0
        verbs.at(now)
        if now % 20 < 1:
            assert fence(verbs.keep([Keep(one, 0, 60.0)])[0]) == fence(held)
        assert isinstance(verbs.stand(Keep(two, 0, 60.0)), Waiting)
        for key in renewed:
            ends = verbs.client.pexpiretime(key)
            if ends > before[key]:
                renewed[key] = now - START
                before[key] = ends
    # Then both were given a longer life at least every ten minutes
    assert min(renewed.values()) >= 1400


def test_the_second_key_exists_only_while_somebody_waits(verbs: Verbs) -> None:
    waiters = verbs.keys()[1]
    one, two = claim(), claim()
    verbs.join(one)
    assert not verbs.client.exists(waiters)
    verbs.join(two)
    assert verbs.client.pttl(waiters) > HOUR_MS
    verbs.gone(two)
    assert not verbs.client.exists(waiters)


def test_a_second_key_of_a_line_that_was_lost_does_no_harm(verbs: Verbs) -> None:
    # Given a line whose first key was deleted, or evicted
    one, two, three, four = (claim() for _ in range(4))
    verbs.join(one)
    verbs.join(two)
    verbs.join(three)
    verbs.client.delete(verbs.keys()[0])
    # When the name is used anew
    fence(verbs.join(four))
    assert isinstance(verbs.join(one), Waiting)
    verbs.gone(four)
    # Then only those are served who came since
    assert fence(verbs.stand(Keep(one, 0, 30.0)))
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)
    assert not verbs.gone(three)
    line = verbs.look()
    assert line is not None
    assert len(line.claims) == 1


def test_a_line_that_lost_its_second_key_goes_on(verbs: Verbs) -> None:
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.client.delete(verbs.keys()[1])
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)
    assert isinstance(verbs.join(three), Waiting)
    verbs.gone(one)
    assert fence(verbs.stand(Keep(three, 0, 30.0)))


# -- breaks, min_hold, resize, adopt -----------------------------------------------------------


@pytest.mark.parametrize("behind", [0, 2])
def test_a_broken_claim_stays_out_and_the_next_is_served(behind: int, verbs: Verbs) -> None:
    one = claim()
    held = fence(verbs.join(one))
    others = [claim() for _ in range(behind)]
    for other in others:
        verbs.join(other)
    assert verbs.leave(Leave("refund", "", held))
    assert verbs.stand(Keep(one, held, 30.0)) == Gone(Loss.BROKEN)
    assert verbs.join(one) == Gone(Loss.BROKEN)
    assert not verbs.gone(one)
    assert not verbs.leave(Leave("refund", "", held))
    for other in others:
        assert fence(verbs.stand(Keep(other, 0, 30.0)))
        assert verbs.gone(other)
    assert fence(verbs.join(claim()))


def test_one_who_waits_can_be_broken_too(verbs: Verbs) -> None:
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    middle = ticket(verbs.join(two))
    verbs.join(three)
    assert verbs.leave(Leave("refund", "", middle))
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
    # A repetition doesn't make it longer.
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
    # And back again: nobody who holds loses it, and who has become too heavy is let go.
    heavy = permit(4, 3)
    verbs.join(heavy)
    assert verbs.resize("gpu", 2) == 4
    assert all(isinstance(one, Held) for one in verbs.keep([Keep(h, 0, 30.0) for h in holds]))
    for one in holds:
        verbs.gone(one)
    verbs.gone(waits)
    assert verbs.stand(Keep(heavy, 0, 30.0)) == Gone(Loss.EXPIRED)


def test_of_two_who_adopt_one_claim_one_gets_it(verbs: Verbs) -> None:
    one = claim(meta="note", owner="first")
    held = fence(verbs.join(one))
    mine, theirs = secrets.token_hex(16), secrets.token_hex(16)
    spec = one.spec._replace(owner="adopter of it")
    adopt = Keep(Claim(one.id, spec), held, 30.0, new_id=mine)
    assert fence(verbs.stand(adopt)) == held
    # Sent again, because the reply was lost, it says the same.
    assert fence(verbs.stand(adopt)) == held
    assert verbs.stand(adopt._replace(new_id=theirs)) == Gone(Loss.EXPIRED)
    assert verbs.stand(Keep(one, held, 30.0)) == Gone(Loss.EXPIRED)
    assert not verbs.gone(one)
    (row,) = verbs.look().claims  # type: ignore[union-attr]
    assert (row.owner, row.meta, row.fence) == ("adopter of it", "note", held)
    assert verbs.gone(Claim(mine, spec))


# -- the guard's place -------------------------------------------------------------------------


def test_where_a_guard_is_asked_its_record_must_fit(verbs: Verbs) -> None:
    state, _, _, guard = verbs.keys()
    one = claim()

    def joined(run_id: bytes) -> Joined:
        return replies.joined(verbs.ask(verbs.requests.join(one, True, b"", run_id)), one, LABEL)

    for record in (None, b"other"):
        if record:
            verbs.client.set(guard, record)
        with pytest.raises(Barred):
            joined(b"this")
        assert not verbs.client.exists(state)
    verbs.client.set(guard, b"this")
    held = fence(joined(b"this"))
    assert fence(joined(b"this")) == held


# -- what a batch and a name may be ------------------------------------------------------------


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
def test_any_name_owner_and_note_come_back_as_they_were(name: str, verbs: Verbs) -> None:
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
