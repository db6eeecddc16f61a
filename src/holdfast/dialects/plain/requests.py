"""Builds the requests of the verbs: the script, its keys and its arguments."""

from __future__ import annotations

import math
import os

from ...core.model import Claim, Leave
from ...core.policy import TOMB_S
from ...errors import ConfigError
from ...stores.redis.library import assembled, script_of
from ...stores.redis.scripts import Call
from ..port import call_of
from .layouts import Layout
from .tokens import SHAPES

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lua")
_NAMES = ("join", "probe", "renew", "leave", "look")
SCRIPTS = tuple(script_of(name, assembled(name, _FOLDER)) for name in _NAMES)
_JOIN, _PROBE, _RENEW, _LEAVE, _LOOK = SCRIPTS
#: The text in the key of a tombstone, before the mark of the claim (see ``tokens``).
GONE = b":holdfast-gone:"
_SIGNALS = "lock-signal:"
_NO = b"0"


class Requests:
    """Builds calls for one store."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.shape = SHAPES[layout.shape]
        self._seconds = layout.unit == "seconds"
        self._set, self._expire = (b"EX", b"EXPIRE") if self._seconds else (b"PX", b"PEXPIRE")

    def mark(self, claim_id: str) -> bytes:
        """Return the mark of a claim: the part of its token that contains no time."""
        try:
            secret = bytes.fromhex(claim_id)
        except ValueError:
            secret = b""
        if len(secret) != 16:
            raise ConfigError("a claim's id has 32 hexadecimal digits")
        return self.shape.mark(secret)

    def join(self, claim: Claim, now: float) -> Call:
        """Return the call that takes the key if it is free; ``now``: the time of day."""
        key, mark = self.layout.key(claim.spec.name), self.mark(claim.id)
        life = self._life(claim.spec.ttl)
        args = self.shape.token(mark, now), mark, self._set, life
        return call_of(_JOIN, (key, _tomb_of(key, mark)), *args)

    def probe(self, claim: Claim, now: float) -> Call:
        """Return a cheaper `join`, which doesn't read the ttl of a taken key.

        The probe is for a waiter that is notified of changes and has read the ttl already."""
        key, mark = self.layout.key(claim.spec.name), self.mark(claim.id)
        args = self.shape.token(mark, now), self._set, self._life(claim.spec.ttl)
        return call_of(_PROBE, (key, _tomb_of(key, mark)), *args)

    def renew(self, claim: Claim, ttl: float) -> Call:
        """Return the call that sets the time to live of the key to ``ttl`` seconds from now."""
        key = self.layout.key(claim.spec.name)
        return call_of(_RENEW, (key,), self.mark(claim.id), self._expire, self._life(ttl))

    def leave(self, leave: Leave, suspect: bool) -> Call:
        """Return the call that frees the key; ``suspect``: the claim's join can still come."""
        return self._leave(leave.name, self.mark(leave.id), leave.ttl if suspect else None)

    def take_away(self, name: str, token: bytes) -> Call:
        """Return the call that frees a key which is held with this token."""
        return self._leave(name, token, 0.0)

    def _leave(self, name: str, mark: bytes, ttl: float | None) -> Call:
        key = self.layout.key(name)
        bury = _NO if ttl is None else b"%d" % math.ceil((ttl + TOMB_S) * 1000)
        keys = [key, _tomb_of(key, self.shape.mark_in(mark))]
        if self.layout.signal != "none":
            keys.append((_SIGNALS + name).encode())
        return call_of(_LEAVE, keys, mark, bury)

    def look(self, key: bytes) -> Call:
        """Return the call that reads the holder of this key."""
        return call_of(_LOOK, (key,))

    def _life(self, ttl: float) -> bytes:
        return b"%d" % math.ceil(round(ttl * (1 if self._seconds else 1000), 6))


def _tomb_of(key: bytes, mark: bytes) -> bytes:
    """Return the key of the tombstone that refuses a late join of this claim.

    The key is in the same slot of a cluster as the lock's key.

    >>> _tomb_of(b"x", b"m")
    b'{x}:holdfast-gone:m'
    """
    start = key if b"{" in key else b"{" + key + b"}"
    return start + GONE + mark
