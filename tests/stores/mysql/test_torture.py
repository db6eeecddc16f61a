"""Torture on MariaDB: interrupted workers, lost messages, a server that is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from bench.stats import jain
from holdfast.testing.faults import dice
from holdfast.testing.torture import Options, Outcome, run
from tests.servers.mariadb_server import MariadbServer
from tests.stores.crowds import overlaps, shares, turns_of
from tests.torture.scale import IGNORED, times

SECONDS = times(300, 5)
USUAL = Options(
    seconds=SECONDS,
    processes=times(12, 5),
    names=4,
    ttl=1.0,
    every=0.4,
    weather=True,
    strikes=("kill", "stop", "stop", "stop", "fork"),
)
#: Seconds between two kills of the server.
DEATH_S = 3.0
CREW = 8
TURN_S = 0.002


def seeded(what: str) -> int:
    """A seed for this run, which is printed."""
    return dice(what).randrange(1 << 32)


@pytest.mark.usual(0)
def test_processes_under_torture_and_network_faults_break_no_promise(mariadb_url: str) -> None:
    # Given processes of both faces that are interrupted, and whose messages are lost or late
    outcome = run(USUAL._replace(store=mariadb_url, seed=seeded("torture on MariaDB")))
    print(outcome)
    # Then no promise is broken, and nothing is left
    outcome.demand(IGNORED)
    assert outcome.verdict.figures["held"] > times(SECONDS, 0)


def test_a_server_killed_under_load_causes_no_overlap(
    new_mariadb: Callable[..., MariadbServer],
) -> None:
    # Given workers that are killed and stopped, on a server that is killed now and then
    server = new_mariadb()
    options = Options(
        store=server.url,
        seconds=times(320, 5),
        seed=seeded("torture on a killed MariaDB"),
        processes=5,
        names=4,
        ttl=2.0,
        every=0.5,
        strikes=("kill", "stop"),
    )
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(options)))
    thread.start()
    deaths, end = 0, time.monotonic() + options.seconds
    while time.monotonic() + DEATH_S < end:
        time.sleep(DEATH_S)
        server.kill()
        server.start()
        deaths += 1
    thread.join()
    (outcome,) = outcomes
    print(f"{deaths} deaths of the server")
    print(outcome)
    # Then no holds overlap, no fence falls, and nothing is left
    outcome.demand({"bounded waiting"})
    assert deaths >= times(50, 1)


def test_processes_on_one_name_get_the_same(mariadb_url: str, own_name: str) -> None:
    # Given processes that all lock the same name, again and again
    seconds = 5.0
    act = "tests.stores.mysql.workers:takes_turns"
    found = turns_of(CREW, act, mariadb_url, own_name, seconds, TURN_S)
    # Then no two holds overlap, fences rise, and all processes get about as many turns
    assert overlaps(found) == []
    assert all(found)
    fairness = jain(shares(found))
    print(f"{sum(map(len, found))} turns, shares {shares(found)}, Jain {fairness:.4f}")
    assert fairness >= 0.98
