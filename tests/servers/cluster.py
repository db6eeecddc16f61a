"""A Redis Cluster on the loopback: three primaries, each with a replica."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.redis.slots import BUCKET_SLOTS

from .process import SOON_S, Ended, until
from .redis_server import RedisServer

SLOTS = 16384
#: Milliseconds after which the cluster treats a silent node as dead. The short time is for tests
#: that lose a node. The long time is for all other tests, because on a busy machine a healthy node
#: can be silent for a while.
HASTY_MS, CALM_MS = 1000, 10_000


class Node(NamedTuple):
    """A node in the view of a node."""

    id: str
    port: int
    primary: bool
    #: The id of the node that it replicates; "-" if it replicates no node.
    follows: str
    linked: bool


class Cluster(Ended):
    """A cluster of ``primaries`` nodes that share the slots, and ``replicas`` for each of them.

    Recovery treats each node as one that has run for long, until a slot is moved.
    """

    def __init__(self, folder: Path, *settings: str, primaries: int = 3, replicas: int = 1) -> None:
        self.servers: list[RedisServer] = []
        try:
            for number in range(primaries * (1 + replicas)):
                place = folder / str(number)
                place.mkdir()
                lines = ["cluster-enabled yes", f"cluster-node-timeout {HASTY_MS}"]
                lines += ["cluster-replica-validity-factor 0", "cluster-allow-replica-migration no"]
                self.servers.append(RedisServer(place, *lines, *settings))
            self.join(primaries)
        except BaseException:
            self.close()
            raise

    def join(self, primaries: int) -> None:
        """Make a cluster of the new nodes; the first ones become primaries."""
        first = self.servers[0]
        for number, one in enumerate(self.servers[:primaries]):
            begin, end = (SLOTS * n // primaries for n in (number, number + 1))
            one.ask("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
            one.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for one in self.servers[1:]:
            one.ask("CLUSTER", "MEET", first.host, first.port)
        everybody = {one.port for one in self.servers}
        for one in self.servers:
            what = "the nodes know each other"
            until(lambda one=one: {node.port for node in self.seen_by(one)} == everybody, what)
        for number, one in enumerate(self.servers[primaries:]):
            self._follow(one, self.id(self.servers[number % primaries]))
        self.settled()
        for one in self.servers[:primaries]:
            slots = enumerate(BUCKET_SLOTS)
            one.make_known(bucket for bucket, slot in slots if self._owner(slot, first) is one)
        self.attend(CALM_MS)

    def _follow(self, one: RedisServer, primary: str) -> None:
        def knows() -> bool:
            return any(seen.id == primary and seen.linked for seen in self.seen_by(one))

        until(knows, "the node knows whom to follow")
        one.ask("CLUSTER", "REPLICATE", primary)

    # -- views -----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.servers if one.runs)
        return f"redis+cluster://{hosts}"

    def id(self, server: RedisServer) -> str:
        return str(server.ask("CLUSTER", "MYID").decode())

    def seen_by(self, server: RedisServer) -> list[Node]:
        """All nodes in the view of this server."""
        found = []
        for line in server.ask("CLUSTER", "NODES").decode().splitlines():
            words = line.split()
            port = int(words[1].partition("@")[0].rpartition(":")[2])
            flags = words[2].split(",")
            well = words[7] == "connected" and not {"fail", "fail?", "handshake"} & set(flags)
            found.append(Node(words[0], port, "master" in flags, words[3], well))
        return found

    def owner(self, slot: int) -> RedisServer:
        return self._owner(slot, self._running[0])

    def _owner(self, slot: int, seen_by: RedisServer) -> RedisServer:
        for begin, end, primary, *_ in seen_by.ask("CLUSTER", "SLOTS"):
            if begin <= slot <= end:
                return self._at(int(primary[1]))
        raise AssertionError(f"no node serves slot {slot}")

    @property
    def primaries(self) -> list[RedisServer]:
        """The nodes that serve slots, in the view of the first running node."""
        slots = self._running[0].ask("CLUSTER", "SLOTS")
        ports = {int(primary[1]) for _, _, primary, *_ in slots}
        return [one for one in self.servers if one.port in ports]

    @property
    def _running(self) -> list[RedisServer]:
        return [one for one in self.servers if one.runs]

    def _at(self, port: int) -> RedisServer:
        return next(one for one in self.servers if one.port == port)

    def replicas_of(self, server: RedisServer) -> list[RedisServer]:
        """The running nodes that replicate this one."""
        known = self.id(server)
        nodes = [node for node in self.seen_by(server) if node.follows == known]
        return [one for one in (self._at(node.port) for node in nodes) if one.runs]

    def replica_of(self, primary: RedisServer) -> RedisServer:
        """A replica of this primary; waits until the primary has registered one."""
        until(lambda: self.replicas_of(primary), "the primary knows its replica")
        return self.replicas_of(primary)[0]

    def settled(self) -> None:
        """Wait until every running node is linked and finds that all slots are served."""

        def well(one: RedisServer) -> bool:
            role = one.info("replication")
            return b"cluster_state:ok" in one.ask("CLUSTER", "INFO") and (
                role["role"] == "master" or role["master_link_status"] == "up"
            )

        for one in self._running:
            until(lambda one=one: well(one), "the cluster is whole", 2 * SOON_S)

    # -- changes ---------------------------------------------------------------------------

    def attend(self, within_ms: int = HASTY_MS) -> None:
        """Set the time after which a silent node counts as dead."""
        for one in self._running:
            one.ask("CONFIG", "SET", "cluster-node-timeout", within_ms)

    def fail_over(self, primary: RedisServer) -> RedisServer:
        """Let a replica take over from this healthy primary; return the replica."""
        replica = self.replica_of(primary)
        replica.ask("CLUSTER", "FAILOVER")
        return self._promoted(replica)

    def lose(self, primary: RedisServer) -> RedisServer:
        """Kill this primary, and wait until its replica has taken over; return the replica."""
        replica = self.replica_of(primary)
        self.attend()
        primary.kill()
        promoted = self._promoted(replica)
        self.attend(CALM_MS)
        return promoted

    def _promoted(self, replica: RedisServer) -> RedisServer:
        def serves(seen_by: RedisServer) -> bool:
            slots = seen_by.ask("CLUSTER", "SLOTS")
            return any(int(primary[1]) == replica.port for _, _, primary, *_ in slots)

        for one in self._running:
            what = "every node knows that the replica has taken over"
            until(lambda one=one: serves(one), what, 2 * SOON_S)
        self.settled()
        return replica

    def begin_move(self, slot: int, to: RedisServer) -> None:
        """Begin to move this slot; its keys stay at the source."""
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(to))

    def move_keys(self, slot: int, to: RedisServer, most: int = 100) -> int:
        """Move at most ``most`` keys of a slot whose move has begun; return their number."""
        source = self.owner(slot)
        keys: list[bytes] = source.ask("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            source.ask("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, to: RedisServer) -> None:
        """Make the other node the owner of the slot."""
        source, known = self.owner(slot), self.id(to)
        # The new owner then takes the next epoch. This is the greatest epoch only if the node has
        # received the last one. Otherwise it can lose the slot for a moment, and it then deletes
        # the slot's keys.
        what = "the new owner knows the last epoch"
        until(lambda: _epoch(to) == max(map(_epoch, self._running)), what)
        end = time.monotonic() + SOON_S
        while True:
            for one in (to, source, *self.servers):
                if one.runs and one.info("replication")["role"] == "master":
                    one.ask("CLUSTER", "SETSLOT", slot, "NODE", known)
            if self._known_to_all(slot, to):
                return
            assert time.monotonic() < end, f"after {SOON_S:g} s not every node knows it"
            # A late message can undo the node's assignment. Then two nodes can each believe that
            # the other one serves the slot. The node with the greatest epoch wins.
            to.ask("CLUSTER", "BUMPEPOCH")

    def _known_to_all(self, slot: int, owner: RedisServer, within: float = 0.5) -> bool:
        """Return whether every running node soon has ``owner`` as the owner of the slot."""
        end = time.monotonic() + within
        asked = self._running
        while time.monotonic() < end:
            asked = [one for one in asked if self._owner(slot, one) is not owner]
            if not asked:
                break
            time.sleep(0.002)
        return not asked

    def move(self, slot: int, to: RedisServer) -> None:
        """Move a slot with all its keys to another primary, while clients use the slot."""
        if self.owner(slot) is to:
            return
        self.begin_move(slot, to)
        while self.move_keys(slot, to):
            pass
        self.end_move(slot, to)

    def close(self) -> None:
        for one in self.servers:
            one.close()


def _epoch(server: RedisServer) -> int:
    """The last epoch that this node has received."""
    said = server.ask("CLUSTER", "INFO").decode().partition("cluster_current_epoch:")[2]
    return int(said.split()[0])
