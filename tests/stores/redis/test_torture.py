"""Torture on Redis: killed, stopped and forked workers, and messages that are lost or late."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import ConfigError
from holdfast.testing.faults import dice
from holdfast.testing.torture import Options, Outcome, run
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.torture.scale import IGNORED, times

#: With ``HOLDFAST_TORTURE=full``: 18 processes for ten minutes.
SECONDS = times(600, 4)
USUAL = Options(
    seconds=SECONDS,
    processes=times(18, 8),
    names=5,
    every=0.25,
    long=0.3,
    weather=True,
    strikes=("kill", "stop", "stop", "stop", "fork"),
)
#: The grace period of strict recovery, and the time between two losses of data.
WINDOW_S, LOSS_S = 3.0, 8.0


def seeded(what: str) -> int:
    return dice(what).randrange(1 << 32)


def test_processes_under_torture_and_network_faults_break_no_promise(redis_url: str) -> None:
    # Given workers of both faces that are killed, stopped and forked, under network faults
    outcome = run(USUAL._replace(store=redis_url, seed=seeded("torture on Redis")))
    print(outcome)
    # Then no promise is broken, and nothing is left
    outcome.demand(IGNORED)
    assert outcome.verdict.figures["held"] > times(5 * SECONDS, 0)
    assert set(outcome.strikes) <= {"kill", "stop", "fork"}
    assert sum(outcome.weather.values()) > times(SECONDS, 0)


@pytest.mark.usual(1)
@pytest.mark.parametrize("loss", ["FLUSHDB", "restart"])
def test_data_lost_under_load_cause_no_overlap_with_strict_recovery(
    loss: str, new_redis: NewRedis
) -> None:
    # Given workers that are killed and stopped, on a server that sometimes loses all its data
    server = new_redis()
    lose: dict[str, Callable[[], object]] = {
        "FLUSHDB": lambda: server.ask("FLUSHDB"),
        "restart": lambda: server.restart(data=False),
    }
    options = Options(
        store=f"{server.url}?recovery=strict&grace={WINDOW_S}",
        seconds=times(400, 12),
        seed=seeded(f"torture on Redis, {loss}"),
        processes=times(12, 6),
        names=5,
        every=0.5,
        long=0.3,
        strikes=("kill", "stop"),
    )
    losses, outcome = _run_beside(options, server, lose[loss])
    print(f"{losses} times {loss}")
    print(outcome)
    # Then no holds overlap, and no fence falls; only the bound on waiting may be exceeded
    outcome.demand({"bounded waiting"})
    assert outcome.verdict.figures["held"] > times(10 * losses, 0)
    assert losses >= times(45, 1)


def _run_beside(
    options: Options, server: RedisServer, lose: Callable[[], object]
) -> tuple[int, Outcome]:
    """Run the workers, and lose the data at intervals; return the losses and the outcome.

    The data are lost in this thread, because a server ends with the thread that started it.
    """
    losses, begun = 0, time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(run, options)
        while time.monotonic() + LOSS_S < begun + options.seconds:
            time.sleep(LOSS_S)
            lose()
            losses += 1
        found = outcome.result()
    assert server.runs
    return losses, found


def test_network_faults_need_a_store_with_a_known_protocol() -> None:
    with pytest.raises(ConfigError, match="not supported for sqlite"):
        run(Options(seconds=0, weather=True))
