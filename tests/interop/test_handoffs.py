"""Four processes, two on each side, take turns on one name: no two hold it at the same time."""

from __future__ import annotations

import pytest

from holdfast.testing.promise import promised
from tests.interop.crew import Crew
from tests.interop.pairs import OURS, PAIRS, Pair
from tests.interop.witness import in_words
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL, times

LEASE_S = 5.0
TURNS = times(2000, 30)


@pytest.mark.usual(2)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_hand_offs_between_libraries_have_no_overlap_and_no_stall(
    pair: Pair, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    # Given two processes of each side
    place = pair.place(shared_redis)
    workers = crew.several([*OURS, (pair.client, 0), (pair.client, 1)], place)
    # (pottery polls only five times a second)
    turns = TURNS // 3 if pair.client == "pottery" and not FULL else TURNS
    # When they hand the lock over this many times in each direction
    record = crew.contend(
        {"ours": workers[:2], "theirs": workers[2:]},
        own_name,
        kind="lock",
        target=turns,
        seconds=times(900, 45),
        wait=LEASE_S + 1,
        lease=LEASE_S,
        inside={"ours": (0.002, 0.01), "theirs": pair.inside},
        pause={"ours": pair.pause, "theirs": (0.005, 0.03)},
    )
    # Then no two turns overlap, and no wait is too long
    to_us, to_them = record.handed("ours"), record.handed("theirs")
    print(in_words("to us", to_us), in_words("to them", to_them), sep="\n")
    print(f"{len(record.turns)} turns, longest wait {record.longest_wait():.3f} s")
    assert record.trouble == []
    with promised("one holder"):
        assert record.overlaps() == []
    assert min(len(to_us), len(to_them)) >= turns
    assert record.longest_wait() < LEASE_S + 1
