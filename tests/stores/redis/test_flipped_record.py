"""Each bit of the record by which a bucket knows its server is flipped once.

No flipped bit blocks claims for longer than a record can.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import HoldfastError
from holdfast.core.model import Held
from holdfast.core.ports import NotYet
from holdfast.stores.redis.keys import recovery_of
from tests.servers.fixtures import NewRedis
from tests.stores.redis.recovery import WINDOW_S, RecoveryVerbs
from tests.stores.redis.verbs import START, claim

#: A record blocks for a grace period, plus the time by which a clock is behind the latest fence.
LONGEST_S = WINDOW_S + 60.0
STEP_S = 2.5


@pytest.fixture
def verbs(new_redis: NewRedis) -> Iterator[RecoveryVerbs]:
    with RecoveryVerbs(new_redis(known=False)) as one:
        one.at(START)
        yield one


def granted_after(verbs: RecoveryVerbs, name: str) -> float | str:
    """Return the seconds until a claim is granted, or the reason why no claim ever is."""
    for step in range(int(4 * LONGEST_S / STEP_S)):
        verbs.at(START + step * STEP_S)
        try:
            answer = verbs.join(claim(name), False)
        except NotYet:
            verbs.judged()  # as a client that gets this error asks
        except HoldfastError as clear:
            return f"clear: {clear}"
        else:
            return step * STEP_S if isinstance(answer, Held) else repr(answer)
    return "barred without a time limit"


@pytest.mark.usual(1)
@pytest.mark.parametrize("up", [2.0, 1000.0], ids=["in its window", "old"])
def test_no_flipped_bit_of_a_record_bars_for_longer_than_a_record_can(
    verbs: RecoveryVerbs, up: float
) -> None:
    verbs.up(up)
    verbs.know()
    name = "refund"
    bucket = verbs.requests.join(claim(name), False, b"").bucket
    key = recovery_of("holdfast", bucket)
    verbs.judged()
    whole = verbs.client.get(key)
    assert whole
    late: dict[int, float | str] = {}
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        verbs.at(START)
        verbs.judged()  # all other records are unchanged
        for one in verbs.client.keys(f"*{name}*"):
            verbs.client.delete(one)
        verbs.client.set(key, bytes(flipped))
        took = granted_after(verbs, name)
        if isinstance(took, str) or took > LONGEST_S + 2 * STEP_S:
            late[bit] = took
    assert late == {}
