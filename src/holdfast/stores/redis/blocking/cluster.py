"""A cluster for threads: redis-py reads the slots of each node from any node that answers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from redis import exceptions as said
from redis.cluster import ClusterNode, NodesManager

from ....errors import ConfigError, HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ..cluster import ClusterPort
from ..complaints import rules, without_arguments
from ..config import Settings
from ..nodes import Node
from ..recovery import ClusterRecovery, Recovery
from ..slots import BUCKET_SLOTS
from ..topology import Members, Place, shown
from .dial import error_of, unreachable
from .sentinel import hurried, step_of
from .shard import ThreadNode

#: Exceptions of redis-py if its search found nothing; IndexError means that no node has a slot.
FAILURES = (said.RedisError, said.RedisClusterException, OSError, IndexError)
_node: Any = ClusterNode
_manager: Any = NodesManager


def open_cluster(members: Members) -> ClusterPort:
    """The port for threads."""
    return ClusterPort(members, ThreadFace(members), ClusterRecovery(members.settings, boottime))


class ThreadFace:
    """See :class:`holdfast.stores.redis.nodes.Face`."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._token = secrets.token_hex(9)

    def open(self, place: Place, recovery: Recovery) -> Node:
        """A port to this node."""
        return ThreadNode(self._members.at(place), recovery, self._token)

    async def find(self, places: Sequence[Place], within: float) -> list[Place | None]:
        """The primary of each bucket."""
        settings = self._members.settings
        step = step_of(len(places), within)
        try:
            manager = _manager(
                [_node(host, port) for host, port in places],
                address_remap=self._members.remap,
                **for_finding(settings, step),
                **({"ssl": True} if settings.kind == "tls" else {}),
            )
        except FAILURES as wrong:
            raise lost(settings, places, wrong) from None
        manager.close()
        return bucket_places(manager.slots_cache)

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        return boottime()

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    async def together(
        self, works: Sequence[Callable[[float], Coroutine[Any, Any, Any]]], until: float
    ) -> list[Any]:
        """Run the works one after the other, each with its share of the remaining time."""
        found: list[Any] = []
        for number, work in enumerate(works):
            share = (until - boottime()) / (len(works) - number)
            try:
                found.append(await work(share))
            except HoldfastError as wrong:
                found.append(wrong)
        return found

    async def close(self) -> None:
        """Do nothing: no work is under way between calls."""

    def forked(self) -> None:
        """Make new addresses in the child of a fork: the parent still listens at the old ones."""
        self._token = secrets.token_hex(9)


#: Arguments of a connection that redis-py's search for nodes doesn't accept, or accepts by another
#: name.
_ELSEWHERE = ("db", "host", "port")


def for_finding(settings: Settings, step: float) -> dict[str, Any]:
    """Arguments for redis-py's own connections; each step of them may take ``step`` seconds."""
    kept = {key: one for key, one in settings.arguments.items() if key not in _ELSEWHERE}
    return {**kept, **hurried(step), "protocol": 2}


def bucket_places(slots: dict[int, list[Any]]) -> list[Place | None]:
    """The primary of each bucket, as redis-py has found it."""
    found = [slots.get(slot) for slot in BUCKET_SLOTS]
    return [(nodes[0].host, int(nodes[0].port)) if nodes else None for nodes in found]


def lost(settings: Settings, places: Sequence[Place], wrong: Exception) -> HoldfastError:
    """The error if no node reports where the slots are."""
    if isinstance(wrong, IndexError):
        return StoreUnavailable(f"no node of {settings.label} has a slot: was the cluster created?")
    cause: BaseException | None = wrong
    while cause is not None:
        if isinstance(cause, said.AuthenticationError):
            return error_of(settings, cause)
        if isinstance(cause, said.NoPermissionError) or "not enabled" in str(cause):
            return ConfigError(
                f"{settings.label} can't be used as a cluster: the server isn't a node of one "
                "(then write redis://), or the user lacks a right: "
                + rules(str(settings.arguments.get("username") or "default"), "+cluster|slots")
            )
        cause = cause.__cause__
    found = unreachable(settings, wrong)
    if isinstance(found, ConfigError):
        return found
    nodes = ", ".join(map(shown, places))
    text = " ".join(without_arguments(str(wrong)).split())
    return StoreUnavailable(f"{settings.label} can't be reached at any of {nodes}: {text}")
