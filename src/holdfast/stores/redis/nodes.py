"""Protocols that a cluster's port uses: a port to one node; the face, for threads or asyncio.

No driver is imported here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from ...core.model import Granted
from .complaints import ServerSaid
from .recovery import Recovery, Reply, Verdict
from .scripts import Call
from .topology import Place
from .value_keys import Place as Keys


class Node(Protocol):
    """A port to one node of the cluster. "Any port" is ``store.Port``."""

    #: The recovery for this node: knows the node's run id, and if another server was here before.
    recovery: Recovery

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        ...

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """As in any port; MOVED and similar errors are replies."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """As in any port."""
        ...

    async def asking(self, call: Call, within: float) -> Reply:
        """Send a call for a slot that is moving to this node."""
        ...

    def fetch(self, places: Sequence[Keys], within: float) -> Awaitable[list[Reply]]:
        """As in any port; MOVED and similar errors are replies."""
        ...

    async def fetch_asking(self, place: Keys, within: float) -> list[Reply]:
        """Read a value of a slot that is moving to this node."""
        ...

    def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        """As in any port."""
        ...

    def addressed(self, claim_id: str) -> bool:
        """As in any port."""
        ...

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """As in any port."""
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """As in any port; None also when the slot has moved away."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """As in any port."""
        ...

    def seat(self, claim_id: str, address: bytes) -> None:
        """Register a claim that waits at this node; its line of claims contains this address."""
        ...

    def address(self, claim_id: str) -> bytes:
        """The address of a claim that waits at this node, as its line of claims contains it."""
        ...

    async def look_at(self, bucket: int, within: float) -> Verdict | ServerSaid:
        """The verdict of recovery on this bucket."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of this node that match the pattern."""
        ...

    async def retire(self) -> None:
        """Close the connections that are not in use: the node no longer has slots."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...

    def forked(self) -> None:
        """Reset in the child of a fork."""
        ...


class Face(Protocol):
    """The parts of a cluster's port that differ between threads and asyncio, except the nodes."""

    def open(self, place: Place, recovery: Recovery) -> Node:
        """A port to this node; it connects with the first call."""
        ...

    async def find(self, places: Sequence[Place], within: float) -> list[Place | None]:
        """The primary of each bucket, as reported by one of these nodes."""
        ...

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        ...

    async def together(
        self, works: Sequence[Callable[[float], Coroutine[Any, Any, Any]]], until: float
    ) -> list[Any]:
        """Call each function with the seconds that it may take, so that all end by ``until``.
        Return the results; the result of a function that fails is its exception."""
        ...

    async def close(self) -> None:
        """Stop looking for primaries."""
        ...

    def forked(self) -> None:
        """Reset in the child of a fork."""
        ...


def looked(node: Node, bucket: int) -> Callable[[float], Coroutine[Any, Any, Any]]:
    """A function that asks a node for the verdict of recovery on a bucket."""
    return lambda within: node.look_at(bucket, within)


def scanned(node: Node, pattern: bytes) -> Callable[[float], Coroutine[Any, Any, Any]]:
    """A function that asks a node for its keys that match the pattern."""
    return lambda within: node.scan(pattern, within)
