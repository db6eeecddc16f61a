"""Soon after its holds and clients end, a process has released memory, threads and descriptors."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client
from tests.tidy.tree import ROOT
from tests.torture.memory import BACK_S
from tests.torture.scale import FULL, times

HOLDS = times(100_000, 2_000)
#: Seconds in which everything is released; a usual run shares the machine with other processes.
WITHIN_S = BACK_S if FULL else 3 * BACK_S
#: Number of clients in one process, and maximum descriptors of each client.
CLIENTS, FDS_EACH = 60, 6


def measured(url: str, *words: str) -> dict[str, object]:
    """Run the measurement and return its result; fail if not everything was released."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.torture.memory", url),
            *("--holds", str(HOLDS), "--within", str(WITHIN_S), *words),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=110 if HOLDS < 10_000 else 1000,
    )
    print(done.stdout, done.stderr)
    found: dict[str, object] = json.loads(done.stdout)
    assert done.returncode == 0, found
    return found


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", [(), ("--aio",)], ids=["sync", "aio"])
def test_memory_threads_and_descriptors_come_back(face: tuple[str, ...], tmp_path: Path) -> None:
    for url in ("memory://", f"sqlite://{tmp_path}/locks.db"):
        found = measured(url, *face)
        assert found["back"] is True
        assert found["holds"] == HOLDS
        assert float(str(found["back_after_s"])) <= WITHIN_S + 2


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_sixty_clients_of_a_process_have_few_descriptors_each(url: str, redis_url: str) -> None:
    for store in (url, redis_url):
        before = fds()
        clients = [Client(store) for _ in range(CLIENTS)]
        holds = [one.lock(f"fds-{number}").acquire() for number, one in enumerate(clients)]
        used = fds() - before
        print(f"{store}: {used / CLIENTS:.2f} descriptors a client")
        assert used <= FDS_EACH * CLIENTS
        for hold, one in zip(holds, clients, strict=True):
            hold.release()
            one.close()
        assert fds() <= before + 2


def test_forgotten_clients_close_their_connections_while_their_loop_runs(
    url: str, redis_url: str
) -> None:
    async def forget(store: str) -> int:
        before = fds()
        for number in range(CLIENTS):
            hold = await AsyncClient(store).lock(f"fds-{number}").acquire()
            await hold.release()
            del hold
        for _ in range(200):
            gc.collect()
            if fds() <= before + 4:
                break
            await asyncio.sleep(0.05)
        return fds() - before

    for store in (url, redis_url, f"{redis_url}?protocol=2"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is said that they weren't closed
            assert asyncio.run(forget(store)) <= 4, store


async def _sixty(store: str) -> int:
    before = fds()
    clients = [AsyncClient(store) for _ in range(CLIENTS)]
    holds = [await one.lock(f"fds-{number}").acquire() for number, one in enumerate(clients)]
    used = fds() - before
    for hold, one in zip(holds, clients, strict=True):
        await hold.release()
        await one.close()
    return used


def test_sixty_clients_of_a_loop_have_few_descriptors_each(url: str, redis_url: str) -> None:
    for store in (url, redis_url):
        before = fds()
        used = asyncio.run(_sixty(store))
        print(f"{store}: {used / CLIENTS:.2f} descriptors a client")
        assert used <= FDS_EACH * CLIENTS
        assert fds() <= before + 2
