"""Locks of kazoo and of Curator on the nodes of holdfast: each excludes the other, both ways."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from holdfast import Client, ConfigError, NotSupported
from tests.interop.foreign import CURATOR
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import (
    MakeClient,
    eventually,
    kept_out,
    many,
    never_two,
    refusal,
)


@pytest.fixture
def path(own_name: str) -> str:
    """The path at which other libraries find the lock of this name."""
    return f"/holdfast/{own_name}"


@pytest.fixture
def curators(new_client: MakeClient, zookeeper_url: str) -> Client:
    """A client of Curator's recipe."""
    return new_client(f"{zookeeper_url}?recipe=curator")


def test_kazoos_lock_and_holdfast_exclude_each_other(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    theirs = kazoo.Lock(path, "theirs")
    # Given that holdfast holds: kazoo is refused
    with other.lock(own_name) as hold:
        assert theirs.acquire(blocking=False) is False
        with pytest.raises(LockTimeout):
            theirs.acquire(timeout=0.1)
        assert [one.split("\n")[0] for one in theirs.contenders()] == [hold.owner]
    # Given that kazoo holds: holdfast is refused, and names the holder
    assert theirs.acquire(timeout=5)
    assert other.lock(own_name).acquire(blocking=False) is None
    kept_out(other.lock(own_name), 0.1)
    eventually(lambda: "theirs" in refusal(other.lock(own_name, timeout=0)))
    (line,) = other.inspect(own_name)
    assert [(one.owner, one.held) for one in line.claims] == [("theirs", True)]
    theirs.release()
    assert other.inspect(own_name) == []


def test_waiters_of_kazoo_and_holdfast_are_served_in_one_order(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    served: list[int] = []

    def wait(number: int) -> None:
        theirs = number in (0, 2, 5)
        with kazoo.Lock(path) if theirs else other.lock(own_name, timeout=20):
            served.append(number)

    with other.lock(own_name):
        threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
        for behind, thread in enumerate(threads, 2):
            thread.start()
            eventually(lambda behind=behind: len(kazoo.get_children(path)) == behind)
    for thread in threads:
        thread.join(20)
    assert served == [0, 1, 2, 3, 4, 5]


def test_never_two_are_inside_be_they_ours_or_kazoos(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    never_two(2 * [lambda: other.lock(own_name), lambda: kazoo.Lock(path)])


def test_readers_and_writers_of_kazoo_and_holdfast_share_correctly(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    rw = other.rwlock(own_name)
    with rw.read, kazoo.ReadLock(path):
        assert kazoo.WriteLock(path).acquire(blocking=False) is False
        with other.rwlock(own_name).read:
            pass
    with rw.write:
        assert kazoo.ReadLock(path).acquire(blocking=False) is False
        assert kazoo.WriteLock(path).acquire(blocking=False) is False
    with kazoo.ReadLock(path):
        assert rw.write.acquire(blocking=False) is None
        with rw.read as hold:
            hold.check()
    with kazoo.WriteLock(path):
        assert rw.read.acquire(blocking=False) is None


def test_a_semaphore_stays_out_where_kazoo_locks(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    with kazoo.Lock(path), pytest.raises(ConfigError, match="a lock"):
        other.semaphore(own_name, 3).acquire()
    with other.semaphore(own_name, 3):
        assert kazoo.Lock(path).acquire(blocking=False) is False
    assert other.inspect(own_name) == []


def test_a_line_that_holds_the_others_nodes_is_refused(
    kazoo: KazooClient, other: Client, curators: Client, own_name: str, path: str
) -> None:
    kazoo.ensure_path(path)
    for recipe in ("-lock-", "-__READ__", "-__WRIT__", "-lease-"):
        node = kazoo.create(f"{path}/_c_{uuid.uuid4()}{recipe}", ephemeral=True, sequence=True)
        told = r"Curator's nodes.*recipe=curator" if recipe == "-lock-" else "Curator's"
        for client in (other, curators)[: 1 if recipe == "-lock-" else 2]:
            with pytest.raises(ConfigError, match=told):
                client.lock(own_name).acquire(timeout=1)
        kazoo.delete(node)
    with kazoo.Lock(path), pytest.raises(ConfigError, match=r"kazoo's nodes.*recipe=kazoo"):
        curators.lock(own_name).acquire(timeout=1)
    with other.lock(own_name), pytest.raises(ConfigError, match="kazoo's nodes"):
        curators.lock(own_name).acquire(blocking=False)
    # And no refused claim has left a node
    assert kazoo.get_children(path) == []
    # And a primitive for which Curator's node names have no room is refused
    for make in (curators.rwlock, curators.election, lambda name: curators.semaphore(name, 2)):
        with pytest.raises(NotSupported):
            make(own_name)


class Curator:
    """A process with Curator's InterProcessMutex that carries out commands."""

    def __init__(self, place: str, path: str) -> None:
        self._process = subprocess.Popen(
            [*CURATOR.command(), place, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.hear() == "ready"

    def say(self, word: str) -> None:
        """Send a command: "acquire", "try" or "release"."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The result of the oldest command without a result."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def does(self, word: str) -> str:
        """Send a command and return its result."""
        self.say(word)
        return self.hear()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def curator(shared_zookeeper: ZooKeeperServer, path: str) -> Iterator[Curator]:
    process = Curator(shared_zookeeper.place, path)
    yield process
    process.close()


def test_the_real_mutex_of_curator_and_holdfast_exclude_each_other(
    curator: Curator, curators: Client, own_name: str
) -> None:
    lock = curators.lock(own_name)
    # Given that Curator holds: holdfast is refused, and names the holder
    assert curator.does("acquire") == "held"
    assert lock.acquire(blocking=False) is None
    kept_out(lock, 0.2)
    assert len(curators.inspect(own_name)[0].holders) == 1
    # When Curator releases: the waiter of holdfast is granted
    held: list[int] = []
    release = threading.Event()

    def hold() -> None:
        with curators.lock(own_name, timeout=20) as mine:
            held.append(mine.fence)
            release.wait(30.0)

    waiter = threading.Thread(target=hold)
    waiter.start()
    eventually(lambda: many(curators, own_name) == 2)
    assert curator.does("release") == "released"
    eventually(lambda: held)
    # Given that holdfast holds: Curator is refused, and granted after the release
    assert curator.does("try") == "busy"
    curator.say("acquire")
    eventually(lambda: many(curators, own_name) == 2)
    release.set()
    waiter.join(20)
    assert curator.hear() == "held"
    assert lock.acquire(blocking=False) is None
    assert curator.does("release") == "released"
    with lock as mine:
        assert mine.fence > held[0]
