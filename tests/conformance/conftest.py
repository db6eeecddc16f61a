"""The places for runs of the kit, and the pool that plays several runs at the same time.

A run spends most of its time waiting for a lease to end or for a grant. So collected runs are
started in the background, a few at a time, and each test waits for its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")

from holdfast.testing.conformance import Run, in_turn  # noqa: E402 # after the line above
from tests.ahead import Ahead  # noqa: E402

AT_ONCE = 10
#: A session that is longer than the longest lease without renewal in the kit.
LONG = "?session=60"
#: The other servers, and their fixtures.
SERVERS = {
    "postgresql": "shared_postgres",
    "mysql": "shared_mariadb",
    "zookeeper": "shared_zookeeper",
}
#: The stores that need no server and no file.
IN_PROCESS = {"memory"}
HERE = {*IN_PROCESS, "sqlite"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort runs that must be alone to the end, when no other run is left."""
    items.sort(key=lambda item: any(run.case.alone for run in runs_of(item)))


def usual(everything: Sequence[Run]) -> list[Run]:
    """The runs of a usual run of the tests.

    On stores without a server: one primitive of each case on each face. On servers: one primitive
    of each case on one face. The faces take turns, so that each case runs on both faces
    somewhere.
    """
    here = [run for run in everything if run.store in HERE]
    servers = [run for run in everything if run.store not in HERE]
    chosen = {*in_turn(here), *one_face(in_turn(servers))}
    return [run for run in everything if run in chosen]


def one_face(chosen: Sequence[Run]) -> Iterator[Run]:
    """One of these runs for each case and server; a server's dialects count as one more server."""
    places: dict[tuple[str, str], list[Run]] = {}
    for run in chosen:
        server, dialect, _ = run.store.partition("+")
        places.setdefault((run.case.name, f"{server}{dialect}"), []).append(run)
    turns = {case: number for number, (case, _) in enumerate(places)}
    for (case, _), runs in places.items():
        yield runs[turns[case] % len(runs)]
        turns[case] += 1


def parameter(item: pytest.Item, name: str) -> Any:
    call = getattr(item, "callspec", None)
    return call.params.get(name) if call is not None else None


def runs_of(item: pytest.Item) -> list[Run]:
    run = parameter(item, "run")
    return [run] if isinstance(run, Run) else []


@pytest.fixture(scope="session")
def urls(no_disk: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The URL of one store for each wanted scheme, for all runs."""
    found = {
        "memory": "memory://conformance",
        "sqlite": f"sqlite://{no_disk}/locks.db",
    }
    wanted = {run.store for item in request.session.items for run in runs_of(item)}
    wanted |= {str(parameter(item, "store")) for item in request.session.items}
    if any(store.startswith("redis") for store in wanted):
        server = request.getfixturevalue("shared_redis")
        found["redis"] = server.url
        for dialect in (store for store in wanted if store.startswith("redis+")):
            found[dialect] = f"{dialect}://127.0.0.1:{server.port}/0?prefix={dialect}:"
    for store, fixture in SERVERS.items():
        if store in wanted:
            found[store] = request.getfixturevalue(fixture).url
    if "zookeeper" in found:
        found["zookeeper"] += LONG
    return found


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest, urls: dict[str, str]) -> Iterator[Callable[[Run], None]]:
    """Return a function that plays a run, or waits for one that was started in the background.

    The runs of a store are started when the first of them is due.
    """
    runs = [run for item in request.session.items for run in runs_of(item)]
    begun: dict[str, Ahead[Run, None]] = {}

    def play(run: Run) -> None:
        run.on(urls[run.store])

    def finish(run: Run) -> None:
        if run.case.alone or len(runs) == 1:
            play(run)
            return
        if run.store not in begun:
            mine = [one for one in runs if one.store == run.store and not one.case.alone]
            begun[run.store] = ends.enter_context(Ahead(play, mine, AT_ONCE))
        begun[run.store][run]

    with contextlib.ExitStack() as ends:
        yield finish
