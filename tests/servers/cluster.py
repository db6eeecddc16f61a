"""A Redis Cluster on the loopback: three primaries, each with a replica."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple, Self

from holdfast.stores.redis.slots import BUCKET_SLOTS

from .process import SOON_S, until
from .redis_server import RedisServer

SLOTS = 16384
#: A node that is silent for so long is taken to be dead: where one is to be lost; and else,
#: because on a busy machine a node that is well may be silent for a while.
HASTY_MS, CALM_MS = 1000, 10_000


class Node(NamedTuple):
    """A node as a node sees it."""

    id: str
    port: int
    primary: bool
    #: The id of the node that it follows, "-" if it follows nobody.
    follows: str
    linked: bool


class Cluster:
    """``primaries`` nodes that share the slots, and ``replicas`` for each of them.

    holdfast's guard takes each of them for one that is up for long, as long as no slot is moved.
    """

    def __init__(self, folder: Path, *settings: str, primaries: int = 3, replicas: int = 1) -> None:
        self.servers: list[RedisServer] = []
        try:
            for number in range(primaries * (1 + replicas)):
                place = folder / str(number)
                place.mkdir()
                server = RedisServer(
                    place,
                    "cluster-enabled yes",
                    f"cluster-node-timeout {HASTY_MS}",
                    "cluster-replica-validity-factor 0",
                    "cluster-allow-replica-migration no",
                    *settings,
                )
                self.servers.append(server)
            self.join(primaries)
        except BaseException:
            self.close()
            raise

    def join(self, primaries: int) -> None:
        """Make a cluster of its nodes, which know nothing yet; the first of them are primaries."""
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

    # -- looking ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where its nodes are."""
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.servers if one.runs)
        return f"redis+cluster://{hosts}"

    def id(self, server: RedisServer) -> str:
        """How the nodes call this one."""
        known: bytes = server.ask("CLUSTER", "MYID")
        return known.decode()

    def seen_by(self, server: RedisServer) -> list[Node]:
        """All nodes as this one sees them."""
        found = []
        for line in server.ask("CLUSTER", "NODES").decode().splitlines():
            words = line.split()
            port = int(words[1].partition("@")[0].rpartition(":")[2])
            flags = words[2].split(",")
            well = words[7] == "connected" and not {"fail", "fail?", "handshake"} & set(flags)
            found.append(Node(words[0], port, "master" in flags, words[3], well))
        return found

    def owner(self, slot: int) -> RedisServer:
        """The primary that serves this slot, by what the first running node knows."""
        return self._owner(slot, next(one for one in self.servers if one.runs))

    def _owner(self, slot: int, seen_by: RedisServer) -> RedisServer:
        for begin, end, primary, *_ in seen_by.ask("CLUSTER", "SLOTS"):
            if begin <= slot <= end:
                return self._at(int(primary[1]))
        raise AssertionError(f"nobody serves slot {slot}")

    @property
    def primaries(self) -> list[RedisServer]:
        """The nodes that serve slots, by what the first running node knows."""
        (one, *_) = (one for one in self.servers if one.runs)
        ports = {int(primary[1]) for _, _, primary, *_ in one.ask("CLUSTER", "SLOTS")}
        return [one for one in self.servers if one.port in ports]

    def _at(self, port: int) -> RedisServer:
        return next(one for one in self.servers if one.port == port)

    def replicas_of(self, server: RedisServer) -> list[RedisServer]:
        """Those that follow this one and run."""
        known = self.id(server)
        nodes = [node for node in self.seen_by(server) if node.follows == known]
        return [one for one in (self._at(node.port) for node in nodes) if one.runs]

    def replica_of(self, primary: RedisServer) -> RedisServer:
        """One that follows this primary, as soon as the primary has heard of that."""
        until(lambda: self.replicas_of(primary), "the primary knows its replica")
        return self.replicas_of(primary)[0]

    def settled(self) -> None:
        """Wait until every running node finds that all slots are served and is linked."""

        def well(one: RedisServer) -> bool:
            role = one.info("replication")
            return b"cluster_state:ok" in one.ask("CLUSTER", "INFO") and (
                role["role"] == "master" or role["master_link_status"] == "up"
            )

        for one in self.servers:
            if one.runs:
                until(lambda one=one: well(one), "the cluster is whole", 2 * SOON_S)

    # -- changing --------------------------------------------------------------------------

    def attend(self, within_ms: int = HASTY_MS) -> None:
        """From now on a node that is silent for so long is taken to be dead."""
        for one in self.servers:
            if one.runs:
                one.ask("CONFIG", "SET", "cluster-node-timeout", within_ms)

    def fail_over(self, primary: RedisServer) -> RedisServer:
        """Have a replica take over from this primary, which is well; which one."""
        replica = self.replica_of(primary)
        replica.ask("CLUSTER", "FAILOVER")
        return self._promoted(replica)

    def lose(self, primary: RedisServer) -> RedisServer:
        """Kill this primary, and wait until its replica has taken over; which one."""
        replica = self.replica_of(primary)
        self.attend()
        primary.kill()
        promoted = self._promoted(replica)
        self.attend(CALM_MS)
        return promoted

    def _promoted(self, replica: RedisServer) -> RedisServer:
        for one in self.servers:
            if one.runs:
                what = "every node knows that the replica has taken over"
                until(lambda one=one: self._serves(one, replica), what, 2 * SOON_S)
        self.settled()
        return replica

    def _serves(self, seen_by: RedisServer, server: RedisServer) -> bool:
        slots = seen_by.ask("CLUSTER", "SLOTS")
        return any(int(primary[1]) == server.port for _, _, primary, *_ in slots)

    def begin_move(self, slot: int, to: RedisServer) -> None:
        """From now on this slot is on its way: its keys are still where they were."""
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(to))

    def move_keys(self, slot: int, to: RedisServer, most: int = 100) -> int:
        """Move so many keys of a slot that is on its way; how many there were to move."""
        source = self.owner(slot)
        keys: list[bytes] = source.ask("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            source.ask("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, to: RedisServer) -> None:
        """From now on the slot is served by the other."""
        source, known = self.owner(slot), self.id(to)
        # It then takes the next epoch, which is the greatest only if it has heard of the last one.
        # Else it may lose the slot for a moment, and with that it deletes the keys that it has.
        running = [one for one in self.servers if one.runs]
        until(lambda: _epoch(to) == max(map(_epoch, running)), "the new owner knows the last epoch")
        end = time.monotonic() + SOON_S
        while True:
            for one in (to, source, *self.servers):
                if one.runs and one.info("replication")["role"] == "master":
                    one.ask("CLUSTER", "SETSLOT", slot, "NODE", known)
            if self._known_to_all(slot, to):
                return
            assert time.monotonic() < end, f"after {SOON_S:g} s not every node knows it"
            # What a node has heard late can undo what it was told, and then two of them may each
            # believe that the other serves the slot. The greatest epoch settles it.
            to.ask("CLUSTER", "BUMPEPOCH")

    def _known_to_all(self, slot: int, owner: RedisServer, within: float = 0.5) -> bool:
        """Does every node that runs know, soon, who serves the slot?"""
        end = time.monotonic() + within
        asked = [one for one in self.servers if one.runs]
        while time.monotonic() < end:
            asked = [one for one in asked if self._owner(slot, one) is not owner]
            if not asked:
                break
            time.sleep(0.002)
        return not asked

    def move(self, slot: int, to: RedisServer) -> None:
        """Move a slot with all its keys to another primary, while it is used."""
        if self.owner(slot) is to:
            return
        self.begin_move(slot, to)
        while self.move_keys(slot, to):
            pass
        self.end_move(slot, to)

    def close(self) -> None:
        """End all nodes."""
        for one in self.servers:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _epoch(server: RedisServer) -> int:
    """The last epoch that this node has heard of."""
    said = server.ask("CLUSTER", "INFO").decode().partition("cluster_current_epoch:")[2]
    return int(said.split()[0])
