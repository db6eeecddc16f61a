"""A region of dogpile.cache whose mutexes are locks of the cluster."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dogpile.cache import make_region

from holdfast import AsyncClient, Client, ConfigError, NotAcquired, caches

Region = Callable[..., Any]


@pytest.fixture
def values() -> dict[str, Any]:
    """The values that all regions of the test share, as in a memcached."""
    return {}


@pytest.fixture
def region(own_name: str, values: dict[str, Any]) -> Iterator[Region]:
    """Make regions, each of another client, as in separate processes."""
    with contextlib.ExitStack() as ends:

        def make(expiration: float = 60.0, runner: Any = None, **options: Any) -> Any:
            client = ends.enter_context(Client(f"memory://{own_name}"))
            return make_region(async_creation_runner=runner).configure(
                "dogpile.cache.memory",
                expiration_time=expiration,
                arguments={"cache_dict": values},
                wrap=[caches.dogpile(client, **options)],
            )

        yield make


def test_of_two_regions_one_creates(region: Region) -> None:
    ours, theirs = region(), region()
    created = []

    def create() -> int:
        created.append(1)
        time.sleep(0.2)
        return len(created)

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit((ours, theirs)[n % 2].get_or_create, "k", create) for n in range(6)]
        assert [one.result(20) for one in asked] == [1] * 6
    assert len(created) == 1


def test_a_caller_that_finds_a_stale_value_does_not_wait(region: Region) -> None:
    ours, theirs = region(0.1), region(0.1)
    inside, go = threading.Event(), threading.Event()

    def slow() -> int:
        inside.set()
        assert go.wait(20)
        return 2

    assert ours.get_or_create("k", lambda: 1) == 1
    time.sleep(0.2)
    with ThreadPoolExecutor(1) as pool:
        refreshed = pool.submit(ours.get_or_create, "k", slow)
        assert inside.wait(20)
        assert theirs.key_is_locked("k")
        assert theirs.get_or_create("k", slow) == 1
        go.set()
        assert refreshed.result(20) == 2
    assert not theirs.key_is_locked("k")


def test_several_keys_at_once_and_any_key(region: Region) -> None:
    made = region().get_or_create_multi(["b", "a"], lambda *keys: [key.upper() for key in keys])
    assert made == ["B", "A"]
    assert not any(region().key_is_locked(key) for key in "ab")
    for key in ("k" * 600, "a b\n", "\N{SNOWMAN}" * 300, "\ud800"):
        assert region().get_or_create(key, lambda: 1) == 1


def test_another_thread_may_release(region: Region) -> None:
    threads = []

    def runner(cache: Any, key: str, creator: Callable[[], Any], mutex: Any) -> None:
        def create() -> None:
            try:
                cache.set(key, creator())
            finally:
                mutex.release()

        threads.append(threading.Thread(target=create))
        threads[-1].start()

    ours = region(0.1, runner)
    ours.set("k", 1)
    time.sleep(0.2)
    assert ours.get_or_create("k", lambda: 2) == 1
    threads[0].join(20)
    assert not region().key_is_locked("k")
    assert ours.get("k") == 2


def test_a_region_that_died_holds_up_the_others_for_a_lease_and_no_longer(region: Region) -> None:
    dead, alive = region(ttl=2.0), region()
    mutex = dead.backend.get_mutex("k")
    assert mutex.acquire()
    mutex._lock._ctx.keeper.stop()  # as in a process that was killed
    assert not alive.backend.get_mutex("k").acquire(False)
    assert alive.get_or_create("k", lambda: "alive") == "alive"
    mutex.release()


@pytest.mark.parametrize("first", ["the loser", "the holder"])
def test_each_releases_its_own_also_when_one_was_lost(region: Region, first: str) -> None:
    mutex = region(ttl=0.2).backend.get_mutex("k")
    got, go = threading.Event(), threading.Event()

    def other() -> None:
        assert mutex.acquire()
        got.set()
        assert go.wait(20)
        mutex.release()

    assert mutex.acquire()
    mutex._lock._ctx.keeper.stop()  # so that it is lost
    thread = threading.Thread(target=other)
    thread.start()
    assert got.wait(20)
    lost, has = mutex._holds
    if first == "who lost it":
        mutex.release()
        assert mutex._holds == [has]
    go.set()
    thread.join(20)
    assert mutex._holds == ([] if first == "who lost it" else [lost])
    mutex.release()
    assert mutex._holds == []


def test_a_wait_for_the_mutex_times_out_and_names_the_lock(region: Region) -> None:
    ours, theirs = region(), region(timeout=0.1)
    mutex = ours.backend.get_mutex("k")
    assert mutex.acquire()
    with pytest.raises(NotAcquired, match="dogpile:k"):
        theirs.get_or_create("k", lambda: 1)
    mutex.release()
    mutex.release()  # as a lock that wasn't held: nothing happens
    assert theirs.get_or_create("k", lambda: 1) == 1


def test_a_created_value_is_served_although_its_mutex_was_not_released(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(f"sqlite://{tmp_path}/locks.db") as client:
        region = make_region().configure(
            "dogpile.cache.memory", wrap=[caches.dogpile(client, ttl=6)]
        )
        assert region.get_or_create("first", lambda: 0) == 0
        gate = os.open(tmp_path / "locks.db.d" / "gate", os.O_RDWR)

        def create() -> int:
            fcntl.flock(gate, fcntl.LOCK_EX)  # from here on the store is silent
            return 1

        try:
            assert region.get_or_create("k", create) == 1
        finally:
            os.close(gate)
        assert region.get("k") == 1
        told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert any("'dogpile:k'" in text and "could not be released" in text for text in told)
        # The renewer withdraws the claim
        assert client.lock("dogpile:k").acquire(timeout=20)


def test_only_a_client_for_threads_will_do() -> None:
    for wrong in ("redis://", AsyncClient("memory://x")):
        with pytest.raises(ConfigError, match=r"takes a holdfast\.Client"):
            caches.dogpile(wrong)  # type: ignore[arg-type]
