"""Programs that a test starts and ends itself. It ends no other process, and leaves none behind.

A started program is ended by its process id. The kernel kills it when the thread that started it
ends for any reason. So a test must start programs from the main thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast.testing.surroundings import surroundings

#: Maximum seconds of a wait.
SOON_S = 20.0
#: Ports below the range from which the kernel assigns ports, and with room for a port + 10,000. So
#: a free port stays free while its server restarts.
PORTS = range(12_000, 22_000)
#: A file with the ports that were assigned recently to any process, and the times. Until a server
#: listens at its port, nothing else shows that the port is taken. The file has at most half of all
#: ports.
GIVEN = Path(tempfile.gettempdir()) / f"holdfast-test-ports-{os.getuid()}"
GIVEN_S, GIVEN_MAX = 600.0, len(PORTS) // 2
_giving = threading.Lock()
#: Additional environment variables of started programs: see `clock.Clock.worn`.
ENVIRONMENT: dict[str, str] = {}
#: A file system in memory. The test servers use it if it has ``ROOM`` bytes of space and the
#: machine has ``AVAILABLE`` bytes of memory.
MEMORY, ROOM, AVAILABLE = "/dev/shm", 2 << 30, 8 << 30


def in_memory() -> str | None:
    """Return a folder in memory for servers if there is enough room, otherwise None.

    A busy disk delays a server for seconds, even if no client waits for the written data. Data in
    this folder also outlives the end of the server.
    """
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        (free,) = [int(one.split()[1]) << 10 for one in lines if one.startswith("MemAvailable:")]
        fits = free >= AVAILABLE and shutil.disk_usage(MEMORY).free >= ROOM
    except (OSError, ValueError):
        return None
    return MEMORY if fits and os.access(MEMORY, os.W_OK) else None


def until(true: Callable[[], Any], what: str, seconds: float = SOON_S) -> Any:
    """Wait until ``true`` returns a true value, and return it; after the time limit, fail."""
    begun = time.monotonic()
    end = begun + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"after {seconds:g} s still not: {what}"
        # A check can be expensive, so checks become rarer during the wait.
        time.sleep(min(0.1, max(0.002, (time.monotonic() - begun) / 50)))
    return found


def need(*programs: str) -> str:
    """The path of the first program that exists. Without any: skipped on a laptop, failed in CI."""
    for program in programs:
        if found := shutil.which(program):
            return found
    missing = f"no {' or '.join(programs)} on the PATH; ./dev test installs it where it may"
    if os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@functools.cache
def _user() -> pwd.struct_passwd:
    """The user that runs servers which refuse to run as root."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise LookupError("this machine has neither the user postgres nor `nobody`")


def unprivileged() -> list[str]:
    """The words before a command that keep it from running as root."""
    if os.geteuid():
        return []
    user = _user()
    # The last option is repeated here, because the kernel drops it when the user changes.
    return [
        *(need("setpriv"), f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"),
        *("--clear-groups", "--pdeathsig=KILL"),
    ]


def give(path: Path) -> None:
    """Give this path to the user that runs the server."""
    if not os.geteuid():
        os.chown(path, _user().pw_uid, _user().pw_gid)


def new_folder(kind: str) -> Path:
    """A new folder of the user that runs the server; the caller removes it."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{kind}-", dir=in_memory()))
    give(folder)
    return folder


def free_port() -> int:
    """A port of the loopback at which no program listens, nor at the port 10,000 above.

    No other caller gets the same port for a while.
    """
    chance = random.SystemRandom()
    with _giving, open(GIVEN, "a+", encoding="ascii") as notes:
        fcntl.lockf(notes, fcntl.LOCK_EX)
        notes.seek(0)
        lately = [line.split() for line in notes]
        now = time.time()
        given = {int(port): float(at) for port, at in lately if 0 <= now - float(at) < GIVEN_S}
        port = chance.choice(PORTS)
        while port in given or not all(_is_free(one) for one in (port, port + 10_000)):
            port = chance.choice(PORTS)
        kept = sorted({**given, port: now}.items(), key=lambda one: one[1])[-GIVEN_MAX:]
        notes.truncate(0)
        notes.write("".join(f"{one} {at}\n" for one, at in kept))
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Ended:
    """Something that ``close`` ends; the end of its ``with`` block closes it."""

    def close(self) -> None:
        """End it, and leave nothing of it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Program(Ended):
    """A program that runs in a private folder and writes its output to the file ``log`` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: The environment is kept for restarts.
        self._environment = dict(ENVIRONMENT)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        try:
            return (self.folder / "log").read_text(errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def launch(self, command: Sequence[str], ready: Callable[[], bool]) -> None:
        """Start it, and wait until it is ready; if it never is, the error contains its output."""
        assert not self.runs, "it runs already"
        # The kernel ends the program together with the thread that started it.
        assert threading.current_thread() is threading.main_thread(), "start it in the main thread"
        die_with_us = shutil.which("setpriv")
        if die_with_us:
            command = [die_with_us, "--pdeathsig", "KILL", *command]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=surroundings(**self._environment),
                start_new_session=True,
            )
        end = time.monotonic() + SOON_S
        while not ready():
            assert self.runs, f"{command[-2:]} ended at once:\n{self.log}"
            assert time.monotonic() < end, f"{command[-2:]} isn't ready:\n{self.log}"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop it (SIGSTOP), and return when all its threads are stopped."""
        self.signal(signal.SIGSTOP)
        until(lambda: self._states() <= {"T"}, f"process {self.pid} is stopped")

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it (SIGKILL), stopped or not, and wait for its end. Do nothing if it has ended."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        self.go_on()
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Kill it, and remove what it has outside its folder."""
        self.kill()

    def _end(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            self._process.wait(SOON_S)

    def _states(self) -> set[str]:
        found = set()
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        return found
