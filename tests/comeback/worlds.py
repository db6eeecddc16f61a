"""Servers that come back without data, with an older copy, or with the data of another server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast import Client
from holdfast.testing.surroundings import surroundings
from tests.servers.cluster import Cluster

CLUSTER = "redis+cluster"
#: The ttl of locks. On ZooKeeper the session has this length, and holds end with it.
TTL_S = 2.0
#: The fixtures that make their servers.
MADE = {
    "redis": "new_redis",
    "postgresql": "new_postgres",
    "mysql": "new_mariadb",
    "zookeeper": "new_zookeeper",
    CLUSTER: "new_cluster",
}
OPTIONS = {"zookeeper": f"?session={TTL_S:g}"}
#: Settings with which a server keeps its data.
SETTINGS = {"redis": ("appendonly yes", "appendfsync always")}
#: The ways in which a server loses its data.
WAYS = ("wiped", "restored", "replaced")


class World:
    """A server, and copies of its data. ``make`` makes a server of this kind."""

    def __init__(self, scheme: str, make: Callable[..., Any]) -> None:
        self._make = partial(make, *SETTINGS.get(scheme, ()))
        self._options = OPTIONS.get(scheme, "")
        self.server = self._make()
        self.url = self.server.url + self._options
        # The empty copy, from before the first client.
        self._copies = {"wiped": self._copy(self.server, "wiped")}

    def remember(self) -> None:
        """Make the copy from which the server is restored."""
        self._copies["restored"] = self._copy(self.server, "restored")

    def lose(self, way: str) -> None:
        """End the server, and replace its data."""
        if way == "replaced":
            self._copies[way] = self._another()
        for pid in _stopped(self.server.pid):
            _signal(pid, signal.SIGKILL)
        self.server.kill()
        data = _data(self.server)
        settings = data / "postgresql.conf"  # with its port
        kept = settings.read_bytes() if settings.exists() else None
        shutil.rmtree(data)
        _copy(self._copies[way], data)
        if kept is not None:
            settings.write_bytes(kept)

    def back(self) -> None:
        """Start the server again."""
        self.server.start()

    def _another(self) -> Path:
        """Return the data of a server that other clients have used."""
        server = self._make()
        with Client(server.url + self._options) as client:
            for number in range(20):
                client.lock(f"another-{number}").acquire().release()
            client.queue("jobs").put("another")
        return self._copy(server, "another")

    def _copy(self, server: Any, name: str) -> Path:
        """Copy the data of a stopped server, as a crash would leave it."""
        pids = _stopped(server.pid)
        try:
            copy = _copy(_data(server), server.folder / name)
            (copy / "postmaster.pid").unlink(missing_ok=True)  # it names one that may run
            return copy
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)


class ClusterWorld:
    """A cluster that is made again from empty nodes, with other slots on each node."""

    def __init__(self, make: Callable[..., Cluster]) -> None:
        self._cluster = make(replicas=0)
        self.url = self._cluster.url

    def remember(self) -> None:
        """Do nothing: a cluster is never restored from a copy."""

    def lose(self, way: str) -> None:
        """Kill all nodes; delete their data and what they store about each other."""
        assert way == "wiped"
        for one in self._cluster.servers:
            one.kill()
            shutil.rmtree(one.data)

    def back(self) -> None:
        """Start the nodes again, and make a cluster of them."""
        for one in self._cluster.servers:
            one.start()
        self._cluster.servers.reverse()
        self._cluster.join(len(self._cluster.servers))


def _data(server: Any) -> Path:
    return Path(getattr(server, "data", server.folder / "data"))


def _copy(what: Path, to: Path) -> Path:
    """Copy with owners and modes, because some servers check them."""
    subprocess.run(["cp", "-a", str(what), str(to)], check=True, env=surroundings())
    return to


def _stopped(pid: int) -> list[int]:
    """Stop this process and its children; return their ids."""
    os.kill(pid, signal.SIGSTOP)
    children = [int(one.parent.name) for one in Path("/proc").glob("[0-9]*/stat") if _of(one, pid)]
    for child in children:
        _signal(child, signal.SIGSTOP)
    return [pid, *children]


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it ends with the one that started it
        os.kill(pid, number)


def _of(stat: Path, parent: int) -> bool:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1]) == parent
    except OSError:  # it has ended
        return False
