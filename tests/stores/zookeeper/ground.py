"""Damage from outside to the nodes that holdfast keeps in ZooKeeper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import urlsplit

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.bytes import changed

ROOT = "/holdfast"


class ZooKeeperGround:
    """See `holdfast.testing.faults.damage.Ground`."""

    #: Seconds: a third of the ttl until the next renewal, and the delays of a busy machine.
    overlap_s = 3.0

    def __init__(self, server: ZooKeeperServer) -> None:
        self.url = server.url
        self._client = KazooClient(hosts=urlsplit(server.url).netloc)
        self._client.start(20)

    def close(self) -> None:
        """End the session of the client that damages."""
        self._client.stop()
        self._client.close()

    def items(self, token: str) -> list[str]:
        """The folders and nodes of the names of one round, with everything in them."""
        found: list[str] = []
        for folder in (ROOT, f"{ROOT}/.queues"):
            found += [one for one in self._below(folder) if token in one]
        return found

    def _below(self, folder: str) -> Iterator[str]:
        try:
            children = sorted(self._client.get_children(folder))
        except NoNodeError:
            return
        for child in children:
            path = f"{folder}/{child}"
            yield path
            yield from self._below(path)

    def damage(self, item: str, kind: str, chance: random.Random) -> bool:
        """Delete a node, write to it, or replace it by a persistent node."""
        try:
            if kind == "removed":
                self._client.delete(item, recursive=True)
                return True
            before, stat = self._client.get(item)
            if kind == "another type":
                if not stat.ephemeralOwner:
                    return False
                self._client.delete(item)
                self._client.create(item, before)
                return True
            self._client.set(item, changed(before or b"", kind, chance))
        except KazooException:
            return False  # it went, or is in use, meanwhile
        return True
