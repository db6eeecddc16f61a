"""The five verbs on Redis: which script each of them is, and what its answer means.

Nothing here knows a socket. A request is a ``Call`` (``scripts.py``): a script with its keys and
arguments, packed into the bytes that go over the wire. A port brings it to the server, for
threads (``blocking/``) or for one event loop (``aio/``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...core.model import Granted

if TYPE_CHECKING:
    from .scripts import Call, Reply


class Port(Protocol):
    """How requests reach the server, and how a waiter hears that it was served.

    Each verb is over within ``within`` seconds, or raises ``StoreUnavailable`` and says what was
    asked, of whom, for how long. What the server answers is a ``Reply``; an error reply is the
    value ``ServerSaid``, not raised. The port itself deals with NOSCRIPT (it loads all scripts and
    sends the call again, on the same connection), and it drops a connection that said that it
    leads to no master (READONLY, LOADING, MASTERDOWN, MOVED), after handing that answer on.

    A verb that is interrupted (Ctrl-C, a cancellation) never leaves its reply to be read by
    another. Blocking: the connection is dropped. asyncio: the request keeps its slot, so that an
    undo that is sent after it can't overtake it.
    """

    #: What people see in messages; never with a password.
    label: str
    #: Seconds that a waiting claim lives without being kept.
    patience: float
    #: Must the calls of one batch of renewals be of one bucket?
    clustered: bool

    async def ask(self, call: Call, within: float) -> Reply:
        """Send one call over any connection. Sent again by the port itself only if the
        connection was found dead before anything was sent."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many in one round trip (one per server); one answer per call, in order."""
        ...

    async def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> tuple[Reply, bool]:
        """The join of somebody who may wait, sent where the claim will wait.

        ``call_of(address)`` makes the call; the address is empty while nothing is subscribed
        there: a poke to it would be lost, and the claim taken for dead. Also says whether it had
        an address. If the reply says that the claim waits (``[2, ...]``), it has a place to wait at
        from now on, until ``unlisten``.
        """
        ...

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send a waiting claim's call on the connection on which it waits.

        Subscribes first where that isn't done yet, and connects again first if the connection
        has died: under the same address, which the line knows.
        """
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the poke for this claim *and* ticket is here, or for ``seconds``.

        What has been read already comes first. None, at once, if the connection has died: the
        next ``stand`` makes a new one.
        """
        ...

    def unlisten(self, claim_id: str) -> None:
        """The claim waits no more. Never fails, never suspends; does nothing if it never did."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of all masters that match, each once, in no order."""
        ...

    async def close(self) -> None:
        """End the connections that are ours."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's connections, and start lazily."""
        ...
