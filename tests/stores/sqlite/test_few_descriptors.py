"""A client that opens the store with too few descriptors gets an error and acquires nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Client, ConfigError
from holdfast.stores.sqlite.blocking import header
from holdfast.testing.surroundings import surroundings
from tests.cli import world

#: Limit of the spare descriptors that are tried; a client of each kind needs about twelve.
SPARE_MAX = 18
#: A script that opens the store repeatedly, each time with one more spare descriptor. Another
#: client holds a lock, a job and a value then.
NEWCOMER = """
import os, resource, sys
from holdfast import HoldfastError
from holdfast.testing.faces import FACES
url, face, spare_max = sys.argv[1], FACES[sys.argv[2]], int(sys.argv[3])

async def lock(client):
    return await client.lock("job").acquire(blocking=False)

async def job(client):
    return await client.queue("jobs").take(timeout=0)

async def value(client):
    return (await client.guard("value", ttl=60).inspect()).state == "missing"

async def attempt(work):
    client = face.client(url)
    try:
        return "TAKEN" if await work(client) else "busy"
    except HoldfastError as wrong:
        lacks = "Too many open files" in str(wrong)
        return type(wrong).__name__ if lacks else f"{type(wrong).__name__}: {wrong}"
    except BaseException as wrong:
        return "RAW " + repr(wrong)
    finally:
        await client.close()

async def main():
    for work in (lock, job, value):
        await attempt(work)  # whatever is imported is imported now
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(spare_max):
        for work in (lock, job, value):
            used = len(os.listdir("/proc/self/fd")) - 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
            try:
                said = await attempt(work)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            print(work.__name__, spare, said, flush=True)

face.run(main, 90.0)
"""


@pytest.mark.parametrize("face", ["sync", "aio"])
def test_a_client_with_too_few_descriptors_takes_nothing(face: str, tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    with Client(url) as client:
        # Given a lock, a delivery and a value of this client
        hold = client.lock("job", ttl=60).acquire()
        client.queue("jobs", ttl=60).put("one", group="g")
        job = client.queue("jobs", ttl=60).take(timeout=5)
        assert hold
        assert job
        guard = client.guard("value", ttl=60)
        assert guard.get(lambda: "ours") == "ours"
        # When another process opens the store with no spare descriptor, with one, with two...
        done = subprocess.run(
            [sys.executable, "-c", NEWCOMER, url, face, str(SPARE_MAX)],
            capture_output=True, text=True, timeout=100, check=False,
            env=surroundings(PYTHONPATH=str(world.ROOT / "src")),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        said = [line.split(" ", 2) for line in done.stdout.splitlines()]
        # Then it gets an error about descriptors, or finds them taken
        assert {how for _, _, how in said} <= {"busy", "StoreUnavailable"}, done.stdout
        assert "StoreUnavailable" in {how for _, spare, how in said if spare == "0"}
        assert [how for _, spare, how in said if int(spare) == SPARE_MAX - 1] == ["busy"] * 3
        # And this client still holds them
        assert hold.extend() > 0
        assert hold.release() is True
        assert job.ack() is True
        assert guard.get(lambda: "again") == "ours"


def test_a_client_without_a_boot_id_is_refused_where_others_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path / "locks.db") as client, client.lock("job", timeout=5) as hold:
        monkeypatch.setattr(header, "BOOT", str(tmp_path / "hidden"))
        with Client(tmp_path / "locks.db") as other, pytest.raises(ConfigError, match="hidden"):
            other.lock("job").acquire(blocking=False)
        monkeypatch.undo()
        assert hold.extend() > 0
