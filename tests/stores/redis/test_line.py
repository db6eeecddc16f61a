"""Late copies, a batch with a damaged key in it, and strange names."""

from __future__ import annotations

import pytest

from holdfast.core.model import Gone, Keep, Loss
from holdfast.core.policy import TOMB_S
from tests.stores.redis.test_keys import NAMES
from tests.stores.redis.verbs import START, TAG, Verbs, claim, fence, permit, ticket


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
    answers = verbs.keep([Keep(one, 0, 30.0) for one in holds])
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
        assert fence(verbs.stand(Keep(two, 0, 30.0))) == waits
        assert verbs.gone(two)
