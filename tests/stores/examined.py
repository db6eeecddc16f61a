"""The findings of `doctor`, and a proxy between it and a server."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from typing import Self

from holdfast.core.finding import Finding, Level
from holdfast.url import find
from tests.servers.redis_server import RedisServer

#: Settings of a Redis in which `doctor` finds no problem.
KEPT = ("appendonly yes",)


def examined(url: str) -> dict[str, list[Finding]]:
    """All findings, by subject."""
    module, parsed = find(url)
    found: dict[str, list[Finding]] = {}
    for finding in module.examine(parsed):  # type: ignore[attr-defined]
        found.setdefault(finding.subject, []).append(finding)
    return found


def one(url: str, subject: str) -> Finding:
    """The finding of one subject, which must have a single one."""
    (finding,) = examined(url)[subject]
    return finding


def worst(url: str) -> dict[str, Finding]:
    """The worst finding of each subject."""
    grave = list(Level).index
    return {
        subject: max(found, key=lambda one: grave(one.level))
        for subject, found in examined(url).items()
    }


def troubles(url: str) -> dict[str, Level]:
    """The findings that are not OK, with their level."""
    return {
        subject: finding.level
        for subject, list_ in examined(url).items()
        for finding in list_
        if finding.level is not Level.OK
    }


class Between:
    """A proxy that connects each client to the next of some servers, and changes replies."""

    def __init__(
        self, *servers: RedisServer, change: Callable[[bytes], bytes] = lambda said: said
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._change = change
        self._turns = itertools.cycle(servers)
        self._made = [self._listener]
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", next(self._turns).port))
                self._made += client, server
                for way in ((client, server, bytes), (server, client, self._change)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=way))
                    self._threads[-1].start()

    @staticmethod
    def _pass_on(
        source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                sink.sendall(change(data))
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for made in self._made:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for made in self._made:
            made.close()
