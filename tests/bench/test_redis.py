"""The arena of Redis: it has a separate server, counts commands correctly, and its floors hold."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import machine, regimes, servers, servertime
from bench.contenders import Contender
from bench.stores import redis_bare
from bench.stores.redis import BARE, OURS, REDIS, SAME, SAME_STREAMS
from bench.suites import commands, crowd, handoff, one_name, renewal
from tests.servers import redis_server


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """One server for all tests, because the first locks on a new server may have to wait."""
    redis_server.program()
    with servers.redis_server():
        yield


def contender(label: str) -> Contender:
    return next(one for one in REDIS.contenders if one.label == label)


def test_the_server_ends_with_the_run(server: None) -> None:
    (pid,) = machine.companions
    address = servers.url()
    with servers.redis_server():
        (other,) = machine.companions - {pid}
        assert servers.url() != address

    assert machine.companions == {pid}
    assert not Path(f"/proc/{other}").exists()
    assert servers.url() == address


def test_the_cpu_time_of_the_server_counts_as_part_of_the_run(server: None) -> None:
    before = machine._own_s()
    own = time.process_time()
    with servers.Wire(servers.port()) as wire:
        wire.ask(b"EVAL", b"for i = 1, 3e7 do end", b"0")

    assert machine._own_s() - before > time.process_time() - own + 0.03


def test_the_server_goes_along_into_a_regime(server: None) -> None:
    (pid,) = machine.companions
    cores = os.sched_getaffinity(pid)
    with regimes.entered(regimes.ALONE):
        pinned = {
            frozenset(os.sched_getaffinity(int(task.name)))
            for task in Path(f"/proc/{pid}/task").iterdir()
        }

    assert pinned == {frozenset({max(cores)})}
    assert os.sched_getaffinity(pid) == cores


def test_commands_of_clients_and_of_scripts_are_counted_separately(server: None) -> None:
    monitor = servers.Monitor()
    with servers.Wire(servers.port()) as wire:
        for number in range(3):
            wire.ask(b"SET", b"key", b"lua] %d\r\n" % number)
        wire.ask(b"EVAL", b"redis.call('GET', 'key') return redis.call('DEL', 'key')", b"0")

    assert monitor.seen() == (4, 2)
    assert monitor.seen() == (0, 0)
    monitor.close()


def test_connections_are_counted_without_the_one_that_counts(server: None) -> None:
    before = servers.connections()
    with servers.Wire(servers.port()):
        assert servers.connections() == before + 1


@pytest.mark.parametrize("label", [OURS, BARE, SAME, SAME_STREAMS])
def test_a_pair_is_two_commands(server: None, label: str, tmp_path: Path) -> None:
    reading = commands.read(contender(label), 1, 2, tmp_path)

    assert (reading["acquire"], reading["release"]) == ([1.0], [1.0])


@pytest.mark.parametrize("of", [redis_bare.plainest, redis_bare.same])
def test_a_refused_take_of_a_bare_client_raises_unlike(
    server: None, of: Callable[[str], redis_bare.Bytes], tmp_path: Path
) -> None:
    async def refused(grip: redis_bare.Bare | redis_bare.BareStreams) -> None:
        with pytest.raises(redis_bare.Unlike):
            await grip.take()
        await grip.close()

    holder = redis_bare.Bare(tmp_path, of)
    asyncio.run(holder.take())
    asyncio.run(refused(redis_bare.Bare(tmp_path, of)))
    asyncio.run(refused(redis_bare.BareStreams(tmp_path, of)))
    asyncio.run(holder.close())


def test_the_baton_is_passed_on(server: None, tmp_path: Path) -> None:
    reading = handoff.read(Contender("baton", redis_bare.Baton), 3, tmp_path)

    assert all(0 < us < 1e6 for us in reading["us"])


@pytest.mark.parametrize("label", [OURS, "holdfast, asyncio"])
def test_a_crowd_is_counted(server: None, label: str, tmp_path: Path) -> None:
    reading = crowd.read(contender(label), 4, 0.1, tmp_path)

    assert reading["rate"][0] > 0
    assert reading["cpu_us"][0] < 1e6 / reading["rate"][0] * (os.cpu_count() or 1)


def test_a_worker_that_never_acquires_is_reported(server: None, tmp_path: Path) -> None:
    class Greedy:
        """A client whose first worker keeps the lock."""

        def __init__(self, _place: Path) -> None:
            self.held = asyncio.Lock()

        def use(self, name: str, inside: object = list) -> object:
            async def use() -> None:
                if name.endswith("first"):
                    return
                async with self.held:
                    assert callable(inside)
                    inside()
                    await asyncio.sleep(60)

            return use

        async def close(self) -> None:
            pass

    greedy = Contender("greedy", redis_bare.Bare, "asyncio", shared=Greedy)  # type: ignore[arg-type]
    reading = one_name.read(greedy, 5, 2.0, tmp_path)

    assert sorted(reading["shares"]) == [0, 0, 0, 0, 1]
    assert max(reading["wait_ms"]) == pytest.approx(2000, rel=0.5)


def test_connections_of_holds_are_counted(server: None, tmp_path: Path) -> None:
    reading = renewal._read(REDIS, renewal.in_threads, 20, 4.0, 0.5, tmp_path)

    assert reading["connections"][0] in (0, 1)
    assert reading["lost"] == [0]


def test_the_server_time_of_every_verb_is_measured_and_no_key_is_left(server: None) -> None:
    with servers.Wire(servers.port()) as wire:
        told = servertime.measured(servers.url(), 20)
        left = wire.ask(b"KEYS", servertime.PREFIX.encode() + b"*")

    assert tuple(told) == servertime.LABELS
    assert all(us > 0 for us in told.values())
    assert left == b"*0"
