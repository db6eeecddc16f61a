"""The floors: ready bytes on bare connections, and a bare wake-up.

Two floors send the commands of the plainest lock: SET NX PX, and a compare-and-delete by EVALSHA.
That lock has no order, no wait, no renewal and no fence. Two floors send the requests of holdfast,
but do nothing else. All requests are packed beforehand, and only the beginning of a reply is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.model import Claim, Kind, Leave, Spec
from holdfast.stores.redis.keys import bucket_of, recovery_of
from holdfast.stores.redis.library import JOIN, LEAVE, load_command
from holdfast.stores.redis.scripts import Requests, ending

from ..servers import HOST, Wire, command, port
from ..servertime import COMPARE_AND_DELETE, OWNER, PREFIX
from .ours import own_name

_SHA = hashlib.sha1(COMPARE_AND_DELETE.encode(), usedforsecurity=False).hexdigest().encode()
_TTL_S = 60.0
_TTL_MS = b"%d" % (1000 * _TTL_S)
#: Maximum bytes of a reply; more than any reply has.
_ROOM = 64


class Bytes(NamedTuple):
    """The requests of a floor: ``first`` at the start, ``take``, ``free``; and expected replies.

    Each request of ``first`` has the number of lines of its reply. ``taken`` and ``freed`` are the
    beginnings of the replies to ``take`` and ``free``."""

    first: Sequence[tuple[bytes, int]]
    take: bytes
    free: bytes
    taken: bytes
    freed: bytes


def plainest(name: str) -> Bytes:
    """Return the requests of the plainest lock."""
    key, token = name.encode(), secrets.token_hex(16).encode()
    return Bytes(
        [(command(b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.encode()), 2)],
        command(b"SET", key, token, b"NX", b"PX", _TTL_MS),
        command(b"EVALSHA", _SHA, b"1", key, token),
        b"+OK",
        b":1",
    )


def same(name: str) -> Bytes:
    """Return the requests that holdfast sends."""
    with Wire(port()) as wire:
        said = wire.text(b"INFO", b"server")
    run_id = said.partition("run_id:")[2].split()[0].encode()
    ask = Requests(PREFIX)
    claim = Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, _TTL_S, OWNER))
    record = command(b"SET", recovery_of(PREFIX, bucket_of(name.encode())), run_id)
    return Bytes(
        [(record, 1), *((load_command(script), 2) for script in (JOIN, LEAVE))],
        ask.join(claim, True).head + ending(run_id),
        ask.leave(Leave(name, claim.id, 0)).head + ending(run_id),
        b":",
        b":1",
    )


class Unlike(Exception):
    """The server's reply is not the expected one."""


class Bare:
    """Both commands, ``take`` and ``free``, on a blocking socket."""

    def __init__(self, place: Path, of: Callable[[str], Bytes] = plainest) -> None:
        self._of = of(own_name(place))
        self._wire = Wire(port())
        self._wire.socket.settimeout(None)
        for packed, lines in self._of.first:
            self._wire.socket.sendall(packed)
            self._wire.lines(lines)

    async def take(self) -> None:
        self._ask(self._of.take, self._of.taken)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        self._ask(self._of.free, self._of.freed)

    def _ask(self, packed: bytes, wanted: bytes) -> None:
        socket = self._wire.socket
        socket.sendall(packed)
        said = socket.recv(_ROOM)
        if not said.startswith(wanted):
            raise Unlike(said)

    async def close(self) -> None:
        self._wire.close()

    def pair(self) -> Callable[[], object]:
        socket = self._wire.socket
        send, receive = socket.sendall, socket.recv
        _, take, free, taken, freed = self._of

        def pair() -> None:
            send(take)
            if not receive(_ROOM).startswith(taken):
                raise Unlike
            send(free)
            if not receive(_ROOM).startswith(freed):
                raise Unlike

        return pair


class BareThreads:
    """A blocking socket for each thread."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        del inside
        return Bare(self._place / name).pair()

    async def close(self) -> None:
        """Do nothing: the sockets end with the process."""


class BareStreams:
    """Both commands, ``take`` and ``free``, on asyncio's streams."""

    def __init__(self, place: Path, of: Callable[[str], Bytes] = plainest) -> None:
        self._of = of(own_name(place))
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            reader, writer = await asyncio.open_connection(HOST, port())
            for packed, lines in self._of.first:
                writer.write(packed)
                for _ in range(lines):
                    await reader.readline()
            self._streams = reader, writer
        return self._streams

    async def _ask(self, packed: bytes, wanted: bytes) -> None:
        reader, writer = await self._open()
        writer.write(packed)
        said = await reader.read(_ROOM)
        if not said.startswith(wanted):
            raise Unlike(said)

    async def take(self) -> None:
        await self._ask(self._of.take, self._of.taken)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        await self._ask(self._of.free, self._of.freed)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()

    def pair(self) -> Callable[[], object]:
        opened = self._open
        _, take, free, taken, freed = self._of

        async def pair() -> None:
            reader, writer = self._streams or await opened()
            writer.write(take)
            if not (await reader.read(_ROOM)).startswith(taken):
                raise Unlike
            writer.write(free)
            if not (await reader.read(_ROOM)).startswith(freed):
                raise Unlike

        return pair


class Baton:
    """The floor for a hand-off, no lock: one process wakes another by a bare PUBLISH.

    The second process to ``take`` subscribes and waits; the first one publishes in ``free``.
    """

    def __init__(self, place: Path) -> None:
        self._ask, self._ear = Wire(port()), Wire(port())
        self._key = own_name(place).encode()
        self._publish = command(b"PUBLISH", self._key, b"1")
        self._listens = False

    async def take(self) -> None:
        if self._ask.ask(b"SET", self._key, b"1", b"NX", b"PX", _TTL_MS) == b"+OK":
            return
        self._ear.ask(b"SUBSCRIBE", self._key)
        self._ear.lines(5)
        self._listens = True
        self._ear.lines(7)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor has no time-out")

    async def free(self) -> None:
        if self._listens:
            self._ear.ask(b"UNSUBSCRIBE", self._key)
            self._ear.lines(5)
            self._listens = False
        self._ask.socket.sendall(self._publish)
        if self._ask.line() == b":0":
            self._ask.ask(b"DEL", self._key)

    async def close(self) -> None:
        self._ask.close()
        self._ear.close()

    def pair(self) -> Callable[[], object]:
        raise RuntimeError("the floor is for hand-offs only")
