"""A process that was started with closed standard descriptors, and then becomes a daemon."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Client
from tests.cli import world

#: The daemon acquires and waits for locks, then puts /dev/null on its standard descriptors.
DAEMON = """
import os, sys, threading, time, traceback
from pathlib import Path
folder = Path(sys.argv[1])
try:
    from holdfast import Client
    from holdfast.fenced import FencedFile
    from holdfast.fenced.blocking import desk
    low = set()
    def look():
        for fd in range(3):
            try:
                low.add(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                pass
    # Before SQLite, which fills what is free with /dev/null.
    ledger = FencedFile(folder / "ledger", durable=False)
    with desk.writing(ledger._place, 10, False):
        look()
    client = Client(folder / "locks.db")
    held = client.lock("job").acquire(timeout=10)
    look()
    taken = client.lock("taken").acquire(timeout=10)
    other = Client(folder / "locks.db")
    def wait():
        other.lock("taken").acquire(timeout=20).release()
    waiting = threading.Thread(target=wait)
    waiting.start()
    while not any(len(line.claims) > 1 for line in client.inspect("taken")):
        time.sleep(0.01)
    look()
    taken.release()
    waiting.join()
    ledger.append(held, "x")
    if "os.close" in sys.argv[2]:
        for fd in range(3):
            try:
                os.close(fd)
            except OSError:
                pass
        again = Client(folder / "locks.db")
        again.lock("again").acquire(timeout=10).release()
        look()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        if fd != null:
            os.dup2(null, fd)
    said = "\\n".join(sorted(low - {os.devnull} - {one for one in low if "pipe:" in one}))
    if held.lost or not held.extend():
        said += "lost"
except BaseException:
    said = traceback.format_exc()
(folder / "new").write_text("low: " + said)
(folder / "new").replace(folder / "said")
while not (folder / "over").exists():
    time.sleep(0.01)
"""
CLOSED = [closed for number in range(1, 4) for closed in itertools.combinations(range(3), number)]


def daemon(folder: Path, closed: tuple[int, ...], also: str) -> subprocess.Popen[bytes]:
    """Start a daemon with these descriptors closed."""
    closing = " ".join(f"{fd}>&-" for fd in closed)
    return subprocess.Popen(
        ["sh", "-c", f'exec "$@" {closing}', "-", sys.executable, "-c", DAEMON, str(folder), also],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(world.ROOT / "src")},
    )


@pytest.mark.parametrize("also", ["started so", "os.close later"])
@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_daemon_that_replaces_its_standard_descriptors_loses_no_lock(
    tmp_path: Path, closed: tuple[int, ...], also: str
) -> None:
    process = daemon(tmp_path, closed, also)
    try:
        said = tmp_path / "said"
        while not said.exists():
            assert process.poll() is None, process.returncode
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        assert said.read_text() == "low: "
        with Client(tmp_path / "locks.db") as client:
            assert client.lock("job").acquire(blocking=False) is None
    finally:
        (tmp_path / "over").touch()
        process.wait(20)
