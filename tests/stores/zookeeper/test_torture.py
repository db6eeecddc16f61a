"""Torture on ZooKeeper: a server that is killed under load, and many processes on one name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from bench.stats import jain
from holdfast.testing.faults import dice
from holdfast.testing.torture import Options, Outcome, run
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.crowds import overlaps, shares, turns_of
from tests.torture.scale import FULL, times

#: Seconds between two deaths of the server. After each death it is away for a second or two.
DEATH_S = 2.0
CREW = 8
CROWD_S = times(5, 3)
TURN_S = 0.002
RECIPES = ("kazoo", "simple") if FULL else ("kazoo",)


def test_a_server_killed_under_load_causes_no_overlap(
    new_zookeeper: Callable[..., ZooKeeperServer],
) -> None:
    # Given workers that are killed and stopped, on a server that is killed repeatedly
    server = new_zookeeper()
    options = Options(
        store=f"{server.url}?session=4",
        seconds=times(300, 3),
        seed=dice("torture on a killed ZooKeeper").randrange(1 << 32),
        processes=5,
        names=4,
        ttl=4.0,
        every=1.0,
        # A killed worker makes the end of the run wait for its session.
        strikes=("kill", "stop") if FULL else ("stop",),
    )
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(options)))
    thread.start()
    deaths, end = 0, time.monotonic() + options.seconds
    while time.monotonic() + DEATH_S < end:
        time.sleep(DEATH_S)
        server.restart()
        deaths += 1
    thread.join()
    (outcome,) = outcomes
    print(f"{deaths} deaths of the server")
    print(outcome)
    # Then no holds overlap, no fence falls, and no claim is left; some waiters had to wait for long
    outcome.demand({"bounded waiting"})
    assert deaths >= max(1, options.seconds / 6)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_crowd_on_one_name_is_served_one_at_a_time(
    recipe: str, zookeeper_url: str, own_name: str
) -> None:
    # Given processes that all want the same name repeatedly
    url = f"{zookeeper_url}?recipe={recipe}&prefix={recipe}"
    act = "tests.stores.zookeeper.workers:takes_turns"
    found = turns_of(CREW, act, url, own_name, CROWD_S, TURN_S)
    # Then no two turns overlap, fences rise, and each process has turns
    assert overlaps(found) == []
    assert all(found)
    fairness = jain(shares(found))
    print(f"{recipe}: {sum(map(len, found))} turns, {shares(found)}, Jain {fairness:.4f}")
    # And where there is a line, all processes get equally many turns
    assert recipe == "simple" or fairness >= 0.98
