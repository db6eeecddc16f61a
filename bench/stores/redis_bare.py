"""The floors: the commands of the plainest lock on bare connections, and a bare wake-up.

SET NX PX takes it, a compare-and-delete by EVALSHA frees it: no order, no waiting, no renewal, no
fence. Everything is packed beforehand, and replies are compared as bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..servers import HOST, Wire, command, redis_port
from ..servertime import COMPARE_AND_DELETE
from .ours import own_name

_SHA = hashlib.sha1(COMPARE_AND_DELETE.encode(), usedforsecurity=False).hexdigest().encode()
_LOAD = command(b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.encode())
_TTL_MS = b"60000"
_TAKEN, _FREED, _REFUSED = b"+OK\r\n", b":1\r\n", b"$-1\r\n"
#: More than any of the replies.
_ROOM = 64


def _packed(name: str) -> tuple[bytes, bytes]:
    """What takes this name, and what frees it."""
    key, token = name.encode(), secrets.token_hex(16).encode()
    return (
        command(b"SET", key, token, b"NX", b"PX", _TTL_MS),
        command(b"EVALSHA", _SHA, b"1", key, token),
    )


class Unlike(Exception):
    """The server's reply is another one than the floor reckons with."""


class Bare:
    """Both commands on a blocking socket."""

    def __init__(self, place: Path) -> None:
        self._wire = Wire(redis_port())
        self._wire.socket.settimeout(None)
        self._wire.ask(b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.encode())
        self._wire.line()
        self._take, self._free = _packed(own_name(place))

    def _ask(self, packed: bytes, wanted: bytes) -> None:
        socket = self._wire.socket
        socket.sendall(packed)
        said = socket.recv(_ROOM)
        if said != wanted:
            raise Unlike(said)

    async def take(self) -> None:
        self._ask(self._take, _TAKEN)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        self._ask(self._free, _FREED)

    async def close(self) -> None:
        self._wire.close()

    def pair(self) -> Callable[[], object]:
        socket = self._wire.socket
        send, receive, take, free = socket.sendall, socket.recv, self._take, self._free

        def pair() -> None:
            send(take)
            if receive(_ROOM) != _TAKEN:
                raise Unlike
            send(free)
            if receive(_ROOM) != _FREED:
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
        """The sockets end with the process."""


class BareStreams:
    """Both commands on asyncio's streams."""

    def __init__(self, place: Path) -> None:
        self._take, self._free = _packed(own_name(place))
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            reader, writer = await asyncio.open_connection(HOST, redis_port())
            writer.write(_LOAD)
            await reader.readline()
            await reader.readline()
            self._streams = reader, writer
        return self._streams

    async def _ask(self, packed: bytes, wanted: bytes) -> None:
        reader, writer = await self._open()
        writer.write(packed)
        said = await reader.read(_ROOM)
        if said != wanted:
            raise Unlike(said)

    async def take(self) -> None:
        await self._ask(self._take, _TAKEN)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        await self._ask(self._free, _FREED)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()

    def pair(self) -> Callable[[], object]:
        take, free, opened = self._take, self._free, self._open

        async def pair() -> None:
            reader, writer = self._streams or await opened()
            writer.write(take)
            if await reader.read(_ROOM) != _TAKEN:
                raise Unlike
            writer.write(free)
            if await reader.read(_ROOM) != _FREED:
                raise Unlike

        return pair


class Baton:
    """No lock, but the least that wakes another process by way of Redis: a bare PUBLISH.

    Who comes second subscribes; who frees it publishes, and so passes it on.
    """

    def __init__(self, place: Path) -> None:
        self._ask, self._ear = Wire(redis_port()), Wire(redis_port())
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
