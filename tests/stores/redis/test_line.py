"""Names and keys, late copies, a batch with a damaged key, and waiters without a listener."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.model import Claim, Gone, Leave, Loss, Renewal, Waiting
from holdfast.core.policy import TOMB_S
from holdfast.errors import ConfigError
from holdfast.stores.redis import replies
from holdfast.stores.redis.keys import (
    BUCKETS,
    bucket_of,
    keys_of,
    name_of,
    pattern_of,
    state_of,
    tag_of,
)
from holdfast.stores.redis.library import packed
from holdfast.stores.redis.scripts import ADDRESS_MAX, Requests
from tests.servers.fixtures import NewRedis
from tests.stores.redis.verbs import START, TAG, Verbs, claim, fence, permit, ticket

NAMES = (
    "x",
    " ",
    "a:b",
    "{a}b",
    "}",
    "{}",
    "a{17}:b",
    "two\nlines\r\n$3",
    "nul\0nul",
    "*?[a-z]^\\",
    "grüße/日本語/🔒",
    "x" * 512,
    "ü" * 256,
    "x}:y",
    "holdfast:{17}:x",
)


def test_a_name_is_found_again_in_its_keys_and_no_two_share_one() -> None:
    seen: set[bytes] = set()
    for name in NAMES:
        raw = name.encode()
        state, *others = keys = keys_of("holdfast", raw)
        assert name_of("holdfast", state) == name
        assert state_of("holdfast", bucket_of(raw), raw) == state
        assert [name_of("holdfast", key) for key in others] == [None] * 3
        # All four are in one slot, as the first braces contain only the bucket's number.
        assert all(key.startswith(f"holdfast:{tag_of(bucket_of(raw))}".encode()) for key in keys)
        assert max(map(len, keys)) <= len(raw) + 20
        assert seen.isdisjoint(keys[:3])
        seen.update(keys[:3])


def test_buckets_are_used_evenly() -> None:
    counts = [0] * BUCKETS
    for number in range(BUCKETS * 100):
        counts[bucket_of(b"job-%d" % number)] += 1
    assert min(counts) > 50
    assert max(counts) < 200


def test_a_foreign_key_is_no_name() -> None:
    for key in (
        b"other:{3}:x",
        b"holdfast:{4}:x",  # in a bucket that isn't the name's
        b"holdfast:{3}:",
        b"holdfast:{03}:x",
        b"holdfast:{3}x",
        b"holdfast:{3}:\xff",
    ):
        assert name_of("holdfast", key) is None


def test_a_pattern_has_nothing_to_interpret() -> None:
    assert pattern_of("holdfast", rb"a*b?[c]\d") == rb"holdfast:{*}:a\*b\?\[c\]\\d*"


def test_the_number_of_remembered_requests_stays_bounded() -> None:
    requests = Requests()
    for number in range(5000):
        requests.join(claim(f"n{number}"), True)
        requests.leave(Leave(f"n{number}", "0" * 32, 0))
    assert len(requests._joins) <= 2048
    assert len(requests._leaves) <= 2048


def test_what_can_not_be_packed_is_refused() -> None:
    requests = Requests()
    for wrong in ("", "t", "ü" * 32):
        with pytest.raises(ConfigError, match="32 bytes"):
            requests.join(Claim(wrong, claim().spec), True)
    with pytest.raises(ConfigError, match="address"):
        requests.join(claim(), True, b"a" * (ADDRESS_MAX + 1))


def test_tombstones_are_cleared_away(verbs: Verbs) -> None:
    for number in range(50):
        verbs.at(START + number * 10)
        verbs.gone(claim(), suspect=True)
    assert verbs.client.zcard(verbs.keys()[2]) <= 7
    assert verbs.client.pttl(verbs.keys()[2]) <= (30 + TOMB_S) * 1000
    verbs.at(START + 1000)
    assert fence(verbs.join(claim()))


def test_a_batch_of_a_hundred_with_a_broken_key_in_its_middle(verbs: Verbs) -> None:
    holds = [claim(f"n{number}") for number in range(100)]
    fences = [fence(verbs.join(one)) for one in holds]
    verbs.client.delete(verbs.keys("n50")[0])
    verbs.client.rpush(verbs.keys("n50")[0], "theirs")
    answers = verbs.renew([Renewal(one, 0, 30.0) for one in holds])
    assert isinstance(answers[50], Exception)
    assert "n50 is a list" in str(answers[50])
    assert [fence(a) for a in answers[:50] + answers[51:]] == fences[:50] + fences[51:]


def test_any_name_owner_and_note_are_returned_unchanged(verbs: Verbs) -> None:
    strange = "new\nline\r\n nul\0 %s 日本 {1} 17 "
    for name in NAMES:
        one = permit(3, 2, name, owner=strange, meta=strange * 2)
        two = permit(3, 2, name, owner=name[:80], meta="")
        held, waits = fence(verbs.join(one, tag=TAG)), ticket(verbs.join(two, tag=TAG))
        line = verbs.look(name)
        assert line is not None
        rows = [(c.owner, c.meta, c.fence, c.weight) for c in line.claims]
        assert rows == [(strange, strange * 2, held, 2), (name[:80], "", waits, 2)]
        assert verbs.gone(one)
        assert fence(verbs.turn(two)) == waits
        assert verbs.gone(two)


class Ear:
    address = b"ear"

    def __init__(self, verbs: Verbs) -> None:
        self._pushes = verbs.client.pubsub()
        self._pushes.subscribe(self.address)
        self._pushes.get_message(timeout=9)

    def heard(self) -> list[tuple[str, int] | None]:
        """Return the wake-ups that have come since the last call."""
        seen = []
        self._pushes.ping()
        while (message := self._pushes.get_message(timeout=9))["type"] != "pong":
            seen.append(replies.poked(message["data"]))
        return seen

    def close(self) -> None:
        self._pushes.close()


@pytest.fixture
def ear(verbs: Verbs) -> Iterator[Ear]:
    one = Ear(verbs)
    yield one
    one.close()


def test_one_leave_skips_one_waiter_without_a_listener(verbs: Verbs, ear: Ear) -> None:
    # Given four waiters; the clients of the first three are connecting again and don't listen
    first = claim()
    verbs.join(first)
    waiting = [claim() for _ in range(4)]
    for one in waiting[:3]:
        verbs.join(one, address=b"deaf")
    verbs.join(waiting[3], address=ear.address)
    assert verbs.gone(first)
    # Then the first is skipped, and the second holds, though no client received its wake-up
    line = verbs.look()
    assert line is not None
    assert [c.held for c in line.claims] == [True, False, False]
    assert verbs.turn(waiting[0]) == Gone(Loss.EXPIRED)
    assert fence(verbs.turn(waiting[1]))
    # And the order of the others is unchanged
    assert isinstance(verbs.turn(waiting[2]), Waiting)
    assert ear.heard() == []


def test_of_several_waiters_without_a_listener_one_is_skipped(verbs: Verbs, ear: Ear) -> None:
    # Given one holder of both permits, and three waiters, the first two without a listener
    first = permit(2, 2)
    verbs.join(first)
    waiting = [permit(2) for _ in range(3)]
    for one in waiting[:2]:
        verbs.join(one, address=b"deaf")
    last = ticket(verbs.join(waiting[2], address=ear.address))
    assert verbs.gone(first)
    # Then the first is skipped, and the third is granted in its place
    assert verbs.turn(waiting[0]) == Gone(Loss.EXPIRED)
    assert fence(verbs.turn(waiting[1]))
    assert ear.heard() == [(waiting[2].id, last)]


def test_an_address_that_comes_later_is_used(verbs: Verbs, ear: Ear) -> None:
    one, two = claim(), claim()
    verbs.join(one)
    waits = ticket(verbs.join(two))
    verbs.turn(two, address=ear.address)
    verbs.turn(two)
    verbs.gone(one)
    assert ear.heard() == [(two.id, waits)]


def test_a_waiter_with_a_sharded_address_is_woken_there(new_redis: NewRedis) -> None:
    server = new_redis()
    address = b"{17}ear"
    with Verbs(server) as verbs, Verbs(server, load=False) as ear:
        ear.raw(packed(b"SSUBSCRIBE", address))
        one, two, three = permit(2, 2), permit(2, 2), permit(2)
        verbs.join(one)
        tickets = [ticket(verbs.join(c, address=address)) for c in (two, three)]
        for left, served, wanted in zip((one, two), (two, three), tickets, strict=True):
            assert verbs.gone(left)
            kind, where, message = ear.raw(b"")
            assert (kind, where) == (b"smessage", address)
            assert replies.poked(message) == (served.id, wanted)
