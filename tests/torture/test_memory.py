"""Soon after its holds and clients end, a process has released memory, threads and descriptors."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import pytest

from holdfast.testing.faces import FACES
from holdfast.testing.faults import Subject
from tests.torture.scale import FULL, times

HOLDS = times(100_000, 2_000)
#: Seconds in which everything is released; a usual run shares the machine with other processes.
WITHIN_S = 10.0 if FULL else 30.0


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", FACES)
def test_memory_threads_and_descriptors_come_back(face: str, tmp_path: Path) -> None:
    for url in ("memory://", f"sqlite://{tmp_path}/locks.db"):
        given = url, face, HOLDS, WITHIN_S
        with Subject("tests.torture.memory:measures", *given) as one:
            found = one.hear(110 if HOLDS < 10_000 else 1000)
        print(found)
        assert found["back"] is True
        assert found["holds"] == HOLDS
        assert found["back_after_s"] <= WITHIN_S + 2


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_forgotten_clients_close_their_connections_while_their_loop_runs(
    url: str, redis_url: str
) -> None:
    face = FACES["aio"]

    async def forget(store: str) -> int:
        before = fds()
        for number in range(60):
            hold = await face.client(store).lock(f"fds-{number}").acquire()
            await hold.release()
            del hold
        for _ in range(200):
            gc.collect()
            if fds() <= before + 4:
                break
            await face.sleep(0.05)
        return fds() - before

    for store in (url, redis_url, f"{redis_url}?protocol=2"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are warnings that they weren't closed
            assert face.run(lambda store=store: forget(store), 60.0) <= 4, store  # type: ignore[misc]
