"""The server kit on every server store, and on a toy server whose planted faults it must find."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from holdfast.stores.mysql.schema import VERSION
from holdfast.stores.redis.scripts import JOIN, JOIN_FREE, LEAVE, LEAVE_ALL, RENEW, STAND
from holdfast.testing import server
from holdfast.testing.faults import LINES, MYSQL, RESP, dice
from holdfast.testing.server import Bench, Run
from tests.ahead import Ahead, asked
from tests.conformance import toy, users
from tests.servers.mariadb_server import PASSWORD, USER
from tests.stores.zookeeper.frames import CREATE, DELETE, ZOOKEEPER, of_kind
from tests.torture.scale import times

VERBS = ("join", "leave", "renew", "turn", "join_free", "leave_all")
RUNS = server.runs()
#: The requests of each verb, of which most send one; a guard on Redis reads by two commands.
ONCE = dict.fromkeys(
    (
        *("acquire", "try", "extend", "inspect", "release", "acquire all", "release all"),
        *("detach", "break", "resize", "downgrade", "put", "put many", "take", "take many", "ack"),
        *("ack many", "ack and take", "return", "retry", "dead letter", "list", "count"),
        *("get", "get many", "look", "invalidate"),
    ),
    1,
) | {"enter again": 0, "leave again": 0}
REDIS = {"adopt": 2, "list": 2, "retry dead": 3, "purge": 5}
REDIS |= {"get": 2, "compute": 2 + 2, "get many": 20 * 2, "invalidate": 22}
POSTGRES = {"adopt": 2, "ack and take": 2, "retry dead": 2, "purge": 2, "compute": 3}
MYSQL_TOO = {"retry dead": 3, "purge": 3}
#: Most requests of ZooKeeper's store are sent together with others.
ZOO = {"acquire": 6, "try": 3, "extend": 1, "inspect": 4, "release": 1, "break": 4, "downgrade": 1}
ZOO |= {"acquire all": 20 * 6, "release all": 20, "put": 5, "put many": 2, "take": 5}
ZOO |= {"take many": 43, "ack": 1, "ack many": 20, "ack and take": 2, "return": 2, "retry": 2}
ZOO |= {"dead letter": 1, "list": 45, "count": 8, "retry dead": 14, "purge": 18}
#: The checks of a server with users, and the check of the requests.
USERS = (
    "what_is_refused_is_one_clear_error",
    "the_least_rights_suffice",
    "a_restart_grants_nothing_twice",
)
REQUESTS = "each_verb_sends_its_requests_however_much_is_there"
#: Number of rows of the matrix that a usual run draws for each store.
DRAWN = 24


def redis(request: pytest.FixtureRequest) -> Bench:
    one = request.getfixturevalue("shared_redis")
    shas = (one.sha for one in (JOIN, LEAVE, RENEW, STAND, JOIN_FREE, LEAVE_ALL))
    return Bench(
        lambda host, port: f"redis://:hush-hush@{host}:{port}",
        "127.0.0.1",
        one.port,
        dict(zip(VERBS, shas, strict=True)),
        RESP,
        secret="hush-hush",
        requests=ONCE | REDIS,
    )


def postgresql(request: pytest.FixtureRequest) -> Bench:
    one = request.getfixturevalue("shared_postgres")
    said = {"turn": "stand"}
    return Bench(
        lambda host, port: (
            f"postgresql://postgres:hush-hush@{host}:{port}/postgres?sslmode=disable"
        ),
        one.host,
        one.port,
        {verb: f"holdfast_{said.get(verb, verb)}\0".encode() for verb in VERBS},
        secret="hush-hush",
        requests=ONCE | POSTGRES,
    )


def mysql(request: pytest.FixtureRequest) -> Bench:
    one = request.getfixturevalue("shared_mariadb")
    said = {"renew": "stand", "turn": "stand"}
    return Bench(
        lambda _, port: one.url_for(USER, PASSWORD, port),
        one.host,
        one.port,
        {verb: f"_{said.get(verb, verb)}_{VERSION}(".encode() for verb in VERBS},
        MYSQL,
        PASSWORD,
        requests=ONCE | POSTGRES | MYSQL_TOO,
    )


def zookeeper(request: pytest.FixtureRequest) -> Bench:
    one = request.getfixturevalue("shared_zookeeper")
    return Bench(
        lambda host, port: f"zookeeper://{host}:{port}?session=8",
        one.host,
        one.port,
        {"join": of_kind(CREATE), "leave": of_kind(DELETE)},
        ZOOKEEPER,
        gone_s=16.0,
        requests=ZOO,
        grows=("inspect",),
    )


BENCHES = {one.__name__: one for one in (redis, postgresql, mysql, zookeeper)}
#: The verbs that ZooKeeper's store sends as a request of one kind: its session keeps the holds.
SENDS = {"zookeeper": ("join", "leave")}


def _drawn(store: str, number: int) -> list[Run]:
    """Return the operations, and rows of the matrix; ``HOLDFAST_TORTURE=full`` plays all."""
    runs = server.runs(SENDS.get(store, VERBS))
    if store == "zookeeper":  # its driver ends if one message of a connection is missing
        runs = [run for run in runs if "a_lost" not in str(run) and "a_loss" not in str(run)]
    rows = [run for run in runs if run.trouble is not None]
    count = min(times(len(rows), number), len(rows))
    plain = [run for run in runs if run.trouble is None and run.name not in USERS]
    return plain + random.Random(store).sample(rows, count)


@pytest.fixture(scope="module")
def play(request: pytest.FixtureRequest) -> Iterator[Callable[[str, Run], None]]:
    """Plays a check. Those for any thread begin ahead, eight at a time: they mostly wait."""
    chosen = asked(request, "test_on_a_server", "store", "check")
    benches = {store: BENCHES[store](request) for store, _ in chosen}
    early = [(store, run) for store, run in chosen if not run.in_main]
    with Ahead(lambda one: one[1].on(benches[one[0]]), early, at_once=8) as begun:
        yield lambda store, run: run.on(benches[store]) if run.in_main else begun[store, run]


@pytest.mark.parametrize(
    "store, check", [(store, run) for store in BENCHES for run in _drawn(store, DRAWN)], ids=str
)
def test_on_a_server(store: str, check: Run, play: Callable[[str, Run], None]) -> None:
    play(store, check)


@pytest.fixture(scope="module")
def with_users(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Bench]]:
    """A bench of a server with users of few rights."""
    with ExitStack() as ends:
        yield functools.cache(lambda store: users.BENCHES[store](request, ends))


@pytest.mark.parametrize("check", [run for run in RUNS if run.name in USERS], ids=str)
@pytest.mark.parametrize("store", users.BENCHES)
def test_on_a_server_with_users(store: str, check: Run, with_users: Callable[[str], Bench]) -> None:
    check.on(with_users(store))


@pytest.mark.parametrize("check", [run for run in RUNS if run.name == REQUESTS], ids=str)
def test_the_former_protocol_of_redis_sends_as_many_requests(
    check: Run, request: pytest.FixtureRequest
) -> None:
    check.on(replace(redis(request), url="redis://{}:{}?protocol=2".format))


TOY = {"acquire": 1, "try": 1, "extend": 1, "release": 1, "acquire all": 1, "release all": 20}


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a bench of a toy server with this fault."""
    made: list[toy.Server] = []

    def make(fault: str = "") -> Bench:
        monkeypatch.setitem(toy.BUILTIN, "toy", "")
        toy.install(fault)
        made.append(toy.Server(fault))
        port = made[-1].port
        verbs = {verb: f"{verb} ".encode() for verb in ("join", "leave", "renew", "join_free")}

        def restart() -> None:
            made.append(made[-1].restart())

        return Bench(
            "toy://{}:{}".format,
            "127.0.0.1",
            port,
            verbs,
            LINES,
            requests=TOY,
            least=f"toy://app:{toy.PASSWORD}@{{}}:{{}}".format,
            refused={
                f"toy://app:wr0ng@127.0.0.1:{port}": "a wrong password",
                f"toy://looker:{toy.PASSWORD}@127.0.0.1:{port}": "no right to join",
            },
            restart=restart,
        )

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


def _failures(bench: Bench, runs: list[Run], first: bool = False) -> list[str]:
    found = []
    for run in runs:
        try:
            run.on(bench)
        except Exception as failure:
            found.append(f"{run}: {failure}")
            if first:
                break
    return found


def test_a_sound_toy_server_passes(toys: Any) -> None:
    bench = toys()
    rows = [run for run in RUNS if run.trouble and run.trouble.verb in bench.verbs]
    plain = [run for run in RUNS if run.trouble is None and not run.in_main]
    drawn = dice("rows").sample(rows, min(times(len(rows), 3), len(rows)))
    with Ahead(lambda run: run.on(bench), plain, at_once=8) as begun:
        assert _failures(bench, drawn) == []
        for run in plain:
            begun[run]
    assert _failures(bench, [run for run in RUNS if run.trouble is None and run.in_main]) == []


#: For each fault of the toy, a part of the names of the runs that find it.
FINDS = {
    toy.FAULTS[0]: "join-a_cut_reply",
    toy.FAULTS[1]: "join-a_late_request-brief",
    toy.FAULTS[2]: "leave-a_cut_request",
    toy.FAULTS[3]: "join-a_cut_request",
    toy.FAULTS[4]: "a_silent_server",
    toy.FAULTS[5]: "join-a_lost_reply-interrupted",
    toy.FAULTS[6]: "each_verb_sends",
    toy.FAULTS[7]: "the_least_rights",
    toy.FAULTS[8]: "what_is_refused",
    toy.FAULTS[9]: "what_is_refused",
    toy.FAULTS[10]: "a_restart",
}


@pytest.mark.parametrize("fault", FINDS)
def test_a_planted_fault_of_the_toy_is_found(fault: str, toys: Any) -> None:
    runs = [run for run in RUNS if FINDS[fault] in str(run)]
    assert runs
    assert _failures(toys(fault), runs, first=True)
