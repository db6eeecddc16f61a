"""The guard against a server that has lost what it had acknowledged: its questions and answers.

A server that starts again without its data, or a replica that is promoted before it saw the last
writes, would grant a second time what is held. So a record beside the lines says which server
gave the latest grants, by its *run id*, which is a new one with every start. Whoever connects
reads the server's run id (with a number behind it once it was promoted) and hands it to the
scripts. If it isn't that of the record, nobody is
let in for a while, the *window*, in which those who hold say so and are put back (`reclaim.lua`).

How it is decided stands in ``lua/guard.lua``; no driver is known here.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.policy import PATIENCE_S
from ...core.ports import NotYet
from ...errors import ConfigError, StoreUnavailable
from .complaints import ServerSaid
from .config import Settings
from .keys import BUCKETS
from .library import EXTEND, JOIN, JOIN_FREE, KEEP, NEXT, PUT, RECLAIM, STAND, TAKE
from .scripts import Call, Requests

log = logging.getLogger("holdfast")

Reply = Any

#: How long nobody is let in, unless the URL says otherwise. It is known to the second since when a
#: server is up, so one that is up for 5 s is older than the usual window. A strict guard waits for
#: as long as a lease may last: whoever is cut off meanwhile has lost it by then, and knows it.
WINDOW_S = {"off": 0.0, "reclaim": 4.0, "strict": 30.0}
#: So often in a window those who hold look whether the server is still the one that they know.
LOOKS = 3
#: Replicas are given this long to confirm; on a shared connection all else waits meanwhile.
WAIT_MS_MAX = 500
#: The guard has to be asked: what a script answers then.
ASK_GUARD = 6
#: Whoever asked has to wait, and has a place to wait at.
WAITS = 2
_RUN_ID = re.compile(rb"^run_id:([0-9a-f]{40})\r?$", re.MULTILINE)
_PROMOTED = re.compile(rb"^second_repl_offset:([0-9]+)\r?$", re.MULTILINE)
_ROLE = re.compile(rb"^role:(\w+)\r?$", re.MULTILINE)
_LIMIT = re.compile(rb"^maxmemory:([0-9]+)\r?$", re.MULTILINE)
_POLICY = re.compile(rb"^maxmemory_policy:([\w-]+)\r?$", re.MULTILINE)
_CAUSES = {
    b"r": "it started again lately",
    b"p": "it is another server than before: a replica that was promoted, or a copy",
    b"l": "its data was lost: flushed or evicted",
}


class Verdict(NamedTuple):
    """What the guard says: of which server, for how many seconds nobody is let in, and why.

    ``record`` is another one when something has happened; empty if there is no guard.
    """

    run_id: bytes
    seconds: float = 0.0
    cause: bytes = b""
    record: bytes = b""


class Unconfirmed(StoreUnavailable):
    """Fewer replicas than asked for have confirmed a grant or a renewal."""


class Guard:
    """What a port needs to know of the guard; ``mode`` is that of the URL."""

    def __init__(self, settings: Settings) -> None:
        self.mode = settings.guard
        self.window = settings.grace or WINDOW_S[self.mode]
        self.label = settings.label
        self.on = self.mode != "off"
        strict = self.mode == "strict"
        if strict and self.window < PATIENCE_S:
            raise ConfigError(
                f"{self.label}: grace={self.window:g} is too short for guard=strict; a claim that "
                f"waits may be believed for {PATIENCE_S:g} seconds, so it must be at least that"
            )
        requests = Requests(settings.prefix)
        #: A look at one record, and at all of them: a server that forgets, forgets them together.
        self.look = requests.guard([0], self.window, strict)
        self.all = requests.guard(range(BUCKETS), self.window, strict)
        #: What is asked on every new connection.
        self.hello: Sequence[tuple[bytes, ...]] = ()
        if self.on:
            sections = [b"server", b"replication", *([b"memory"] if strict else [])]
            self.hello = [(b"INFO", section) for section in sections]
        self._told = False

    def asked(self, bucket: int) -> Call:
        """What is asked where a script of this bucket wants it."""
        return self.all

    def server(self, said: Sequence[Reply]) -> bytes:
        """The run id from the answers to `hello`, or nothing if the server hides it."""
        texts = [bytes(one) if isinstance(one, bytes | bytearray) else b"" for one in said]
        if not texts:
            return b""
        found, role = _RUN_ID.search(texts[0]), _ROLE.search(texts[1])
        if role and role[1] != b"master":
            raise StoreUnavailable(
                f"{self.label} can't do that now: it is a replica by now (role {role[1].decode()})"
            )
        if not (found and role):
            refusal = next((one for one in said if isinstance(one, ServerSaid)), None)
            self._unavailable(f" ({refusal})" if refusal else "")
            return b""
        if self.mode == "strict":
            self._keeps_all(texts[2])
        promoted = _PROMOTED.search(texts[1])
        return found[1] + (b"." + promoted[1] if promoted else b"")

    def _keeps_all(self, memory: bytes) -> None:
        limit, policy = _LIMIT.search(memory), _POLICY.search(memory)
        if limit and policy and limit[1] != b"0" and policy[1] != b"noeviction":
            raise ConfigError(
                f"{self.label} may evict keys ({policy[1].decode()}), so guard=strict can't keep "
                "its promise: set maxmemory-policy to noeviction"
            )

    def _unavailable(self, why: str) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "%s doesn't say which server it is%s, so there is no guard against a restart "
                "without data or a fail-over; give the right to INFO, or say guard=off",
                self.label,
                why,
            )

    def unconfirmed(self, said: Reply, replicas: int) -> Unconfirmed | None:
        """The error, if too few replicas have confirmed; ``said``: the answer to WAIT."""
        if isinstance(said, int) and said >= replicas:
            return None
        return Unconfirmed(f"{self.label}: {said} of {replicas} replicas have confirmed in time")

    def verdict(self, reply: Reply) -> Verdict | ServerSaid:
        """The answer to `look` or `all`."""
        match reply:
            case [bytes() as run_id]:
                return Verdict(run_id, record=run_id)
            case [bytes() as run_id, int() as ms, bytes() as cause, bytes() as record]:
                if not run_id:
                    self._unavailable("")
                return Verdict(run_id, ms / 1000, cause, record)
            case ServerSaid():
                return reply
        return ServerSaid("ERR", f"no answer of the guard: {reply!r:.80}")


class ClusterGuard(Guard):
    """Of a cluster: a node has only some of the records, each in a slot of its own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        requests, strict = Requests(settings.prefix), self.mode == "strict"
        self._of = [requests.guard([one], self.window, strict) for one in range(BUCKETS)]

    def asked(self, bucket: int) -> Call:
        """What is asked where a script of this bucket wants it."""
        return self._of[bucket]


def grants(call: Call, reply: Reply) -> bool:
    """Does somebody hold by this answer, or believe that a job is accepted?"""
    if call.script is PUT:
        return True
    if call.script in (KEEP, JOIN_FREE, EXTEND):
        return reply.__class__ is list and not asks(reply)
    if call.script not in (JOIN, STAND, RECLAIM, TAKE, NEXT):
        return False
    return reply.__class__ is int or (reply.__class__ is list and reply[0] == 1)


def wait_words(replicas: int, left: float) -> tuple[bytes, ...]:
    """Wait until so many replicas have all that this connection has written."""
    return b"WAIT", b"%d" % replicas, b"%d" % max(1, min(WAIT_MS_MAX, left * 900))


def asks(reply: Reply) -> bool:
    """Does a script say that the guard has to be asked?"""
    return reply.__class__ is list and reply[0] == ASK_GUARD


def still_barred(call: Call, reply: Reply, verdict: Verdict) -> Reply:
    """What a call is answered as long as nobody is let in; None: it may be sent again."""
    if not verdict.seconds:
        return None
    if call.script is JOIN:
        return [ASK_GUARD, verdict.seconds, verdict.cause]
    if call.script is TAKE:
        return [WAITS, min(1000, math.ceil(verdict.seconds * 1000))]
    return reply if call.script in (STAND, JOIN_FREE) else None


def barred(label: str, seconds: float, cause: bytes) -> NotYet:
    """The error for somebody who wants to get in meanwhile."""
    why = _CAUSES.get(cause, "it isn't the server that it was")
    return NotYet(
        f"{label} lets nobody in for {seconds:.1f} s more: {why}, and who holds may have to say so "
        "first (its option guard=)",
        seconds,
    )
