"""Locks of kazoo and of Curator on the nodes of holdfast: each excludes the other, both ways."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.protocol.states import ZnodeStat

from holdfast import Client, ConfigError, NotSupported
from tests.stores.zookeeper.conftest import MakeClient, eventually, kept_out, refusal


@pytest.fixture
def path(own_name: str) -> str:
    """The path at which other libraries find the lock of this name."""
    return f"/holdfast/{own_name}"


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
    served: list[str] = []

    def ours(label: str) -> None:
        with other.lock(own_name, timeout=20):
            served.append(label)

    def theirs(label: str) -> None:
        with kazoo.Lock(path, label):
            served.append(label)

    with other.lock(own_name):
        threads = []
        for number, act in enumerate([theirs, ours, theirs, ours, ours, theirs]):
            threads.append(threading.Thread(target=act, args=(str(number),)))
            threads[-1].start()
            eventually(lambda many=number + 2: len(kazoo.get_children(path)) == many)
    for thread in threads:
        thread.join(20)
    assert served == ["0", "1", "2", "3", "4", "5"]


def test_never_two_are_inside_be_they_ours_or_kazoos(
    kazoo: KazooClient, other: Client, own_name: str, path: str
) -> None:
    inside: list[str] = []
    most: list[int] = []

    def work(take: Callable[[], object]) -> None:
        for _ in range(15):
            with take():  # type: ignore[attr-defined]
                inside.append("one")
                time.sleep(0.001)
                most.append(len(inside))
                inside.pop()

    takes = [lambda: other.lock(own_name), lambda: kazoo.Lock(path)] * 2
    threads = [threading.Thread(target=work, args=(take,)) for take in takes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 60


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


class CuratorsMutex:
    """The requests of Curator's InterProcessMutex, sent by kazoo."""

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self._path = path
        self.node = ""

    def join(self) -> None:
        """Enter the line."""
        self._client.ensure_path(self._path)
        start = f"{self._path}/_c_{uuid.uuid4()}-lock-"
        self.node = self._client.create(start, b"10.0.0.9", ephemeral=True, sequence=True)

    @property
    def holds(self) -> bool:
        """True if its node is the first of all children, ordered by the text behind ``lock-``."""
        children = sorted(
            self._client.get_children(self._path), key=lambda one: one.rpartition("lock-")[2]
        )
        return children[0] == self.node.rpartition("/")[2]

    def leave(self) -> None:
        """Leave the line, and so release the lock."""
        self._client.delete(self.node)


def test_curators_mutex_and_holdfast_exclude_each_other(
    kazoo: KazooClient, new_client: MakeClient, zookeeper_url: str, own_name: str, path: str
) -> None:
    client = new_client(f"{zookeeper_url}?recipe=curator")
    mutex = CuratorsMutex(kazoo, path)
    # Given that holdfast holds, and Curator's mutex waits behind it
    with client.lock(own_name) as hold:
        mutex.join()
        assert not mutex.holds
        (node,) = [one for one in kazoo.get_children(path) if one != mutex.node.split("/")[-1]]
        start, _, number = node.partition("-lock-")
        assert str(uuid.UUID(start.removeprefix("_c_"))) == start.removeprefix("_c_")
        assert len(number) == 10
    # Then the mutex is granted, and holdfast waits
    assert mutex.holds
    assert client.lock(own_name).acquire(blocking=False) is None
    waiter = threading.Thread(target=lambda: client.lock(own_name).acquire(timeout=20).release())
    waiter.start()
    eventually(lambda: len(kazoo.get_children(path)) == 2)
    stat: ZnodeStat = kazoo.exists(mutex.node)
    assert stat.czxid > hold.fence
    (line,) = client.inspect(own_name)
    assert (line.claims[0].owner, line.claims[0].held) == ("10.0.0.9", True)
    mutex.leave()
    waiter.join(20)
    assert kazoo.get_children(path) == []
    # And a primitive for which Curator's node names have no room is refused
    for make in (
        lambda: client.semaphore(own_name, 2),
        lambda: client.rwlock(own_name),
        lambda: client.election(own_name),
    ):
        with pytest.raises(NotSupported):
            make()


def test_a_line_that_holds_the_others_nodes_is_refused(
    kazoo: KazooClient, new_client: MakeClient, zookeeper_url: str, own_name: str, path: str
) -> None:
    ours, curators = new_client(), new_client(f"{zookeeper_url}?recipe=curator")
    mutex = CuratorsMutex(kazoo, path)
    mutex.join()
    with pytest.raises(ConfigError, match=r"Curator's nodes.*recipe=curator"):
        ours.lock(own_name).acquire(timeout=1)
    mutex.leave()
    with kazoo.Lock(path), pytest.raises(ConfigError, match=r"kazoo's nodes.*recipe=kazoo"):
        curators.lock(own_name).acquire(timeout=1)
    with ours.lock(own_name), pytest.raises(ConfigError, match="kazoo's nodes"):
        curators.lock(own_name).acquire(blocking=False)
    for other in ("__READ__", "__WRIT__", "lease-"):
        node = kazoo.create(f"{path}/_c_{uuid.uuid4()}-{other}", ephemeral=True, sequence=True)
        for client in (ours, curators):
            with pytest.raises(ConfigError, match="Curator's"):
                client.lock(own_name).acquire(timeout=1)
        kazoo.delete(node)
    # And no refused claim has left a node
    assert kazoo.get_children(path) == []
