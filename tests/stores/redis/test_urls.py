"""The settings that are read from a server's URL or a client of redis-py, without passwords."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import redis
import redis.asyncio

from holdfast import Client, ConfigError
from holdfast.stores.redis.config import Settings, settings
from holdfast.url import StoreURL, find

CANARY = "hunter2"
#: The settings of a URL that has only a host.
PLAIN = ("tcp", {"host": "h", "port": 6379, "db": 0}, "redis://h:6379/0")


def read(text: str) -> Settings:
    return settings(find(text)[1])


def given(client: Any) -> Settings:
    return settings(StoreURL("redis", native=client))


@pytest.mark.parametrize(
    "text, kind, expected, label",
    [
        (
            "redis://",
            "tcp",
            {"host": "localhost", "port": 6379, "db": 0},
            "redis://localhost:6379/0",
        ),
        ("redis://h:1/7", "tcp", {"host": "h", "port": 1, "db": 7}, "redis://h:1/7"),
        ("redis://h//", "tcp", {"host": "h", "port": 6379, "db": 0}, "redis://h:6379/0"),
        ("redis://h/3?db=4", "tcp", {"host": "h", "db": 4}, "redis://h:6379/4"),
        ("redis://[::1]:7/", "tcp", {"host": "::1", "port": 7}, "redis://[::1]:7/0"),
        ("valkey://h", "tcp", {"host": "h"}, "valkey://h:6379/0"),
        ("rediss://h", "tls", {"host": "h"}, "rediss://h:6379/0"),
        ("valkeys://h", "tls", {"host": "h"}, "valkeys://h:6379/0"),
        ("redis+unix:///a/b?db=2", "unix", {"path": "/a/b", "db": 2}, "redis+unix:///a/b?db=2"),
        ("valkey+unix:///a/b", "unix", {"path": "/a/b", "db": 0}, "valkey+unix:///a/b"),
        ("unix:///a/b?db=2", "unix", {"path": "/a/b", "db": 2}, "unix:///a/b?db=2"),
        ("redis+socket:///a?virtual_host=3", "unix", {"path": "/a", "db": 3}, ""),
        (f"redis://:{CANARY}@h:1/0", "tcp", {"password": CANARY}, "redis://h:1/0"),
        (f"redis://ann:{CANARY}%40@h", "tcp", {"username": "ann", "password": f"{CANARY}@"}, ""),
        (f"unix:///a?password={CANARY}", "unix", {"password": CANARY}, "unix:///a"),
        ("redis://h?client_name=x", "tcp", {"client_name": "x"}, ""),
        ("rediss://h?ssl_cert_reqs=CERT_NONE", "tls", {"ssl_cert_reqs": "none"}, ""),
        ("rediss://h?ssl_cert_reqs=required", "tls", {"ssl_cert_reqs": "required"}, ""),
        ("redis://h?prefix=shop:eu", "tcp", {}, "redis://h:6379/0?prefix=shop:eu"),
        # What is meant for redis-py's own pool is accepted
        ("redis://h?socket_timeout=5&retry_on_timeout=True&health_check_interval=30", *PLAIN),
        ("redis://h?max_connections=20&decode_responses=True&timeout=3", *PLAIN),
        ("redis://h?socket_read_size=65536&encoding=utf-8&encoding_errors=strict", *PLAIN),
        ("redis://h?legacy_responses=no&retry_on_error=TimeoutError", *PLAIN),
    ],
)
def test_the_urls_of_redis_py_and_celery_are_understood(
    text: str, kind: str, expected: dict[str, Any], label: str
) -> None:
    found = read(text)
    assert found.kind == kind
    assert {key: found.arguments[key] for key in expected} == expected
    assert found.label == label or not label
    assert CANARY not in found.label
    assert CANARY not in repr(found)
    assert found.arguments.keys() <= {"host", "port", "db"} or expected is not PLAIN[1]


@pytest.mark.parametrize(
    "text, words",
    [
        ("redis://h:x", "host:port"),
        ("redis://h:0", "host:port"),
        ("redis://h:99999", "host:port"),
        ("redis://[::1", "host:port"),
        ("redis://h/x", "its number"),
        ("redis://h?db=-1", "from 0"),
        ("redis://h?protocol=4", "from 2 to 3"),
        ("redis://h?recovery=strict&grace=2", "grace"),
        ("redis://h?prefix=a{b", "letters, digits"),
        ("redis://h?prefix=", "letters, digits"),
        ("redis://h?ssl_cert_reqs=maybe", "none, optional, required"),
        ("redis://h?ssl_include_verify_flags=[NONSENSE]", "VerifyFlags"),
        ("redis://h?sokcet_timeout=5", 'did you mean "socket_timeout"'),
        ("redis+unix://h/a", "redis+unix:///path"),
        ("redis+unix://", "redis+unix:///path"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Client(text)
    assert words in str(refusal.value)


@pytest.mark.parametrize("face", [redis, redis.asyncio])
def test_a_client_of_redis_py_is_taken_by_what_its_connections_are_made_of(face: Any) -> None:
    client = face.Redis(host="h", port=7, db=3, password=CANARY, decode_responses=True)
    found = given(client)
    assert (found.kind, found.label) == ("tcp", "redis://h:7/3")
    assert found.arguments["password"] == CANARY
    assert not {"decode_responses", "socket_timeout", "retry"} & set(found.arguments)
    assert given(face.Redis(host="h", ssl=True)).kind == "tls"
    assert given(face.Redis(unix_socket_path="/a")).label == "redis+unix:///a"
    assert given(face.Redis.from_url("rediss://h")).kind == "tls"


def test_a_subclass_of_a_client_is_taken_too() -> None:
    class Ours(redis.Redis):
        pass

    assert Client(Ours(port=7)).url == "redis://localhost:7/0"


@pytest.mark.parametrize("other", [redis.ConnectionPool(), redis.Connection()])
def test_what_is_no_client_is_refused(other: Any) -> None:
    with pytest.raises(ConfigError, match=r"redis\.Redis"):
        Client(other)


def test_nothing_is_connected_before_the_first_verb() -> None:
    Client("redis://127.0.0.1:1").close()


def test_a_client_of_a_driver_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="make it from a URL"):
        pickle.dumps(Client(redis.Redis()))
