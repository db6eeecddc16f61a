"""A cluster for one event loop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from redis.asyncio import SSLConnection
from redis.asyncio.cluster import ClusterNode, NodesManager

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.timers.aio import sleep, time_limit
from ..blocking.cluster import FAILURES, bucket_places, for_finding, lost
from ..blocking.sentinel import step_of
from ..cluster import ClusterPort
from ..nodes import Node
from ..recovery import ClusterRecovery, Recovery
from ..topology import Members, Place
from .shard import LoopNode
from .shared import Shared


def open_cluster(members: Members) -> ClusterPort:
    """The port for one event loop."""
    return LoopCluster(members, LoopFace(members), ClusterRecovery(members.settings, boottime))


class LoopCluster(ClusterPort):
    """The port for a cluster, for one event loop."""

    def abandon(self) -> None:
        """Close the connections without their loop, which no longer runs."""
        for node in self._nodes.values():
            assert isinstance(node, LoopNode)
            node.abandon()


class LoopFace:
    """See :class:`holdfast.stores.redis.nodes.Face`."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.forked()

    def forked(self) -> None:
        """Reset the state: after a fork it belongs to the parent."""
        self._token = secrets.token_hex(9)
        self._places: Sequence[Place] = ()
        self._until = 0.0
        self._finding = Shared(self._find)

    async def close(self) -> None:
        """End a search that is under way."""
        await self._finding.cancel()

    def open(self, place: Place, recovery: Recovery) -> Node:
        """A port to this node."""
        return LoopNode(self._members.at(place), recovery, self._token)

    async def find(self, places: Sequence[Place], within: float) -> list[Place | None]:
        """The primary of each bucket; one search serves all tasks that ask."""
        self._places, self._until = places, boottime() + within
        return await self._finding.wait(
            within, f"{self._members.settings.label} did not report its slots"
        )

    async def _find(self) -> list[Place | None]:
        settings, places = self._members.settings, self._places
        arguments = for_finding(settings, step_of(len(places), self._until - boottime()))
        if settings.kind == "tls":
            arguments["connection_class"] = SSLConnection
        nodes = [ClusterNode(host, port, **arguments) for host, port in places]
        manager = NodesManager(
            nodes,
            require_full_coverage=False,
            connection_kwargs=arguments,
            address_remap=self._members.remap,
        )
        try:
            async with time_limit(self._left()):
                await manager.initialize()
        except TimeoutError as late:
            raise StoreUnavailable(f"{settings.label} did not answer in time") from late
        except FAILURES as wrong:
            raise lost(settings, places, wrong) from None
        finally:
            await _hung_up((*nodes, *manager.nodes_cache.values()))
        return bucket_places(manager.slots_cache)

    def _left(self) -> float:
        return max(0.0, self._until - boottime())

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        return boottime()

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await sleep(seconds)

    async def together(
        self, works: Sequence[Callable[[float], Coroutine[Any, Any, Any]]], until: float
    ) -> list[Any]:
        """Run all at the same time."""
        left = until - boottime()
        if len(works) == 1:
            return [await _outcome(works[0], left)]
        return await asyncio.gather(*(_outcome(work, left) for work in works))


async def _hung_up(nodes: Sequence[ClusterNode]) -> None:
    """Close the connections of all nodes, even if some fail or the caller is cancelled."""
    ends = [node.disconnect() for node in nodes]
    await asyncio.shield(asyncio.gather(*ends, return_exceptions=True))


async def _outcome(work: Callable[[float], Coroutine[Any, Any, Any]], left: float) -> Any:
    # Make the coroutine only here: a task that is cancelled before it begins would never await it.
    try:
        return await work(left)
    except HoldfastError as wrong:
        return wrong
