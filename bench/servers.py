"""A Redis of the run's own: started on a free port of the loopback, and ended with the run.

Readings are taken in other processes, some of them started anew. So its address stands in the
environment, where all of them find it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Self

from . import machine

#: The variable with the address of the server of this run.
ADDRESS = "HOLDFAST_BENCH_REDIS"
#: Another program in its place, Valkey for example: a path.
PROGRAM = "REDIS_SERVER"
HOST = "127.0.0.1"
_TRIES, _READY_S = 5, 10.0


class Absent(Exception):
    """The program that an arena needs isn't there."""


def redis_url(_place: Path | None = None) -> str:
    """The address of the server of this run; all folders share it."""
    return os.environ[ADDRESS]


def redis_port() -> int:
    """Its port."""
    return int(redis_url().rpartition(":")[2].partition("/")[0])


@contextlib.contextmanager
def redis_server() -> Generator[str]:
    """Start it; yields what it is, in words. It writes nothing to the disk."""
    wanted = os.environ.get(PROGRAM) or "redis-server"
    program = shutil.which(wanted)
    if program is None:
        raise Absent(f"no {wanted} on the PATH; ./dev test installs it where it may")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-redis-") as folder:
        server, port = _started(program, Path(folder))
        before = os.environ.get(ADDRESS, "")
        os.environ[ADDRESS] = f"redis://{HOST}:{port}/0"
        machine.companions.add(server.pid)
        try:
            yield f"{_version(program)} on the loopback, which writes nothing to disk"
        finally:
            machine.companions.discard(server.pid)
            os.environ[ADDRESS] = before
            server.kill()
            server.wait()


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"^(\w+) server v=([0-9.]+)", said.stdout)
    return f"{found[1]} {found[2]}" if found else said.stdout.strip()


def _started(program: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server that answers, and its port; somebody may take the port before it does."""
    for _ in range(_TRIES):
        port = _free_port()
        server = _launched(program, folder, port)
        end = time.monotonic() + _READY_S
        while server.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), Wire(port) as wire:
                if wire.ask(b"PING") == b"+PONG":
                    return server, port
            time.sleep(0.005)
        server.kill()
        server.wait()
    raise Absent(f"{program} does not start: {(folder / 'log').read_text(errors='replace')[-500:]}")


def _launched(program: str, folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [program, "--bind", HOST, "--port", str(port), "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
    # The kernel ends it with us, whatever becomes of us.
    with_us = shutil.which("setpriv")
    if with_us:
        command = [with_us, "--pdeathsig", "KILL", *command]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port


def command(*words: bytes) -> bytes:
    r"""A whole command, as it goes over the wire.

    >>> command(b"GET", b"a")
    b'*2\r\n$3\r\nGET\r\n$1\r\na\r\n'
    """
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


class Wire:
    """A bare connection: commands out, lines in. For what is counted, and for the floors."""

    def __init__(self, port: int, within: float = 30.0) -> None:
        self.socket = socket.create_connection((HOST, port), within)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, *words: bytes) -> bytes:
        """Send one command; the first line of the reply."""
        self.socket.sendall(command(*words))
        return self.line()

    def text(self, *words: bytes) -> str:
        """Send one command whose reply is a text."""
        head = self.ask(*words)
        assert head.startswith(b"$"), head
        wanted = int(head[1:]) + 2
        while len(self._rest) < wanted:
            self._more()
        found, self._rest = self._rest[: wanted - 2], self._rest[wanted:]
        return found.decode()

    def line(self) -> bytes:
        """The next line, without its end."""
        while b"\r\n" not in self._rest:
            self._more()
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def lines(self, count: int) -> Sequence[bytes]:
        """So many lines."""
        return [self.line() for _ in range(count)]

    def _more(self) -> None:
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError("the server closed the connection")
        self._rest += got

    def close(self) -> None:
        """End it."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connections() -> int:
    """How many connections the server has, without the one that asks."""
    with Wire(redis_port()) as wire:
        said = wire.text(b"INFO", b"clients")
    return int(said.partition("connected_clients:")[2].split()[0]) - 1


class Monitor:
    """Counts the commands that clients send, and those that scripts carry out (MONITOR)."""

    def __init__(self) -> None:
        self._watch, self._mark = Wire(redis_port()), Wire(redis_port())
        self._watch.ask(b"MONITOR")

    def seen(self) -> tuple[int, int]:
        """Since it was asked last: sent by clients; carried out by scripts."""
        mark = os.urandom(8).hex().encode()
        self._mark.ask(b"ECHO", mark)
        sent = scripted = 0
        while mark not in (line := self._watch.line()):
            if b" lua] " in line[:64]:
                scripted += 1
            else:
                sent += 1
        self._mark.line()  # the mark itself, which follows the length of the reply
        return sent, scripted

    def close(self) -> None:
        """End it."""
        self._watch.close()
        self._mark.close()
