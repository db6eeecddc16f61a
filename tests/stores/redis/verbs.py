"""The scripts as plain calls on one connection, without the ports above them.

With ``clock`` the test sets the server's TIME. It is in a key that debug copies of the scripts
read, so hours pass immediately, forwards or backwards.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from typing import Any, Self

from holdfast.core.model import (
    Change,
    Claim,
    Held,
    Joined,
    Kind,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Spec,
    Standing,
    Waiting,
)
from holdfast.core.policy import PATIENCE_S
from holdfast.stores.redis import keys, replies
from holdfast.stores.redis.blocking.resp import NOTHING, Parser
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.library import ALL_SCRIPTS, Script, load_command, script_of
from holdfast.stores.redis.scripts import Call, Requests, ending
from tests.servers.redis_server import RedisServer

LABEL = "redis://here"
CLOCK = "clock-of-the-test"
TAG = b"7f"
#: The time at which the test's clock starts.
START = 1_700_000_000.0


def claim(name: str = "refund", ttl: float = 30.0, **other: Any) -> Claim:
    spec = Spec(name, Kind.LOCK, 1, 1, ttl, "somebody", "")._replace(**other)
    return Claim(secrets.token_hex(16), spec)


def permit(capacity: int, weight: int = 1, name: str = "gpu", **other: Any) -> Claim:
    return claim(name, kind=Kind.SEMAPHORE, capacity=capacity, weight=weight, **other)


def fence(standing: Joined | Standing | Exception) -> int:
    assert isinstance(standing, Held), standing
    return standing.fence


def ticket(standing: Joined | Standing | Exception) -> int:
    assert isinstance(standing, Waiting), standing
    return standing.ticket


class Verbs:
    """One connection to a server, on which the scripts are called."""

    def __init__(
        self,
        server: RedisServer,
        clock: bool = False,
        old: bool = False,
        load: bool = True,
        patience: float = PATIENCE_S,
    ) -> None:
        self.client = server.client(protocol=3)
        #: The server's run id, as a connection knows it; empty if recovery is off.
        self.run_id = b""
        self._socket = socket.create_connection((server.host, server.port), 10)
        self._parser = Parser()
        self.requests = Requests(patience=patience)
        self._debug: dict[bytes, Script] = {}
        self._ahead = b""
        for released in ALL_SCRIPTS:
            script = released
            if old:
                script = self._debug[released.sha] = script_of(script.name, script.plain)
            if clock:
                text = script.text.replace(b"'TIME'", b"'HMGET', '%b', 's', 'u'" % CLOCK.encode())
                assert text != script.text
                script = self._debug[released.sha] = script_of(script.name, text)
            loaded = self.raw(load_command(script)) if load else script.sha
            assert loaded == script.sha, loaded

    def at(self, now: float) -> None:
        """Set the time for the scripts; it is sent together with the next request."""
        whole, rest = divmod(round(now * 1_000_000), 1_000_000)
        words = (b"HSET", CLOCK.encode(), b"s", b"%d" % whole, b"u", b"%d" % rest)
        self._ahead = b"*6\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in words)

    def raw(self, wire: bytes) -> Any:
        self._send(wire)
        return self._reply()

    def _send(self, wire: bytes) -> None:
        ahead, self._ahead = self._ahead, b""
        self._socket.sendall(ahead + wire)
        if ahead:
            assert isinstance(self._reply(), int)

    def _reply(self) -> Any:
        while (reply := self._parser.gets()) is NOTHING:
            data = self._socket.recv(1 << 16)
            assert data, "the server has closed the connection"
            self._parser.feed(data, 0, len(data))
        return reply

    def all(self, calls: Sequence[Call]) -> list[Any]:
        """Send many calls, 500 at a time, and return their replies."""
        replied = []
        for start in range(0, len(calls), 500):
            part = calls[start : start + 500]
            self._send(b"".join(self._head(call) + ending(self.run_id) for call in part))
            replied += [self._reply() for _ in part]
        return replied

    def _head(self, call: Call) -> bytes:
        debug = self._debug.get(call.script.sha)
        return call.head.replace(call.script.sha, debug.sha, 1) if debug else call.head

    def ask(self, call: Call, tag: bytes = b"") -> Any:
        """Return the reply to a call, without its tag."""
        reply = self.raw(self._head(call) + ending(self.run_id, tag))
        if tag and not isinstance(reply, ServerSaid):
            assert isinstance(reply, list), reply
            assert reply[0] == tag, reply
            return reply[1]
        return reply

    def join(
        self, wanted: Claim, wait: bool = True, address: bytes = b"", tag: bytes = b""
    ) -> Joined:
        reply = self.ask(self.requests.join(wanted, wait, address), tag)
        return replies.joined(reply, wanted, LABEL)

    def turn(
        self, wanted: Claim, ticket: int = 0, tag: bytes = b"", address: bytes = b""
    ) -> Standing:
        reply = self.ask(self.requests.turn(wanted, address), tag)
        return replies.stood(reply, wanted.spec.ttl, LABEL)

    def change(self, change: Change, tag: bytes = b"") -> Standing:
        return replies.stood(self.ask(self.requests.change(change), tag), change.ttl, LABEL)

    def renew(self, renewals: Sequence[Renewal], tag: bytes = b"") -> list[Standing | Exception]:
        """Renew a batch as the store does: first the plain renewals, then all others."""
        plain = [i for i, renewal in enumerate(renewals) if not renewal.weight]
        batches, wrong = self.requests.batches(renewals, plain, by_bucket=False)
        answers: dict[int, Standing | Exception] = dict(wrong)
        for places, call, _ in batches:
            part = [renewals[i] for i in places]
            found = replies.renewed(self.ask(call, tag), part, LABEL)
            answers |= {i: one for i, one in zip(places, found, strict=True) if one is not None}
        for i, renewal in enumerate(renewals):
            if i not in answers:
                reply = self.ask(self.requests.renew(renewal), tag)
                answers[i] = replies.stood(reply, renewal.ttl, LABEL)
        return [answers[i] for i in range(len(renewals))]

    def leave(self, leave: Leave, tag: bytes = b"") -> bool:
        return replies.left(self.ask(self.requests.leave(leave), tag), LABEL)

    def break_(self, name: str, ticket: int, tag: bytes = b"") -> bool:
        return replies.left(self.ask(self.requests.break_(name, ticket), tag), LABEL)

    def gone(self, left: Claim, ticket: int = 0, **other: Any) -> bool:
        return self.leave(Leave(left.spec.name, left.id, ticket, **other))

    def resize(self, name: str, capacity: int, tag: bytes = b"") -> int | Mismatch | None:
        return replies.resized(self.ask(self.requests.resize(name, capacity), tag), LABEL)

    def look(self, name: str = "refund", tag: bytes = b"") -> LineRecord | None:
        return replies.looked(self.ask(self.requests.inspect(name), tag), name, LABEL)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names with this prefix that have a line, or had one recently."""
        pattern = keys.pattern_of(keys.PREFIX, prefix.encode())
        found = (keys.name_of(keys.PREFIX, key) for key in self.client.scan_iter(pattern))
        return sorted({name for name in found if name and name.startswith(prefix)})

    def keys(self, name: str = "refund") -> tuple[bytes, bytes, bytes, bytes]:
        return keys.keys_of(keys.PREFIX, name.encode())

    def close(self) -> None:
        self._socket.close()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
