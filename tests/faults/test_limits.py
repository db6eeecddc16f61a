"""Descriptors, threads or memory run out at any step of a verb; afterwards everything works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.faults import NoSmallDisk, SmallDisk
from holdfast.testing.surroundings import surroundings
from tests.cli import world
from tests.faults.limits import CLIENTS
from tests.servers.fixtures import NewRedis

ROOT = Path(__file__).parents[2]
#: Minimum number of steps at which the resource was missing, over all works.
STRUCK_MIN = 6
#: The options of each server. The pools are so small that the test notices a connection that is
#: lost permanently.
SERVERS = {"redis": "?prefix=limits", "mariadb": "?pool=2", "postgres": "?pool=2", "zookeeper": ""}


@pytest.fixture(params=["sqlite", *SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store; a new store needs one line here."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/locks"
    return str(request.getfixturevalue(f"{request.param}_url")) + SERVERS[request.param]


def struck(lack: str, url: str, face: str) -> int:
    """The number of steps at which a resource was missing; afterwards everything worked."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.faults.limits", lack, url, face],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=surroundings(PYTHONPATH=str(world.ROOT / "src")),
    )
    if run.returncode:
        print(run.stderr[-3000:])
        raise AssertionError(run.stderr.strip().splitlines()[-1])
    return int(run.stdout)


@pytest.mark.usual(5)
@pytest.mark.parametrize("face", ["sync", "aio"])
@pytest.mark.parametrize("lack", ["descriptors", "threads", "memory"])
def test_after_something_ran_out_at_any_step_all_works_again(
    lack: str, url: str, face: str
) -> None:
    assert struck(lack, url, face) >= STRUCK_MIN


@pytest.mark.parametrize("face", ["sync", "aio"])
def test_after_the_disk_was_full_at_any_step_all_works_again(face: str) -> None:
    try:
        with SmallDisk(24 << 20) as disk:
            assert struck("room", f"sqlite://{disk.folder}/locks.db", face) >= STRUCK_MIN
    except NoSmallDisk as reason:
        pytest.skip(f"needs the right to mount: {reason}")


@pytest.mark.parametrize("face", ["sync", "aio"])
def test_after_a_redis_refused_clients_at_any_step_all_works_again(
    new_redis: NewRedis, face: str
) -> None:
    server = new_redis(f"maxclients {CLIENTS}")
    assert struck("clients", server.url, face) >= STRUCK_MIN
