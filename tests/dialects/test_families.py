"""Two lock families on one key don't exclude each other: the key is refused, and both are named."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis

from holdfast import ConfigError
from tests.dialects.conftest import Ours

Make = Callable[[redis.Redis, str], object]
#: The contents of the key -> the words for it in the refusal.
FOREIGN: dict[str, tuple[Make, str]] = {
    "redisson": (lambda raw, key: raw.hset(key, "0123:1", 1), "a lock of Redisson"),
    "redisson-rw": (
        lambda raw, key: raw.hset(key, mapping={"mode": "read", "0123:1": 1}),
        "a read-write lock of Redisson",
    ),
    "list": (lambda raw, key: raw.rpush(key, "x"), "the Redis type list and isn't a lock"),
}
TIME: Make = lambda raw, key: raw.set(key, int((time.time() + 9) * 1000))  # noqa: E731
TOKEN: Make = lambda raw, key: raw.set(key, "0a" * 16, px=9000)  # noqa: E731
PLAIN = {**FOREIGN, "timestamp": (TIME, "a timestamp lock")}
TIMESTAMP = {**FOREIGN, "plain": (TOKEN, "a plain lock")}
CASES = [pytest.param("plain", PLAIN[one], id=f"plain-{one}") for one in PLAIN]
CASES += [pytest.param("timestamp", TIMESTAMP[one], id=f"timestamp-{one}") for one in TIMESTAMP]


@pytest.mark.parametrize("dialect, foreign", CASES)
def test_another_family_is_refused_by_name_and_left_alone(
    dialect: str,
    foreign: tuple[Make, str],
    ours: Ours,
    raw: redis.Redis,
    prefix: str,
    own_name: str,
) -> None:
    make, words = foreign
    locks = ours(dialect)
    make(raw, prefix + own_name)
    before = raw.dump(prefix + own_name)
    mine = f"a {dialect} lock"
    for act in (
        lambda: locks.lock(own_name).acquire(blocking=False),
        lambda: locks.lock(own_name).acquire(timeout=5),
        lambda: locks.lock(own_name).locked(),
    ):
        with pytest.raises(ConfigError) as caught:
            act()
        assert words in str(caught.value)
        assert mine in str(caught.value)
        assert own_name in str(caught.value)
    assert raw.dump(prefix + own_name) == before


def test_a_hold_that_was_replaced_by_another_family_is_lost(
    ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    hold = ours().lock(own_name).acquire()
    raw.delete(prefix + own_name)
    raw.hset(prefix + own_name, "0123:1", 1)
    assert hold.release() is False
    assert raw.hgetall(prefix + own_name) == {b"0123:1": b"1"}
