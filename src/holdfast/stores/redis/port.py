"""The port: the connections to Redis, as the verbs use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ...core.model import Granted
from .recovery import Recovery, Verdict
from .scripts import Call
from .value_keys import Place

#: The reply that a port returns: an int, bytes, a list of these, None, or a ``ServerSaid``.
Reply = Any


class Port(Protocol):
    """Sends requests to the server, and receives the wake-ups of waiters.

    Each verb ends within ``within`` seconds, or raises ``StoreUnavailable``, which names the
    request, the server and the time. An error reply of the server is returned as a value,
    ``ServerSaid``, and not raised. The port itself handles NOSCRIPT: it loads all scripts and sends
    the call again, on the same connection. After an error from a server that isn't primary
    (READONLY, LOADING, MASTERDOWN, MOVED), it returns that reply and drops the connection.

    The reply to an interrupted verb (Ctrl-C, a cancellation) is never read as the reply to another
    verb. Blocking: the connection is dropped. asyncio: the request keeps its place in the order, so
    that an undo that is sent after it can't overtake it.
    """

    #: The name of the server in messages; never with a password.
    label: str
    #: The waiter TTL in seconds.
    patience: float
    #: True if the calls of one batch of renewals must be of one bucket.
    clustered: bool
    #: The recovery, which the port asks when a script requires it. If nothing is granted now, the
    #: reply to a join is ``[6, seconds, cause]``; otherwise the port sends the call again.
    recovery: Recovery
    #: Number of replicas that must confirm a grant or a renewal; if fewer do, the port raises.
    replicas: int

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call over any connection. The port itself sends the call again only if the
        connection was found dead before anything was sent."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many calls in one round trip per server; one answer per call, in order."""
        ...

    def fetch(self, places: Sequence[Place], within: float) -> Awaitable[list[Reply]]:
        """Read the values in these places in one round trip per server: for each place, the
        milliseconds for which its value is kept, and the value. An error reply is an element here,
        too."""
        ...

    def enter(
        self, claim_id: str, call_of: Callable[[bytes], Call], within: float
    ) -> Awaitable[Reply]:
        """Send the join of a claim that may wait, on the connection on which it will wait.

        ``call_of(address)`` makes the call. The address is empty while no connection is subscribed
        to it: a wake-up would find no subscriber, and the server would treat the claim as dead. If
        the reply is that the claim waits (``[2, ...]``), the port then listens for its wake-up
        until ``unlisten``.
        """
        ...

    def addressed(self, claim_id: str) -> bool:
        """True if the join of this waiting claim had an address, or if none is available here."""
        ...

    async def stand(self, claim_id: str, call_of: Callable[[bytes], Call], within: float) -> Reply:
        """Send the call of a waiting claim on the connection on which it waits.

        If the connection isn't subscribed yet, the port subscribes first. If the connection has
        died, the port connects again first, with the same address, because the line of claims
        contains this address.
        """
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim *and* ticket arrives, at most ``seconds``.

        A wake-up that arrived before this call is returned immediately. If the connection has died,
        None is returned immediately: the next ``stand`` makes a new connection.
        """
        ...

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim. Never fails or suspends, even if the claim didn't wait."""
        ...

    async def look(self, within: float) -> Verdict:
        """The present verdict of recovery; no request is sent if recovery is off."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys of all primaries that match, each once, in no order."""
        ...

    async def close(self) -> None:
        """Close the connections that this port made."""
        ...

    def forked(self) -> None:
        """In the child of a fork: forget the parent's connections; connect again when needed."""
        ...
