"""The server kit on the dialects: requests and replies that are lost, late or cut off."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from holdfast.dialects.plain.requests import SCRIPTS
from holdfast.dialects.redisson.library import JOIN, JOIN_FAIR, LEAVE, RENEW
from holdfast.testing import server
from holdfast.testing.faults import RESP
from holdfast.testing.server import Bench, Run
from tests.ahead import Ahead, asked
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

_join, _probe, _renew, _leave, _ = (script.sha for script in SCRIPTS)
#: For each dialect, with the options of its URL: the requests of its verbs.
DIALECTS = {
    "plain?": {"join": _join, "leave": _leave, "renew": _renew, "turn": _probe},
    "redisson?protocol=2&": {"join": JOIN.sha, "leave": LEAVE.sha, "renew": RENEW.sha},
    "redisson?fair=true&": {"join": JOIN_FAIR.sha, "leave": LEAVE.sha, "turn": JOIN_FAIR.sha},
}
OPERATIONS = (
    "a_hold_is_lost_before_anybody_else_can_hold",
    "a_silent_server_costs_a_caller_no_more_than_its_time",
)
#: Number of rows of the matrix that a usual run draws for each dialect.
DRAWN = 16


def bench(dialect: str, one: RedisServer) -> Bench:
    kind, _, options = dialect.partition("?")
    return Bench(
        lambda host, port: f"redis+{kind}://{host}:{port}?{options}prefix=kit:",
        one.host,
        one.port,
        DIALECTS[dialect],
        RESP,
    )


def drawn(dialect: str) -> list[Run]:
    runs = server.runs(DIALECTS[dialect])
    rows = [run for run in runs if run.trouble is not None]
    plain = [run for run in runs if run.name in OPERATIONS]
    return plain + random.Random(dialect).sample(rows, min(len(rows), times(len(rows), DRAWN)))


@pytest.fixture(scope="module")
def play(
    request: pytest.FixtureRequest, shared_redis: RedisServer
) -> Iterator[Callable[[str, Run], None]]:
    """Plays a check. Those for any thread begin ahead, eight at a time: they mostly wait."""
    chosen = asked(request, "test_on_a_server", "dialect", "check")
    early = [(dialect, run) for dialect, run in chosen if not run.in_main]

    def on(one: tuple[str, Run]) -> None:
        one[1].on(bench(one[0], shared_redis))

    with Ahead(on, early, at_once=8) as begun:
        yield lambda *one: on(one) if one[1].in_main else begun[one]


@pytest.mark.parametrize(
    "dialect, check", [(one, run) for one in DIALECTS for run in drawn(one)], ids=str
)
def test_on_a_server(dialect: str, check: Run, play: Callable[[str, Run], None]) -> None:
    play(dialect, check)
