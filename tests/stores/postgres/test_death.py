"""A holder that dies or stops delays the next waiter until its lease ends, and not longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

import pytest

from holdfast import Client
from holdfast.testing.faults import Subject, dice
from holdfast.testing.torture import Options, Outcome, run
from tests.servers.postgres_server import PostgresServer
from tests.stores.crowds import shares
from tests.stores.deaths import *  # noqa: F403
from tests.torture.scale import IGNORED, times

CROWD = 8


def seeded(what: str) -> int:
    return dice(what).randrange(1 << 32)


def test_processes_under_torture_break_no_promise(postgres_url: str) -> None:
    outcome = run(
        Options(
            store=postgres_url,
            seconds=times(120, 4),
            processes=times(10, 5),
            names=3,
            every=0.3,
            long=0.3,
            strikes=("kill", "stop", "stop", "fork"),
            seed=seeded("torture on PostgreSQL"),
        )
    )
    print(outcome)
    outcome.demand(IGNORED)


@pytest.mark.usual(0)
def test_a_server_that_crashes_under_load_gives_nothing_twice(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    # Given workers that lock, on a server that is killed with all its processes now and then
    server = new_postgres(fsync=True)
    # The tables exist already. Otherwise a client can be killed while it makes an unlogged table. A
    # crash right after that leaves PostgreSQL 15 with a file that keeps it from starting.
    with Client(server.url) as client, client.lock("first"):
        pass
    options = Options(
        store=server.url,
        seconds=times(320, 6),
        processes=times(8, 4),
        names=3,
        ttl=3.0,
        every=1.0,
        strikes=("kill", "stop"),
        seed=seeded("torture on PostgreSQL, with crashes"),
    )
    crashes, outcome = _run_beside(options, server.crash, 3.0)
    print(f"{crashes} crashes")
    print(outcome)
    # Then no holds overlap and no fence falls; some claims wait for longer than their time-out
    outcome.demand({"bounded waiting"})
    assert crashes >= times(50, 1)


def _run_beside(
    options: Options, strike: Callable[[], object], every: float
) -> tuple[int, Outcome]:
    """Run the workers in a thread, and call ``strike`` every ``every`` seconds in this thread.

    It must be this thread, because a server ends with the thread that started it.
    """
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(options)))
    strikes, begun = 0, time.monotonic()
    thread.start()
    try:
        while time.monotonic() + every < begun + options.seconds:
            time.sleep(every)
            strike()
            strikes += 1
    finally:
        thread.join()
    return strikes, outcomes[0]


@pytest.mark.usual(0)
def test_a_crowd_on_one_name_is_served_one_at_a_time_and_evenly(
    postgres_url: str, own_name: str
) -> None:
    seconds = times(5, 4)
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(
                Subject(
                    "tests.stores.postgres.workers:over_and_over", postgres_url, own_name, seconds
                )
            )
            for _ in range(CROWD)
        ]
        for one in crowd:
            one.hear(30)
        for one in crowd:
            one.say("go")
        turns = [one.hear(60) for one in crowd]
    assert all(turns)
    counts = shares([[(fence, begun, ended) for begun, ended, fence in one] for one in turns])
    order = sorted(turn for one in turns for turn in one)
    jain = sum(counts) ** 2 / (CROWD * sum(count**2 for count in counts))
    print(f"{len(order) / seconds:.0f} holds/s, Jain {jain:.4f}, {counts}")
    assert [turn for turn, after in pairwise(order) if turn[1] > after[0]] == []
    fences = [turn[2] for turn in order]
    assert fences == sorted(set(fences))
    assert jain >= 0.98
