"""An interrupted or forgotten client leaves no connection open, with every Python version here."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.stores.sqlite.blocking.closing import Closing
from tests.cli import world
from tests.fenced.process import Child
from tests.torture.scale import times

VERSIONS = Path.home() / ".pyenv/versions"
PATIENCE_S = 100.0
#: Python 3.13 warns when a finalizer has to close a connection; here every version does.
SCRIPT = """
import contextlib, gc, os, sqlite3, sys, time

said = []
sys.unraisablehook = lambda one: said.append(f"{one.exc_type.__name__}: {one.exc_value}")

class Told(sqlite3.Connection):
    def __del__(self):
        with contextlib.suppress(sqlite3.ProgrammingError):
            said.append(f"unclosed database, after {self.total_changes} changes")
            self.close()

connect, sqlite3.Connection = sqlite3.connect, Told
sqlite3.connect = lambda *given, **more: connect(*given, **{"factory": Told, **more})

from holdfast import Client
from holdfast.testing.faults import Strike, points

place, most = sys.argv[1], int(sys.argv[2])
ROOMS = "annex", "database", "values"
INSIDE = tuple(f"holdfast.stores.sqlite.blocking.{room}" for room in ROOMS)

def work(name):
    with Client(f"sqlite://{place}/{name}") as client:
        assert client.guard("g", ttl=60).get(lambda: "v") == "v"

def unclosed():
    gc.collect()
    return [one for one in said if "unclosed database" in one]

def opened():
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [one for one in found if one.rpartition("-values")[2] in ("", "-wal", "-shm")]

client = Client(f"sqlite://{place}/forgotten")
client.guard("g", ttl=60).get(lambda: "v")
del client
work("warm")
many = points(lambda: work("counted"), within=INSIDE)
assert many > 100, many
step = max(1, many // most)
for number in range(1 + os.getpid() % step, many + 1, step):
    strike = Strike(number, within=INSIDE)
    with contextlib.suppress(KeyboardInterrupt), strike:
        work(str(number))
    if found := unclosed():
        print(strike.where, *found, sep="|")
        said.clear()
# A thread that ends later may be the last one to know of a client.
end = time.monotonic() + 30
while opened() and time.monotonic() < end:
    time.sleep(0.01)
    gc.collect()
print("end", *unclosed(), *opened(), sep="|")
"""


#: A script that uses verbs of all products on both faces.
USES = """
import asyncio, sys
from holdfast import AsyncClient, Client

url = sys.argv[1]
with Client(url) as client, Client(url) as other:
    with client.lock("x", timeout=5), client.semaphore("s", 2, timeout=5):
        assert other.lock("x").acquire(blocking=False) is None
    with client.lock("n" * 400, timeout=5), client.all("a", "b", timeout=5):
        assert client.inspect("")
    queue = client.queue("q")
    queue.put({"a": 1}, group="g")
    with queue.taking(timeout=5) as job:
        assert job.payload == {"a": 1}
    guard = client.guard("g", ttl=60)
    assert guard.get(lambda: "v") == guard.get(lambda: "w") == "v"
    guard.invalidate()

async def main():
    async with AsyncClient(url) as client:
        async with client.lock("x", timeout=5):
            pass
        await client.queue("q").put(b"b")
        async with client.queue("q").taking(timeout=5):
            pass

asyncio.run(main())
print("done")
"""


def played(version: str, script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the script with this Python version, where warnings are errors."""
    found = [Path(sys.executable)]
    if version != "this":
        found = sorted(VERSIONS.glob(f"{version}.*/bin/python"))
        if not found:
            pytest.skip(f"no Python {version} in {VERSIONS}")
        if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
            pytest.skip("it is this one")
    return subprocess.run(
        [str(found[-1]), "-W", "error", "-c", script, *map(str, words)],
        env={"PYTHONPATH": str(world.ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * times(20, 1),
    )


each_version = pytest.mark.parametrize("version", ["this", "3.11", "3.12", "3.13", "3.14"])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="it looks into /proc")
@each_version
def test_neither_ctrl_c_nor_forgetting_leaves_a_connection_open(
    version: str, tmp_path: Path
) -> None:
    run = played(version, SCRIPT, tmp_path, times(1000, 15))
    assert run.stdout == "end\n", run.stderr[-3000:]
    assert run.returncode == 0, run.stderr[-3000:]


@each_version
def test_no_verb_warns_where_warnings_are_errors(version: str, url: str) -> None:
    run = played(version, USES, url)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr[-3000:]
    assert "Warning" not in run.stderr


def test_in_a_child_the_connection_of_its_parent_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    connections = [sqlite3.connect(path, factory=Closing)]
    connections[0].execute("CREATE TABLE t (x)")

    def opened() -> int:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(os.path.exists(one) and os.path.samefile(one, path) for one in links)

    def forgets(child: Child) -> None:
        connections.clear()
        gc.collect()
        child.say(opened())

    with Child(forgets) as child:
        assert child.hear() == "1"
        assert child.end() == 0
    connections.clear()
    gc.collect()
    assert opened() == 0


def test_a_connection_that_was_never_opened_is_forgotten_in_silence(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{tmp_path}/none?mode=rw", uri=True, factory=Closing)
    gc.collect()  # a message of this fails the test
