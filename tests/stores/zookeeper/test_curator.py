"""Curator itself, in Java, on the same nodes as holdfast; see `tests.fetching` for the download."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast import Client
from tests.interop.foreign import CURATOR
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import MakeClient, eventually, kept_out


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
def curator(shared_zookeeper: ZooKeeperServer, own_name: str) -> Iterator[Curator]:
    process = Curator(shared_zookeeper.place, f"/holdfast/{own_name}")
    yield process
    process.close()


def test_the_real_mutex_of_curator_and_holdfast_exclude_each_other(
    curator: Curator, new_client: MakeClient, zookeeper_url: str, own_name: str
) -> None:
    client: Client = new_client(f"{zookeeper_url}?recipe=curator")
    lock = client.lock(own_name)
    # Given that Curator holds: holdfast is refused
    assert curator.does("acquire") == "held"
    assert lock.acquire(blocking=False) is None
    kept_out(lock, 0.2)
    assert len(client.inspect(own_name)[0].holders) == 1
    # When Curator releases: the waiter of holdfast is granted
    held: list[int] = []
    release = threading.Event()
    waiter = threading.Thread(target=_hold, args=(client, own_name, held, release.wait))
    waiter.start()
    eventually(lambda: len(client.inspect(own_name)[0].claims) == 2)
    assert curator.does("release") == "released"
    eventually(lambda: held)
    # Given that holdfast holds: Curator is refused, and granted after the release
    assert curator.does("try") == "busy"
    curator.say("acquire")
    eventually(lambda: len(client.inspect(own_name)[0].claims) == 2)
    release.set()
    waiter.join(20)
    assert curator.hear() == "held"
    assert lock.acquire(blocking=False) is None
    assert curator.does("release") == "released"
    with lock as hold:
        assert hold.fence > held[0]


def _hold(client: Client, name: str, held: list[int], wait: Callable[[float], object]) -> None:
    with client.lock(name, timeout=20) as hold:
        held.append(hold.fence)
        wait(30.0)
