"""Processes, and the server itself, are killed and stopped under load; many lock one name.

The tests of a store import these. It has the fixtures ``bench`` and ``durable``.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.stats import jain
from holdfast import Client
from holdfast.testing.faults import dice
from holdfast.testing.torture import Options, queues, run
from holdfast.testing.torture.trouble import Scene
from tests.queue_stores import Place
from tests.stores.crowds import overlaps, shares, turns_of
from tests.stores.sql.bench import Bench
from tests.torture.scale import FULL, IGNORED, times

CREW, SECONDS, TURN_S = 8, 5.0, 0.002
PROCESSES = Options(
    seconds=times(300, 4),
    processes=times(12, 5),
    names=4,
    ttl=1.0,
    every=0.3,
    long=0.3,
    strikes=("kill", "stop", "stop", "fork"),
)
SERVER = Options(
    seconds=times(320, 6),
    processes=times(8, 4),
    names=3,
    ttl=3.0,
    every=1.0,
    strikes=("kill", "stop"),
    trouble=3.0,
)
JOBS = queues.Options(
    groups=times(100, 6),
    jobs=times(20_000, 240),
    processes=times(8, 3),
    interval=0.05,
    ttl=2.0,
    strikes=("kill", "stop"),
    limit=times(600, 90),
)


class Deaths:
    """A trouble (see `holdfast.testing.torture`): the server is killed and started again."""

    def __init__(self, dies: Callable[[], object]) -> None:
        self._dies = dies

    def strike(self, scene: Scene) -> str:
        self._dies()
        return "death"

    def calm(self, now: float) -> None:
        pass


def seeded(what: str) -> int:
    """A seed for this run, which is printed."""
    return dice(what).randrange(1 << 32)


def test_processes_under_torture_break_no_promise(bench: Bench) -> None:
    weather, url = FULL and bench.weather, bench.server.url
    outcome = run(PROCESSES._replace(store=url, seed=seeded("torture"), weather=weather))
    print(outcome)
    outcome.demand(IGNORED)
    assert outcome.verdict.figures["held"] > times(300, 0)


def test_a_server_killed_under_load_gives_nothing_twice(durable: Place) -> None:
    # The tables exist already. Otherwise a client can be killed while it makes an unlogged table. A
    # crash right after that leaves PostgreSQL 15 with a file that keeps it from starting.
    with Client(durable.url) as client, client.lock("first"):
        pass
    assert durable.dies is not None
    options = SERVER._replace(store=durable.url, seed=seeded("torture and deaths"))
    outcome = run(options, [Deaths(durable.dies)])
    print(outcome)
    # Then no holds overlap and no fence falls; some claims wait for longer than their time-out
    outcome.demand({"bounded waiting"})
    assert outcome.strikes["death"] >= times(50, 1)


def test_a_server_killed_under_load_loses_no_job(bench: Bench, durable: Place) -> None:
    with Client(durable.url) as client:
        assert client.queue("first").take(timeout=0) is None
    options = JOBS._replace(store=durable.url, seed=seeded("torture of queues and a death"))
    outcome = queues.run(options, durable.dies)
    print(outcome)
    # Then no job is lost, and no order broken; a crash can repeat the last job of each worker if an
    # ack doesn't wait for the disk
    repeated = 0 if bench.acks_wait else JOBS.processes
    outcome.demand({"once"} if repeated else ())
    assert outcome.verdict.counts.get("once", 0) <= repeated
    assert outcome.strikes["restart"] == 1


def test_processes_on_one_name_are_served_one_at_a_time_and_evenly(url: str, own_name: str) -> None:
    found = turns_of(CREW, "tests.stores.acts:takes_turns", url, own_name, SECONDS, TURN_S)
    # Then no two holds overlap, fences rise, and all processes get about as many turns
    assert overlaps(found) == []
    assert all(found)
    fairness = jain(shares(found))
    print(f"{sum(map(len, found))} turns, shares {shares(found)}, Jain {fairness:.4f}")
    assert fairness >= 0.98
