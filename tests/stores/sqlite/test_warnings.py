"""The embedded store under ``-W error``, with every Python version on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

VERSIONS = Path.home() / ".pyenv/versions"
SOURCE = Path(__file__).parents[3] / "src"
SCRIPT = """
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


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_no_verb_warns_where_warnings_are_errors(version: str, tmp_path: Path) -> None:
    found = sorted(VERSIONS.glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} in {VERSIONS}")
    run = subprocess.run(
        [str(found[-1]), "-W", "error", "-c", SCRIPT, f"sqlite://{tmp_path}/locks.db"],
        env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr[-3000:]
    assert "Warning" not in run.stderr
