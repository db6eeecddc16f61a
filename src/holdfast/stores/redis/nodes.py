"""What a cluster's port needs: from a port to one node, and from threads or asyncio.

No driver is known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from ...core.model import Granted
from .complaints import ServerSaid
from .guard import Guard, Reply, Verdict
from .scripts import Call
from .topology import Place
from .value_keys import Place as Keys


class Node(Protocol):
    """A port to one node of the cluster."""

    #: It knows this node, and what was there before.
    guard: Guard

    @property
    def label(self) -> str:
        """What people see."""
        ...

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """As of any port; MOVED and the like are replies."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """As of any port."""
        ...

    async def asking(self, call: Call, within: float) -> Reply:
        """The same for a slot that is just being taken over."""
        ...

    def fetch(self, places: Sequence[Keys], within: float) -> Awaitable[list[Reply]]:
        """As of any port; MOVED and the like are replies."""
        ...

    async def fetch_asking(self, place: Keys, within: float) -> list[Reply]:
        """The same for a slot that is just being taken over."""
        ...

    def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        """As of any port."""
        ...

    def addressed(self, claim_id: str) -> bool:
        """As of any port."""
        ...

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """As of any port."""
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """As of any port; None also when the slot has moved away."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """As of any port."""
        ...

    def seat(self, claim_id: str, address: bytes) -> None:
        """The claim waits here from now on; the line knows it by this address."""
        ...

    def address(self, claim_id: str) -> bytes:
        """By which the line knows a claim that waits here."""
        ...

    async def look_at(self, bucket: int, within: float) -> Verdict | ServerSaid:
        """What the guard says of this bucket."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of this node that match."""
        ...

    async def retire(self) -> None:
        """It has no slots any more: end the connections that nobody uses."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    def forked(self) -> None:
        """We are the child of a fork."""
        ...


class Face(Protocol):
    """What differs between threads and asyncio, beside the nodes."""

    def open(self, place: Place, guard: Guard) -> Node:
        """A port to this node; it connects with the first call."""
        ...

    async def find(self, places: Sequence[Place], within: float) -> list[Place | None]:
        """The primary of each bucket, as one of these nodes tells it."""
        ...

    def now(self) -> float:
        """Seconds, on a clock that is never set."""
        ...

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        ...

    async def together(
        self, works: Sequence[Callable[[float], Coroutine[Any, Any, Any]]], until: float
    ) -> list[Any]:
        """Have all done until then; each is told its time. A failure of ours is a result."""
        ...

    async def close(self) -> None:
        """Find nothing out any more."""
        ...

    def forked(self) -> None:
        """We are the child of a fork."""
        ...


def looked(node: Node, bucket: int) -> Callable[[float], Coroutine[Any, Any, Any]]:
    """What asks a node what its guard says of a bucket."""
    return lambda within: node.look_at(bucket, within)


def scanned(node: Node, pattern: bytes) -> Callable[[float], Coroutine[Any, Any, Any]]:
    """What asks a node for its keys that match."""
    return lambda within: node.scan(pattern, within)
