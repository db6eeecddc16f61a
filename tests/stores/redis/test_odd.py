"""Peers that send odd or endless replies, or that aren't Redis: one clear error, in time.

The replies are drawn at random from the kinds that RESP allows. Each verb gets some of them, on
both faces.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.blocking import resp
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import dice
from tests.torture.scale import seed_of, times

lag.watch()

#: The rounds of each verb on each face.
ROUNDS = times(4, 1)
#: Longer than each time-out below plus the cleanup of an acquire.
LATE_S = 6.0
#: The most that a test takes.
LONG_S = 90.0
#: A flood of bytes ends after these seconds; a reader that reads to its end would be late.
FLOOD_S = 10.0
MEMORY = 1500 << 20
HELLO = b"%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n"
INFO = b"run_id:%b\r\nrole:master\r\nsecond_repl_offset:-1\r\n" % (b"a" * 40)

#: Replies that don't end or are damaged: the bytes that are sent once, and the repeated bytes.
ENDLESS = {
    "one long string": (b"$999999999999\r\n", b"x" * 65536),
    "one long line": (b"+", b"x" * 65536),
    "a long list": (b"*100000000\r\n", b":1\r\n" * 10_000),
    "lists within lists": (b"", b"*1\r\n" * 10_000),
    "pushes": (b"", b">2\r\n+odd\r\n+push\r\n" * 3000),
    "attributes": (b"", b"|1\r\n+a\r\n+b\r\n" * 3000),
    "lines": (b"", b"+OK\r\n" * 10_000),
}
#: Replies that only another program gives to the greeting. redis-py searches the reply OK for the
#: parts of a greeting.
NO_REDIS = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n" * 20]
GREETINGS = [b"+OK\r\n", b"_\r\n", b":3\r\n", b"*0\r\n", b"$-1\r\n", *NO_REDIS]


class Peer:
    """A server that completes the handshake, and then sends the replies of the test."""

    def __init__(self, answer: Callable[[bytes], bytes], hello: bytes = HELLO) -> None:
        self.answer, self.hello = answer, hello
        self.more = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._over = True
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError), one:
            one.settimeout(20)
            while not self._over and (asked := one.recv(65536)):
                parser = resp.Parser()
                parser.feed(asked, 0, len(asked))
                while (words := parser.gets()) is not resp.NOTHING:
                    one.sendall(self._said(words))
                    end = boottime() + FLOOD_S
                    while self.more and words[0] == b"EVALSHA" and not self._over:
                        one.sendall(self.more)
                        if boottime() > end:
                            break

    def _said(self, words: Any) -> bytes:
        if words[0] == b"HELLO":
            return self.hello
        if words[0] == b"INFO":
            return b"$%d\r\n%b\r\n" % (len(INFO), INFO)
        if words[0] in (b"CLIENT", b"SELECT", b"SCRIPT"):
            return b"+OK\r\n"
        return self.answer(words)


@contextlib.contextmanager
def peer(answer: Callable[[bytes], bytes], **more: Any) -> Iterator[Peer]:
    one = Peer(answer, **more)
    try:
        yield one
    finally:
        one.close()


def drawn(chance: random.Random, depth: int = 0) -> bytes:
    """Return a random reply that the protocol allows, or nearly allows."""
    kinds = "+-:$_,#(!=" if depth > 3 else "+-:$_,#(!=*%~>*%0"
    kind = chance.choice(kinds)
    text = chance.choice([b"", b"x", b"OK", b"17", b"-1", b"holdfast", b"\xff\xfe", b"inf"])
    if kind in "+-,(":
        return kind.encode() + text + b"\r\n"
    if kind == ":":
        return b":%d\r\n" % chance.choice([-1, 0, 1, 2, 6, 17, 1 << 62, -(1 << 63)])
    if kind in "$!=":
        return b"%b%d\r\n%b\r\n" % (kind.encode(), len(text), text)
    if kind == "_":
        return b"_\r\n"
    if kind == "#":
        return chance.choice([b"#t\r\n", b"#f\r\n"])
    if kind == "0":
        return chance.choice([b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b"*1000000000\r\n", b"?\r\n"])
    count = chance.randrange(4)
    many = count * (2 if kind == "%" else 1)
    return b"%b%d\r\n" % (kind.encode(), count) + b"".join(
        drawn(chance, depth + 1) for _ in range(many)
    )


async def compute(*_: str) -> str:
    return "value"


def _guard(client: Any) -> Any:
    return client.guard("g", ttl=60, lease=1, timeout=0.05, on_store_error="compute")


VERBS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "try": lambda client: client.lock("x").acquire(blocking=False),
    "wait": lambda client: client.lock("x").acquire(timeout=0.05),
    "reader": lambda client: client.rwlock("x").read.acquire(timeout=0.05),
    "all": lambda client: client.all("x", "y").acquire(timeout=0.05),
    "inspect": lambda client: client.inspect("x", exact=True),
    "list": lambda client: client.inspect(""),
    "resize": lambda client: client.semaphore("x", 2).resize(3),
    "put": lambda client: client.queue("q").put("job"),
    "take": lambda client: client.queue("q").take(timeout=0),
    "queues": lambda client: client.queues(),
    "jobs": lambda client: client.queue("q").jobs(),
    "value": lambda client: _guard(client).get(compute),
    "values": lambda client: _guard(client).get_many(["a", "b"], compute),
    "invalidate": lambda client: _guard(client).invalidate("a", "b"),
    "entry": lambda client: _guard(client).inspect(),
    "guards": lambda client: client.guards(),
}


@pytest.mark.usual(6)
@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("verb", VERBS)
def test_an_odd_reply_is_one_clear_error(verb: str, face: Face) -> None:
    chance = dice(f"odd replies to {verb}", seed_of("odd replies"))

    async def main() -> None:
        for _ in range(ROUNDS):
            client = face.client(one.url)
            with contextlib.suppress(HoldfastError):  # and nothing else is ever raised
                await VERBS[verb](client)
            with contextlib.suppress(HoldfastError):
                await client.close()

    with peer(lambda _: drawn(chance)) as one:
        face.run(main, LONG_S)


@pytest.mark.usual(3)
@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("flood", ENDLESS)
def test_an_endless_reply_ends_with_its_time(flood: str, face: Face) -> None:
    first, more = ENDLESS[flood]

    async def main() -> None:
        async with face.client(one.url) as client:
            begun = boottime()
            with pytest.raises(HoldfastError):
                await client.lock("x").acquire(timeout=1)
            assert boottime() - begun - lag.since(begun) < LATE_S

    with peer(lambda _: first) as one:
        one.more = more
        face.run(main, LONG_S)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 < MEMORY + _before


def test_a_stream_that_is_faster_than_its_reader_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a reader that finds more bytes each time that it reads
    monkeypatch.setattr("holdfast.stores.redis.blocking.link._BYTES", 24)
    first, more = ENDLESS["pushes"]
    with peer(lambda _: first) as one:
        one.more = more
        client = Client(one.url)
        begun = boottime()
        with pytest.raises(HoldfastError):
            client.lock("x").acquire(timeout=1)
        assert boottime() - begun < FLOOD_S / 2 + lag.most(begun, FLOOD_S)
    client.close()


_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("face", FACES.values(), ids=["by_thread", "by_task"])
def test_a_reply_that_becomes_too_long_is_refused_before_its_time_out(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a limit for one reply, and a peer that exceeds it and then falls silent
    for module in ("blocking.link", "aio.wire"):
        monkeypatch.setattr(f"holdfast.stores.redis.{module}.REPLY_BYTES_MAX", 1 << 20)

    async def main() -> None:
        async with face.client(one.url) as client:
            # Then the limit ends the call, and not the time-out
            with pytest.raises(
                HoldfastError, match=r"The last failure was: .*a reply of more than"
            ):
                await client.lock("x").acquire(timeout=2)

    with peer(lambda _: b"+" + b"x" * (2 << 20)) as one:
        face.run(main, LONG_S)


@pytest.mark.parametrize("hello", GREETINGS, ids=lambda hello: str(hello[:8]))
def test_something_else_that_answers_the_greeting_is_named(hello: bytes, face: Face) -> None:
    async def main() -> None:
        async with face.client(one.url) as client:
            with pytest.raises(HoldfastError) as told:
                await client.lock("x").acquire(timeout=1)
            named = isinstance(told.value, ConfigError) and "isn't a Redis" in str(told.value)
            assert named or hello not in NO_REDIS or face.name == "aio"
            assert named or "object has no attribute" not in str(told.value)

    with peer(lambda _: b"+OK\r\n", hello=hello) as one:
        face.run(main, LONG_S)


#: Another program: the number of lines in its reply to each request; 0: lines without a request.
PROGRAM = """
import socket, sys, threading
many = int(sys.argv[1])
def serve(one):
    try:
        while heard := one.recv(65536) if many else b"*" * 10_000:
            one.sendall(b"+OK\\r\\n" * heard.count(b"*") * (many or 1))
    except OSError:
        pass
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""


@pytest.mark.parametrize("query", ["", "?protocol=2", "?recovery=off"])
@pytest.mark.parametrize("many", ["1", "1000", "0"], ids=["one", "many", "endless"])
def test_a_program_that_answers_ok_to_everything_is_named(
    many: str, query: str, face: Face
) -> None:
    command = [sys.executable, "-c", PROGRAM, many]
    told = r"isn't a Redis"
    if many == "0":  # the flood can also fill a buffer, or come before a request
        told += "|took no connection|no request (is under way|expects)|did not answer a INFO"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = f"redis://127.0.0.1:{int(program.stdout.readline())}{query}"

        async def main() -> None:
            async with face.client(url) as client:
                begun = boottime()
                with pytest.raises(HoldfastError, match=told):
                    await client.lock("x").acquire(timeout=1)
                assert boottime() - begun - lag.since(begun) < LATE_S

        try:
            face.run(main, LONG_S)
        finally:
            program.kill()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 < MEMORY + _before
