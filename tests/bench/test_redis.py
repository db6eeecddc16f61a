"""The arena of Redis: it has a separate server, counts commands correctly, and its floors hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import machine, regimes, servers
from bench.contenders import Contender
from bench.stores.redis import BARE, OURS, REDIS, SAME, SAME_STREAMS
from bench.suites import commands
from tests.servers import redis_server


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """One server for all tests, because the first locks on a new server may have to wait."""
    redis_server.program()
    with servers.redis_server():
        yield


def contender(label: str) -> Contender:
    return next(one for one in REDIS.contenders if one.label == label)


def test_the_server_is_part_of_the_run_and_ends_with_it(server: None) -> None:
    (pid,) = machine.companions
    address = servers.url()
    with servers.redis_server():
        (other,) = machine.companions - {pid}
        assert servers.url() != address
    assert machine.companions == {pid}
    assert not Path(f"/proc/{other}").exists()
    assert servers.url() == address
    # And its CPU time counts as part of the run
    before, own = machine._own_s(), time.process_time()
    with servers.Wire(servers.port()) as wire:
        wire.ask(b"EVAL", b"for i = 1, 3e7 do end", b"0")
    assert machine._own_s() - before > time.process_time() - own + 0.03
    # And it goes along into a regime
    cores = os.sched_getaffinity(pid)
    with regimes.entered(regimes.ALONE):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        pinned = {frozenset(os.sched_getaffinity(int(task.name))) for task in tasks}
    assert pinned == {frozenset({max(cores)})}
    assert os.sched_getaffinity(pid) == cores


@pytest.mark.parametrize("label", [OURS, BARE, SAME, SAME_STREAMS])
def test_a_pair_is_two_commands(server: None, label: str, tmp_path: Path) -> None:
    reading = commands.read(contender(label), 1, 2, tmp_path)

    assert (reading["acquire"], reading["release"]) == ([1.0], [1.0])
