"""Starts the server of a run with `tests.servers`, on a free port of the loopback.

The server ends with the run. Other processes take the readings, and some of these are new
interpreters. So they get the server's address by an environment variable.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Self
from unittest import mock

from . import machine

#: The variable with the address of the server of this run.
ADDRESS = "HOLDFAST_BENCH_SERVER"
HOST = "127.0.0.1"


class Absent(Exception):
    """The server program that an arena needs can't be started."""


def url(_place: Path | None = None) -> str:
    """Return the address of the server of this run; it is the same for all folders."""
    return os.environ[ADDRESS]


def port() -> int:
    """Return the port of the server of this run."""
    return int(url().rpartition(":")[2].partition("/")[0])


@contextlib.contextmanager
def running(module: str, kind: str, *given: object, **options: object) -> Generator[Any]:
    """Start a server of `tests.servers` with these arguments; yield it.

    It writes its data to the disk, not to memory, because the disk is part of a durable server's
    cost.
    """
    pytest: Any = importlib.import_module("pytest")
    process = importlib.import_module("tests.servers.process")
    with contextlib.ExitStack() as ends:
        ends.enter_context(mock.patch.object(process, "MEMORY", tempfile.gettempdir()))
        make = getattr(importlib.import_module(f"tests.servers.{module}"), kind)
        try:
            server = ends.enter_context(make(*given, **options))
        except (pytest.skip.Exception, pytest.fail.Exception, AssertionError) as missing:
            raise Absent(str(missing)) from missing
        ends.enter_context(mock.patch.dict(os.environ, {ADDRESS: server.url}))
        ends.callback(machine.companions.discard, server.pid)
        machine.companions.add(server.pid)
        yield server


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """Make a temporary folder for a server."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as place:
        yield Path(place)


@contextlib.contextmanager
def redis_server() -> Generator[str]:
    """Start a Redis or Valkey that writes nothing to the disk; yield a text about it."""
    with folder() as place, running("redis_server", "RedisServer", place) as server:
        with server.client() as one:  # closed immediately, because suites count connections
            told = one.info("server")
        kin = "Valkey" if "valkey_version" in told else "Redis"
        version = told.get("valkey_version") or told["redis_version"]
        yield f"{kin} {version} on the loopback, which writes nothing to disk"


def command(*words: bytes) -> bytes:
    r"""Return a command as the bytes of a request.

    >>> command(b"GET", b"a")
    b'*2\r\n$3\r\nGET\r\n$1\r\na\r\n'
    """
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


class Wire:
    """A bare connection for the floors and for counts: it sends commands and reads lines."""

    def __init__(self, port: int, within: float = 30.0) -> None:
        self.socket = socket.create_connection((HOST, port), within)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, *words: bytes) -> bytes:
        """Send one command; return the first line of the reply."""
        self.socket.sendall(command(*words))
        return self.line()

    def text(self, *words: bytes) -> str:
        """Send one command whose reply is a text; return the text."""
        head = self.ask(*words)
        assert head.startswith(b"$"), head
        wanted = int(head[1:]) + 2
        while len(self._rest) < wanted:
            self._more()
        found, self._rest = self._rest[: wanted - 2], self._rest[wanted:]
        return found.decode()

    def line(self) -> bytes:
        """Return the next line, without its line end."""
        while b"\r\n" not in self._rest:
            self._more()
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def lines(self, count: int) -> Sequence[bytes]:
        """Return the next ``count`` lines."""
        return [self.line() for _ in range(count)]

    def _more(self) -> None:
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError("the server closed the connection")
        self._rest += got

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connections() -> int:
    """Return the number of the server's connections, without the one of this request."""
    with Wire(port()) as wire:
        said = wire.text(b"INFO", b"clients")
    return int(said.partition("connected_clients:")[2].split()[0]) - 1


class Monitor:
    """Counts the commands of clients, and the commands that scripts carry out (MONITOR)."""

    def __init__(self) -> None:
        self._watch, self._mark = Wire(port()), Wire(port())
        self._watch.ask(b"MONITOR")

    def seen(self) -> tuple[int, int]:
        """Return two numbers of commands since the last call: sent by clients, run by scripts."""
        mark = os.urandom(8).hex().encode()
        self._mark.ask(b"ECHO", mark)
        sent = scripted = 0
        while mark not in (line := self._watch.line()):
            if b" lua] " in line[:64]:
                scripted += 1
            else:
                sent += 1
        self._mark.line()  # the text of the reply; `ask` has returned the line with its length
        return sent, scripted

    def close(self) -> None:
        """Close the connections."""
        self._watch.close()
        self._mark.close()
