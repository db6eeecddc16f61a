"""Recovery: what a client sends and reads when a server may have lost acknowledged data.

A server that restarts without its data would grant a name that is still held. So would a replica
that is promoted before it received the last writes. So a record in the store names the server that
gave the latest grants, by its *run id*, which changes with every start. A client that connects
reads the run id of the server and passes it to the scripts. If the server was promoted, the client
appends its ``second_repl_offset``, because a promotion doesn't change the run id. If the run id
differs from the record, nothing is granted for the *grace period* (`window`). In that time holders
renew and get their holds restored (`reclaim.lua`).

The decision is made in ``lua/recovery.lua``; no driver is imported here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

from ...core.policy import PATIENCE_S
from ...core.ports import NotYet
from ...errors import ConfigError, StoreUnavailable
from .complaints import ServerSaid, complaint, no_redis
from .config import Settings
from .keys import BUCKETS
from .library import EXTEND, JOIN, JOIN_FREE, NEXT, PUT, RECLAIM, RENEW, STAND, TAKE
from .scripts import Call, Requests

log = logging.getLogger("holdfast")

Reply = Any

#: The grace period in seconds by mode, unless the URL sets it. Strict recovery waits for the length
#: of the longest lease. So if a holder can't reach the server during the whole grace period, it has
#: noticed that its hold is lost before another claim is granted.
WINDOW_S = {"off": 0.0, "reclaim": 4.0, "strict": 30.0}
#: A server that started less than this many seconds ago can have replaced another server, whose
#: leases of usual length can still run; see ``lua/recovery.lua``.
YOUNG_S = 30.0
#: Number of checks per grace period by which holders see whether the server is still the same.
LOOKS = 3
#: Maximum milliseconds for replicas to confirm. It is short, because a shared connection serves no
#: other request while it waits for them.
WAIT_MS_MAX = 500
#: The first element of a reply by which a script requires a call of ``lua/recovery.lua``.
ASK_RECOVERY = 6
_RUN_ID = re.compile(rb"^run_id:([0-9a-f]{40})\r?$", re.MULTILINE)
_PROMOTED = re.compile(rb"^second_repl_offset:([0-9]+)\r?$", re.MULTILINE)
_ROLE = re.compile(rb"^role:(\w+)\r?$", re.MULTILINE)
_LIMIT = re.compile(rb"^maxmemory:([0-9]+)\r?$", re.MULTILINE)
_POLICY = re.compile(rb"^maxmemory_policy:([\w-]+)\r?$", re.MULTILINE)
_CAUSES = {
    b"r": "it has just restarted",
    b"p": "it is another server than before: a replica that was promoted, or a copy",
    b"l": "its data was lost: flushed or evicted",
}


class Verdict(NamedTuple):
    """The decision of recovery: the server, the seconds in which nothing is granted, the cause.

    ``record`` is the record in the store that bars grants for the longest time. If no record bars
    grants, ``record`` is the run id. It is empty if recovery is off.
    """

    run_id: bytes
    seconds: float = 0.0
    cause: bytes = b""
    record: bytes = b""


class Known(NamedTuple):
    """The server that a client met last, by its run id.

    ``since`` is the time when the client met it. ``former`` is True if the client had met another
    server before.
    """

    run_id: bytes = b""
    since: float = 0.0
    former: bool = False


class Latest:
    """The highest fence that a client was given, by any server."""

    __slots__ = ("fence",)

    def __init__(self) -> None:
        self.fence = 0


class Told:
    """The warnings that a client has already logged, about any node."""

    __slots__ = ("evicts", "no_recovery")

    def __init__(self) -> None:
        self.evicts = self.no_recovery = False


class Unconfirmed(StoreUnavailable):
    """Fewer replicas than asked for have confirmed a grant or a renewal."""


class Recovery:
    """The requests, replies and state of recovery for one port; ``mode`` is set in the URL.

    ``now`` returns the seconds of a monotonic clock.
    """

    def __init__(self, settings: Settings, now: Callable[[], float] = float) -> None:
        self._now = now
        self.mode = settings.recovery
        self.window = settings.grace or WINDOW_S[self.mode]
        self.label = settings.label
        self.on = self.mode != "off"
        strict = self.mode == "strict"
        if strict and self.window < PATIENCE_S:
            raise ConfigError(
                f"{self.label}: grace={self.window:g} is too short for recovery=strict: it must "
                f"be at least {PATIENCE_S:g} seconds, because a waiter stays in the line for that "
                "time without renewal"
            )
        self._strict = strict
        self._requests = Requests(settings.prefix)
        self._known = Known()
        self.latest = Latest()
        #: Requests on every new connection. The request for ``memory`` shows if keys can be
        #: evicted. It is sent even if recovery is off.
        sections = (b"server", b"replication", b"memory") if self.on else (b"memory",)
        self.hello: Sequence[tuple[bytes, ...]] = [(b"INFO", section) for section in sections]
        self._told = Told()

    def look(self) -> Call:
        """A request for one bucket's record, which is enough: all records are lost together."""
        return self._call([0])

    def asked(self, bucket: int) -> Call:
        """The request for all records, for use after a script required recovery."""
        return self._call(range(BUCKETS))

    def scope(self, bucket: int) -> int:
        """A number for this bucket. Buckets with the same number share one request of `asked`."""
        return 0

    def _call(self, buckets: Sequence[int]) -> Call:
        known = self._known
        seconds = self._now() - known.since if known.run_id else 0.0
        return self._requests.recovery(
            buckets,
            self.window,
            self._strict,
            seconds,
            known.former,
            self.latest.fence,
            known.run_id,
        )

    def of_node(self) -> Self:
        """The recovery for another node of this client. The client hasn't met that node yet."""
        other = copy(self)
        other._known = Known()
        return other

    def _meet(self, run_id: bytes) -> None:
        known = self._known
        if run_id and run_id != known.run_id:
            self._known = Known(run_id, self._now(), bool(known.run_id))

    def server(self, said: Sequence[Reply]) -> bytes:
        """The run id from the replies to `hello`; empty if it is hidden or recovery is off."""
        texts = [bytes(one) if isinstance(one, bytes | bytearray) else b"" for one in said]
        for odd in texts:
            if odd and b":" not in odd:
                raise ConfigError(no_redis(self.label, f"it answers INFO with {odd[:40]!r}"))
        if not self.on:
            self._keeps_all(b"".join(texts))
            return b""
        found, role = _RUN_ID.search(texts[0]), _ROLE.search(texts[1])
        if role and role[1] != b"master":
            raise StoreUnavailable(
                f"{self.label} can't do that now: it is a replica now (role {role[1].decode()})"
            )
        if not (found and role):
            refusal = next((one for one in said if isinstance(one, ServerSaid)), None)
            if refusal is not None:
                wrong = complaint(refusal, self.label)
                if isinstance(wrong, StoreUnavailable):  # temporary: the next connection can ask
                    raise wrong
            self._unavailable(f" ({refusal})" if refusal else "")
            return b""
        self._keeps_all(texts[2])
        promoted = _PROMOTED.search(texts[1])
        run_id = found[1] + (b"." + promoted[1] if promoted else b"")
        self._meet(run_id)
        return run_id

    def _keeps_all(self, memory: bytes) -> None:
        limit, policy = _LIMIT.search(memory), _POLICY.search(memory)
        if not (limit and policy) or limit[1] == b"0" or policy[1] == b"noeviction":
            return
        if self.mode == "strict":
            raise ConfigError(
                f"{self.label} can evict keys ({policy[1].decode()}), so recovery=strict can't "
                "keep its promise: set maxmemory-policy to noeviction"
            )
        if not self._told.evicts:
            self._told.evicts = True
            log.error(
                "%s can evict keys (maxmemory-policy %s): an evicted lock is free while its holder "
                "still works. Set maxmemory-policy to noeviction, or use a separate server for "
                "locks",
                self.label,
                policy[1].decode(),
            )

    def _unavailable(self, why: str) -> None:
        if not self._told.no_recovery:
            self._told.no_recovery = True
            log.warning(
                "%s doesn't report its run id%s, so a restart without data or a fail-over isn't "
                "noticed, and there is no recovery; give the right to INFO, or set recovery=off",
                self.label,
                why,
            )

    def unconfirmed(self, said: Reply, replicas: int) -> Unconfirmed | None:
        """The error if too few replicas have confirmed; ``said`` is the reply to WAIT."""
        if isinstance(said, int) and said >= replicas:
            return None
        return Unconfirmed(f"{self.label}: {said} of {replicas} replicas have confirmed in time")

    def verdict(self, reply: Reply) -> Verdict | ServerSaid:
        """Read the reply to `look` or `asked`."""
        match reply:
            case [bytes() as run_id]:
                return Verdict(run_id, record=run_id)
            case [bytes() as run_id, int() as ms, bytes() as cause, bytes() as record]:
                if not run_id:
                    self._unavailable("")
                self._meet(run_id)
                return Verdict(run_id, ms / 1000, cause, record)
            case ServerSaid():
                return reply
        return ServerSaid("ERR", f"no reply of the script of recovery: {reply!r:.80}")


class ClusterRecovery(Recovery):
    """Recovery in a cluster: each record is in a separate slot, so a node has only some of them."""

    def asked(self, bucket: int) -> Call:
        """The request for this bucket's record, for use after a script required recovery."""
        return self._call([bucket])

    def scope(self, bucket: int) -> int:
        """A number for this bucket. Buckets with the same number share one request of `asked`."""
        return bucket


def grants(call: Call, reply: Reply) -> bool:
    """True if after this reply a client holds a name, or treats a job as accepted."""
    if call.script is PUT:
        return True
    if call.script in (RENEW, JOIN_FREE, EXTEND):
        return reply.__class__ is list and not asks(reply)
    if call.script not in (JOIN, STAND, RECLAIM, TAKE, NEXT):
        return False
    return reply.__class__ is int or (reply.__class__ is list and reply[:1] == [1])


def wait_words(replicas: int, left: float) -> tuple[bytes, ...]:
    """The command that waits until ``replicas`` replicas have all writes of this connection."""
    return b"WAIT", b"%d" % replicas, b"%d" % max(1, min(WAIT_MS_MAX, left * 900))


def asks(reply: Reply) -> bool:
    """True if a script replied that recovery must be asked first."""
    return reply.__class__ is list and len(reply) > 0 and reply[0] == ASK_RECOVERY


def still_barred(call: Call, reply: Reply, verdict: Verdict) -> Reply:
    """The reply to a call while nothing is granted; None if the call must be sent again."""
    if not verdict.seconds:
        return None
    if call.script in (JOIN, TAKE):
        return [ASK_RECOVERY, verdict.seconds, verdict.cause]
    return reply if call.script in (STAND, JOIN_FREE) else None


def barred(label: str, seconds: float, cause: bytes) -> NotYet:
    """The error for a new request while nothing is granted."""
    why = _CAUSES.get(cause, "it is another server than before")
    return NotYet(
        f"{label} grants nothing for {seconds:.1f} s more: {why}, and its holders must be able to "
        "renew first (recovery= in the URL)",
        seconds,
    )
