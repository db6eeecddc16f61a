"""The proxy between a client and a real Redis: it parses commands, replies and pushes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from holdfast.testing.faults import (
    DROP_PUSH,
    DROP_REPLY,
    DROP_REQUEST,
    RESP,
    Proxy,
)
from holdfast.testing.faults.wire import resp
from tests.servers.redis_server import RedisServer

#: Seconds that a client waits for a reply that is lost. Every other client waits ``LONG_S``, so
#: that it tolerates a server that pauses.
SHORT_S = 0.5
LONG_S = 10.0
Connect = Callable[..., redis.Redis]


@pytest.fixture
def proxy(shared_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(shared_redis.host, shared_redis.port, RESP) as one:
        yield one


@pytest.fixture(params=[2, 3])
def protocol(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def connect(proxy: Proxy, protocol: int) -> Iterator[Connect]:
    """Makes clients that send each request once; ``socket_timeout`` sets the wait for a reply."""
    with contextlib.ExitStack() as ends:

        def make(**options: Any) -> redis.Redis:
            options = {"protocol": protocol, "retry": None, "socket_timeout": LONG_S, **options}
            client = redis.Redis(port=proxy.port, single_connection_client=True, **options)
            ends.callback(client.close)
            assert client.ping()
            return client

        yield make


REPLIES = {
    "status": b"+OK\r\n",
    "error": b"-ERR no\r\n",
    "number": b":-5\r\n",
    "null": b"_\r\n",
    "boolean": b"#t\r\n",
    "double": b",3.25\r\n",
    "big number": b"(123\r\n",
    "text": b"$2\r\n\r\n\r\n",
    "no text": b"$-1\r\n",
    "empty text": b"$0\r\n\r\n",
    "verbatim text": b"=7\r\ntxt:\r\n!\r\n",
    "long error": b"!5\r\nERR x\r\n",
    "array": b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
    "empty array": b"*0\r\n",
    "no array": b"*-1\r\n",
    "set": b"~1\r\n+a\r\n",
    "map": b"%1\r\n+key\r\n*2\r\n:1\r\n:2\r\n",
    "attribute": b"|1\r\n+key\r\n:1\r\n*1\r\n+value\r\n",
    "push": b">2\r\n+invalidate\r\n*1\r\n$1\r\nx\r\n",
    "inline command": b"PING\r\n",
}


@pytest.mark.parametrize("message", REPLIES.values(), ids=REPLIES)
def test_a_message_is_found_whole_and_never_before(message: bytes) -> None:
    # Then its length is found as soon as its last byte is here
    assert resp(message + b"+more") == len(message)
    assert resp(message) == len(message)
    assert [resp(message[:end]) for end in range(len(message))] == [0] * len(message)


def test_one_of_many_pipelined_requests_is_lost(
    proxy: Proxy, connect: Connect, own_name: str
) -> None:
    client = connect(socket_timeout=SHORT_S)
    fault = proxy.arm(b"second", DROP_REQUEST)
    pipe = client.pipeline(transaction=False)
    for value in ("first", "second", "third"):
        pipe.rpush(own_name, value)
    with pytest.raises(redis.TimeoutError):
        pipe.execute()
    fault.wait()
    # The requests before and after it were carried out
    assert connect().lrange(own_name, 0, -1) == [b"first", b"third"]


def test_pushes_are_no_replies_and_can_be_lost_themselves(
    proxy: Proxy, connect: Connect, own_name: str, shared_redis: RedisServer
) -> None:
    listener = connect().pubsub()
    listener.subscribe(own_name)
    assert listener.get_message(timeout=5)["type"] == "subscribe"
    # When one of three messages is lost
    fault = proxy.arm(b"two", DROP_PUSH)
    for word in ("one", "two", "three"):
        assert shared_redis.ask("PUBLISH", own_name, word) == 1
    assert [listener.get_message(timeout=5)["data"] for _ in range(2)] == [b"one", b"three"]
    assert fault.hits == 1
    # And replies on that connection are still matched to their requests
    proxy.arm(b"other", DROP_REPLY)
    listener.subscribe("other")
    assert listener.get_message(timeout=5)["channel"] == b"other"
    lost = proxy.arm(b"PING", DROP_REPLY)
    listener.ping()
    lost.wait()
    assert listener.get_message(timeout=SHORT_S) is None
    listener.close()
