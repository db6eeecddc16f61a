"""Queues on an SQL database: requests that come twice or at once, and leases that end.

The tests of a store import these. It has the fixture ``url``.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from holdfast import StoreUnavailable
from holdfast.core.queue.model import Delivered, Pace, Start, Take, Verdict
from tests.servers.process import until
from tests.stores.crowds import at_once
from tests.stores.sql.queueing import Verbs, job
from tests.torture.scale import times

Make = Callable[[], Verbs]
ROUNDS = times(300, 10)


@pytest.fixture
def new_verbs(url: str, own_name: str) -> Iterator[Make]:
    """Makes clients of one queue, each with its own connections."""
    with ExitStack() as ends:
        yield lambda: ends.enter_context(closing(Verbs(url, own_name)))


def test_many_simultaneous_takes_keep_each_group_in_order(new_verbs: Make) -> None:
    crew = [new_verbs() for _ in range(6)]
    for _ in range(ROUNDS):
        # Given groups with some jobs each, and a few ungrouped jobs
        crew[0].put(*(job(at, f"g{at % 4}" if at < 16 else "") for at in range(20)))
        seen: dict[str, list[Delivered]] = defaultdict(list)
        # When many take at the same moment, again and again
        for _ in range(30):
            some = _some(crew)
            # Then each job comes once, and of each group one job at a time, in order
            keys = [one.group or one.id for *_, one in some]
            assert len(keys) == len(set(keys)), some
            for verbs, take, one in some:
                seen[one.group].append(one)
                assert verbs.settle(take, [one]) == [True]
            if sum(map(len, seen.values())) == 20:
                break
        assert sorted(int(one.payload) for some in seen.values() for one in some) == [*range(20)]
        for group in (f"g{at}" for at in range(4)):
            numbers, fences = zip(*((int(d.payload), d.fence) for d in seen[group]), strict=True)
            assert list(numbers) == sorted(numbers)
            assert list(fences) == sorted(set(fences))


def _some(crew: list[Verbs]) -> list[tuple[Verbs, Take, Delivered]]:
    """The deliveries of takes at the same moment, each with its taker."""
    takes = [verbs.wish(most=3) for verbs in crew]
    got = at_once(len(crew), lambda at: crew[at].take(takes[at]))
    return [(*by, one) for *by, found in zip(crew, takes, got, strict=True) for one in found]  # type: ignore[misc]


def test_a_take_and_its_copies_and_its_undo_at_once(new_verbs: Make) -> None:
    verbs = [new_verbs() for _ in range(3)]
    one = verbs[0]
    for turn in range(ROUNDS):
        one.put(*(job(at, f"g{at % 3}" if at % 2 else "") for at in range(6)))
        # When a take is sent twice together, and in every second round its undo as well
        request = one.wish(most=3)
        acts: list[Callable[[], Any]] = [lambda v=v: v.take(request) for v in verbs[:2]]  # type: ignore[misc]  # noqa: B023
        if turn % 2:
            acts.append(lambda: verbs[2].give_back(request))  # noqa: B023
        answers = at_once(len(acts), lambda at: acts[at]())  # noqa: B023
        if turn % 2:
            # Then a later copy gets nothing, and nothing stays delivered
            assert one.take(request) == []
            one.give_back(request)
        else:
            # Then both copies return the same deliveries
            first, second = ({(d.seq, d.fence) for d in found} for found in answers)
            assert first == second
            assert 0 < len(first) <= 3
            assert all(one.settle(request, answers[0]))
        left = one.drain()
        assert len(left) == (6 if turn % 2 else 6 - len(answers[0]))
        assert {d.attempt for d in left} == {1}


def test_a_late_copy_of_a_put_changes_nothing(new_verbs: Make) -> None:
    one, other = new_verbs(), new_verbs()
    for turn in range(ROUNDS):
        request = one.request(job("a", "g"), job("b", key=f"k{turn}"), job("c", key=f"k{turn}"))
        answers = at_once(2, lambda at: (one, other)[at].send(request))  # noqa: B023
        assert answers == [[True, True, False]] * 2
    late = one.request(job("late"))
    one.put(job("last"))
    with pytest.raises(StoreUnavailable, match="came late"):
        other.send(late)
    assert Counter(d.payload for d in one.drain()) == {b"a": ROUNDS, b"b": ROUNDS, b"last": 1}


def test_names_groups_and_ids_are_bytes(url: str, own_name: str) -> None:
    odd = ["a", "A", "a ", "a\0", "a%", "\N{LATIN SMALL LETTER A WITH DIAERESIS}", "a\\'"]
    for at, queue in enumerate(odd):
        with closing(Verbs(url, own_name + queue)) as verbs:
            assert verbs.put(*(job(at, group, group * 2) for group in odd)) == [True] * len(odd)
            assert verbs.put(job("again", "x", odd[0] * 2)) == [False]
    for at, queue in enumerate(odd):
        with closing(Verbs(url, own_name + queue)) as verbs:
            got = verbs.take(verbs.wish(most=100))
            assert sorted(d.group for d in got) == sorted(odd)
            assert {d.payload for d in got} == {str(at).encode()}


def test_the_interval_is_kept_after_a_lost_lease_and_a_return(new_verbs: Make) -> None:
    verbs = new_verbs()
    for start, soonest in ((Start.ACK, 1.4), (Start.TAKE, 1.2)):
        verbs.put(job("x", f"g{start}"))
        pace = Pace(1.2, start)
        taken = verbs.wish(ttl=0.2, pace=pace)
        begun = time.monotonic()  # before: its answer may be late
        assert len(verbs.take(taken)) == 1
        asked = verbs.wish(most=5, ttl=30, pace=pace)
        got = until(lambda asked=asked: verbs.take(asked), "it comes again")
        took = time.monotonic() - begun
        assert took >= soonest - 0.05, (start, took)
        assert verbs.settle(asked, got, Verdict.RETURN) == [True]
        assert verbs.take(verbs.wish(most=5)) == []
        assert len(until(verbs.drain, "it is due")) == 1
