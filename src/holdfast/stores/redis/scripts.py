"""The verbs as requests: Lua scripts, and packed commands that call them.

A `Call` is a whole EVALSHA command, packed, without its last two arguments. Only the connection
knows these two: the *run id* of the server to which it leads, for recovery, and a *tag*::

    call.head + ending(run_id)             the connection isn't shared: the bare reply
    call.head + ending(run_id, b"7f")      it is shared: the reply is [b"7f", reply], always
    call.head + UNTAGGED                   no recovery, no tag

The tag shows to which request a reply belongs. Error replies carry no tag: the order of all replies
shows their requests. `replies` turns each reply into the data types of the contract.

The bytes that all claims of one `Spec` share are packed once; each join only adds its claim's id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...core.model import Change, Claim, Held, Leave, Renewal, Spec
from ...core.policy import PATIENCE_S, TOMB_S
from ...errors import ConfigError
from .keys import PREFIX, bucket_of, keys_of, recovery_of, state_of
from .library import (
    INSPECT,
    JOIN,
    JOIN_FREE,
    LEAVE,
    LEAVE_ALL,
    RECLAIM,
    RECOVERY,
    RENEW,
    RESIZE,
    STAND,
    Script,
    tail,
)

#: The last two arguments of a call without recovery and tag.
UNTAGGED = b"$0\r\n\r\n$0\r\n\r\n"
#: Maximum number of claims in one call of renew.
BATCH_MAX = 100
#: Maximum length of an address in bytes.
ADDRESS_MAX = 255
_KNOWN_MAX = 2048
_TOGETHER_MAX = 256
_ID_BYTES = 32
#: The manner of a join: whether the claim waits, and its address.
_How = tuple[bool, bytes]
#: The common part of the joins of a spec: their manner, the bucket, the bytes before the id.
_Known = tuple[_How, int, bytes]
#: Makes a named tuple without calling its ``__new__``, which is slower; every request needs one.
_new = tuple.__new__


class Call(NamedTuple):
    """One request: all of its bytes except the last two arguments."""

    script: Script
    bucket: int
    head: bytes

    def for_old(self) -> Call:
        """The same call for a server before 7.0 (see `Script`)."""
        script = self.script
        return self._replace(head=self.head.replace(script.sha, script.plain_sha, 1))


class Ready(NamedTuple):
    """A plain renewal of a held claim, packed, and its answer if it succeeds."""

    bucket: int
    key: bytes
    args: bytes
    held: Held


class Batch(NamedTuple):
    """Renewals that are sent in one call; ``places`` are their indexes in the whole batch."""

    places: list[int]
    call: Call
    held: list[Held]


def ending(run_id: bytes, tag: bytes = b"") -> bytes:
    """The last two arguments of a call on a connection to this server; see the module."""
    return tail(run_id) + tail(tag)


def _ms(seconds: float) -> bytes:
    """Milliseconds, rounded up.

    >>> _ms(0.0101)
    b'11'
    """
    return b"%d" % math.ceil(round(seconds * 1000, 6))


def _id(text: str) -> bytes:
    packed_id = text.encode()
    if len(packed_id) != _ID_BYTES:
        raise ConfigError(f"a claim's id has {_ID_BYTES} bytes, not {len(packed_id)}")
    return packed_id


def _words(spec: Spec) -> bytes:
    """The part of a spec that scripts store with a claim; they interpret only the numbers."""
    owner = spec.owner.encode()
    kind = spec.kind.encode()[:1]
    numbers = b"%d %b %d %d " % (spec.weight, kind, spec.capacity, len(owner))
    return numbers + owner + spec.meta.encode()


def opening(script: Script, keys: int, args: int) -> bytes:
    """The beginning of an EVALSHA up to its keys; ``args`` doesn't count the last two arguments."""
    head = b"*%d\r\n$7\r\nEVALSHA\r\n" % (3 + keys + args + 2)
    return head + tail(script.sha) + tail(b"%d" % keys)


def _start(script: Script, keys: Sequence[bytes], args: int) -> bytes:
    """The beginning of an EVALSHA, including its keys."""
    return opening(script, len(keys), args) + b"".join(map(tail, keys))


def _together(ready: Sequence[Ready]) -> Call:
    """One call for renewals; in a cluster, for those of one bucket. Answer: `replies.renewed`."""
    count = len(ready)
    parts = [opening(RENEW, count, 2 * count)]
    parts += [one.key for one in ready]
    parts += [one.args for one in ready]
    return Call(RENEW, ready[0].bucket, b"".join(parts))


class Requests:
    """Builds calls for one store: ``prefix`` begins its keys, ``patience`` is the waiter TTL.

    "Answer" names the function that reads the reply. Every method may be called from any thread. A
    name, owner or note that can't be encoded in UTF-8 raises UnicodeEncodeError.
    """

    def __init__(self, prefix: str = PREFIX, patience: float = PATIENCE_S) -> None:
        self.prefix = prefix
        self.patience = patience
        self._patience = _ms(patience)
        #: By spec: the manner of its last join, the bucket, and all bytes except the id.
        self._joins: dict[Spec, _Known] = {}
        #: By specs that join together: the bucket of the first, and all bytes except the ids.
        self._together: dict[tuple[Spec, ...], tuple[int, bytes]] = {}
        #: By names that are released together: the bucket of the first, all bytes except the ids.
        self._apart: dict[tuple[str, ...], tuple[int, bytes]] = {}
        #: By name: the bucket, and all bytes of a plain leave except the id.
        self._leaves: dict[str, tuple[int, bytes]] = {}

    def join(self, claim: Claim, wait: bool, address: bytes = b"") -> Call:
        """Enter the line of claims. ``address``: the channel for the wake-up; empty while no
        listener is subscribed to this channel. Answer: `replies.joined`."""
        spec = claim.spec
        how = (wait, address)
        known = self._joins.get(spec)
        if known is None or known[0] != how:
            known = self._learn_join(spec, how)
        claim_id = claim.id.encode()
        if len(claim_id) != _ID_BYTES:
            claim_id = _id(claim.id)
        return _new(Call, (JOIN, known[1], known[2] + claim_id + b"\r\n"))

    def _learn_join(self, spec: Spec, how: _How) -> _Known:
        wait, address = how
        if len(address) > ADDRESS_MAX:
            raise ConfigError(f"an address has at most {ADDRESS_MAX} bytes, not {len(address)}")
        name = spec.name.encode()
        start = _start(JOIN, keys_of(self.prefix, name), 4)
        waiting = b"%b%b %b" % (b"" if wait else b"-", self._patience, address)
        args = (_ms(spec.ttl), _words(spec), waiting)
        before = start + b"".join(map(tail, args)) + b"$%d\r\n" % _ID_BYTES
        if len(self._joins) >= _KNOWN_MAX:
            self._joins.clear()
        known = self._joins[spec] = (how, bucket_of(name), before)
        return known

    def leave(self, leave: Leave) -> Call:
        """Withdraw or release. Answer: `replies.left`."""
        if leave.after > 0 or leave.suspect:
            buried = _ms(leave.ttl + TOMB_S) if leave.suspect else b"0"
            args = _id(leave.id), b"%d" % leave.ticket, _ms(max(0.0, leave.after)), buried
            return self._call(LEAVE, leave.name, *args)
        known = self._leaves.get(leave.name)
        if known is None:
            known = self._learn_leave(leave.name)
        claim_id = leave.id.encode()
        if len(claim_id) != _ID_BYTES:
            claim_id = _id(leave.id)
        return _new(Call, (LEAVE, known[0], known[1] + claim_id + b"\r\n"))

    def _learn_leave(self, text: str) -> tuple[int, bytes]:
        name = text.encode()
        state, waiters, _, recovery = keys_of(self.prefix, name)
        shared = _start(LEAVE, (state, waiters, recovery), 1) + b"$%d\r\n" % _ID_BYTES
        if len(self._leaves) >= _KNOWN_MAX:
            self._leaves.clear()
        known = self._leaves[text] = (bucket_of(name), shared)
        return known

    def break_(self, name: str, ticket: int) -> Call:
        """End a claim by its ticket. Answer: `replies.left`."""
        return self._call(LEAVE, name, b"", b"%d" % ticket, b"0", _ms(TOMB_S))

    def batches(
        self, renewals: Sequence[Renewal], among: Iterable[int], by_bucket: bool
    ) -> tuple[list[Batch], dict[int, Exception]]:
        """Calls for plain renewals, and the errors of renewals that can't be packed.

        ``among``: the indexes of the renewals to pack. ``by_bucket``: for a cluster, where all keys
        of a call are in one bucket.
        """
        groups: dict[int, tuple[list[int], list[Ready]]] = {}
        wrong: dict[int, Exception] = {}
        for place in among:
            renewal = renewals[place]
            ready = renewal.ready
            if ready is None:
                try:
                    ready = self._ready(renewal)
                except (UnicodeEncodeError, ConfigError) as problem:
                    wrong[place] = problem
                    continue
            group = ready.bucket if by_bucket else 0
            if group not in groups:
                groups[group] = [], []
            places, parts = groups[group]
            places.append(place)
            parts.append(ready)
        return [
            Batch(places[i : i + BATCH_MAX], _together(part), [one.held for one in part])
            for places, parts in groups.values()
            for i in range(0, len(parts), BATCH_MAX)
            if (part := parts[i : i + BATCH_MAX])
        ], wrong

    def _ready(self, renewal: Renewal) -> Ready:
        """Pack one renewal, which keeps the packed form for the next time."""
        claim, ticket, ttl = renewal[:3]
        name = claim.spec.name.encode()
        bucket = bucket_of(name)
        key = state_of(self.prefix, bucket, name)
        args = b"$%d\r\n%b\r\n%b" % (_ID_BYTES, _id(claim.id), tail(_ms(ttl)))
        ready = renewal.ready = Ready(bucket, tail(key), args, Held(ticket, ttl))
        return ready

    def join_free(self, claims: Sequence[Claim]) -> Call:
        """Acquire several names with empty lines; in a cluster they must be of one bucket. Answer:
        `replies.let_in`."""
        specs = tuple([claim.spec for claim in claims])
        known = self._together.get(specs)
        if known is None:
            known = self._learn_together(specs)
        ids = b"".join([_id(claim.id) for claim in claims])
        return Call(JOIN_FREE, known[0], known[1] + tail(ids))

    def _learn_together(self, specs: tuple[Spec, ...]) -> tuple[int, bytes]:
        names = [spec.name.encode() for spec in specs]
        buckets = list(dict.fromkeys(map(bucket_of, names)))
        keys = [keys_of(self.prefix, name)[0] for name in names]
        keys += [recovery_of(self.prefix, bucket) for bucket in buckets]
        args = [part for spec in specs for part in (_ms(spec.ttl), _words(spec))]
        head = _start(JOIN_FREE, keys, len(args) + 1) + b"".join(map(tail, args))
        if len(self._together) >= _TOGETHER_MAX:
            self._together.clear()
        known = self._together[specs] = (buckets[0], head)
        return known

    def leave_all(self, leaves: Sequence[Leave]) -> Call:
        """Plain releases of claims that are alone in their lines, at most `BATCH_MAX`. Answer:
        `replies.released`."""
        texts = tuple([leave.name for leave in leaves])
        known = self._apart.get(texts)
        if known is None:
            names = [text.encode() for text in texts]
            keys = [keys_of(self.prefix, name)[0] for name in names]
            if len(self._apart) >= _TOGETHER_MAX:
                self._apart.clear()
            known = self._apart[texts] = bucket_of(names[0]), _start(LEAVE_ALL, keys, 1)
        ids = b"".join([_id(leave.id) for leave in leaves])
        return Call(LEAVE_ALL, known[0], known[1] + tail(ids))

    def turn(self, claim: Claim, address: bytes = b"") -> Call:
        """Ask for a claim that waits. An empty address leaves its address unchanged. Answer:
        `replies.stood`."""
        spec, mine = claim.spec, (_id(claim.id), _ms(claim.spec.ttl))
        return self._call(STAND, spec.name, *mine, self._patience, address, b"0", b"", b"")

    def renew(self, renewal: Renewal) -> Call:
        """Renew one held claim in any line, also with a smaller weight. Answer: `replies.stood`."""
        claim, mine = renewal.claim, (_id(renewal.claim.id), _ms(renewal.ttl))
        weight = b"%d" % renewal.weight
        return self._call(STAND, claim.spec.name, *mine, b"0", b"", weight, b"", b"")

    def change(self, change: Change) -> Call:
        """Renew one held claim, and exchange its id and its owner. Answer: `replies.stood`."""
        spec, mine = change.claim.spec, (_id(change.claim.id), _ms(change.ttl))
        new = (_id(change.new_id), spec.owner.encode()) if change.new_id else (b"", b"")
        return self._call(STAND, spec.name, *mine, b"0", b"", b"0", *new)

    def reclaim(self, renewal: Renewal, window: float) -> Call:
        """Restore a hold while recovery grants nothing new. Answer: `replies.stood`."""
        spec = renewal.claim.spec
        words = _words(spec._replace(weight=renewal.weight or spec.weight))
        mine = _id(renewal.claim.id), b"%d" % renewal.ticket, _ms(renewal.ttl), words
        return self._call(RECLAIM, spec.name, *mine, _ms(window))

    def recovery(
        self,
        buckets: Sequence[int],
        window: float,
        strict: bool,
        known: float = 0.0,
        former: bool = False,
        latest: int = 0,
        run_id: bytes = b"",
    ) -> Call:
        """Read the recovery records, and change them if needed. ``window``: the grace period in
        seconds. ``known``: seconds since the client met the server ``run_id``. ``former``: True if
        the client had met another server before. ``latest``: the client's highest fence. Answer:
        `recovery.verdict`."""
        keys = [recovery_of(self.prefix, bucket) for bucket in buckets]
        numbers = strict, known * 1000, former, latest
        args = [_ms(window), *(b"%d" % one for one in numbers), run_id]
        head = _start(RECOVERY, keys, len(args)) + b"".join(map(tail, args))
        return Call(RECOVERY, buckets[0], head)

    def resize(self, name: str, capacity: int) -> Call:
        """Change a line's capacity. Answer: `replies.resized`."""
        return self._call(RESIZE, name, b"%d" % capacity)

    def inspect(self, name: str) -> Call:
        """Read one line. Answer: `replies.looked`."""
        return self._call(INSPECT, name)

    def _call(self, script: Script, text: str, *args: bytes) -> Call:
        name = text.encode()
        start = _start(script, keys_of(self.prefix, name), len(args))
        return Call(script, bucket_of(name), start + b"".join(map(tail, args)))
