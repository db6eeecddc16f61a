"""Lone claims: held claims that no other claim has joined. They need no database.

Most locks are acquired and released without contention. Such a claim is kept in a table that all
processes have mapped into memory, with one slot per bucket of names. An uncontended acquire and
release are a few writes to this table, inside the file mutex. Any other request for the name
(another claim joins, it is adopted, downgraded, broken ...) moves the claim into the database,
where lines are kept; the table is used again only when the line is empty.

    slot.ticket   0: the slot is free; else its claim is held. A join writes this word last, a
                  release writes it first, by one instruction, so a kill leaves all or nothing.
    slot.lines    the number of names of this bucket that have, or can have, a line in the
                  database. It rises before the line is committed, and falls after the end of the
                  line is committed. While it isn't 0, every request goes to the database.

If a process is killed after it copied a claim into the database and before it freed the slot, the
claim is in the database and in the slot; then the database is right. After a boot the table isn't
valid. A claim whose texts don't fit into the slot, or whose slot is taken by another name, is kept
in the database.
"""

from __future__ import annotations

import math
import os
import struct
from array import array
from binascii import crc32
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ....core.model import Claim
from .gate import Damaged
from .header import TICKET_MAX
from .owned import mapped, open_file
from .paths import Place, unusable

SLOTS = 16384
BODY = 256
_HEAD = 4096
_TICKETS = _HEAD
_EXPIRES = _TICKETS + 8 * SLOTS
_FIRST = _EXPIRES + 8 * SLOTS
_LINES = _FIRST + 8 * SLOTS
_BODIES = _LINES + 4 * SLOTS
SIZE = _BODIES + BODY * SLOTS
#: `_OWN`: id, session and start. `_SPEC`: ttl, weight, capacity, and the lengths of four texts.
_OWN = struct.Struct("=32s16sd")
_SPEC = struct.Struct("=dIIBHHH")
_ID = 32
_TEXTS = _OWN.size + _SPEC.size
_SPECS_MAX = 512


class LoneClaim(NamedTuple):
    """One claim of the table."""

    slot: int
    name: str
    ticket: int
    id: str
    kind: str
    capacity: int
    weight: int
    ttl: float
    since: float
    expires: float
    first: float
    session: str
    owner: str
    meta: str


class Lone:
    """The table, mapped into memory. All methods are called inside the file mutex."""

    def __init__(self, place: Place, anew: bool = False) -> None:
        self.path = place.database + "-lone"
        try:
            if anew:
                os.unlink(self.path)
            fd, info = open_file(self.path, place, os.O_CREAT | (os.O_EXCL if anew else 0))
            try:
                self.inode = info.st_ino
                if info.st_size != SIZE:
                    # The file is new or damaged: claims in a missing part are lost. First, the
                    # number of the file's generation is removed, so that `agree` begins a new
                    # generation.
                    os.pwrite(fd, bytes(8), 0)
                    _allocate(fd)
                self._map = mapped(fd, info, SIZE)
            finally:
                os.close(fd)
        except OSError as wrong:
            raise unusable(self.path, wrong) from None
        self._view = view = memoryview(self._map)
        self._world: memoryview[int] = _part(view, 0, 8, "Q")
        self.tickets: memoryview[int] = _part(view, _TICKETS, _EXPIRES, "Q")
        self.expires: memoryview[float] = _part(view, _EXPIRES, _FIRST, "d")
        self.first: memoryview[float] = _part(view, _FIRST, _LINES, "d")
        self.lines: memoryview[int] = _part(view, _LINES, _BODIES, "I")
        #: By ``id(spec)``, for recent specs: the spec, its slot, and the bytes for the body.
        self._specs: dict[int, tuple[object, int, bytes]] = {}

    @property
    def world(self) -> int:
        """The generation of these claims."""
        return self._world[0]

    def begin(self, world: int) -> None:
        """Empty the table, and begin this new generation."""
        self._world[0] = 0
        self.tickets[:] = memoryview(bytes(8 * SLOTS)).cast("Q")
        self.lines[:] = memoryview(bytes(4 * SLOTS)).cast("I")
        self._world[0] = world

    # -- the uncontended verbs -------------------------------------------------------------

    def enter(self, claim: Claim, ticket: int, session: bytes, now: float) -> bool:
        """Hold the claim if its slot is free and counts no line; False: ask the database."""
        spec = claim.spec
        known = self._specs.get(id(spec))
        if known is None or known[0] is not spec:
            known = self._learn(claim)
        slot, shared, claim_id = known[1], known[2], claim.id.encode()
        if self.tickets[slot] or self.lines[slot] or not shared or len(claim_id) != _ID:
            return False
        body = _OWN.pack(claim_id, session, now) + shared
        start = _BODIES + BODY * slot
        self._map[start : start + len(body)] = body
        self.expires[slot] = self.first[slot] = now + spec.ttl
        self.tickets[slot] = ticket
        return True

    def free_for(self, claims: Sequence[Claim]) -> bool:
        """Would `enter` grant all of these claims, one after the other?"""
        slots = set()
        for claim in claims:
            _, slot, shared = self._learn(claim)
            if self.tickets[slot] or self.lines[slot] or not shared:
                return False
            if len(claim.id.encode()) != _ID:
                return False
            slots.add(slot)
        return len(slots) == len(claims)

    def leave(self, name: str, claim_id: str, ticket: int, now: float) -> bool:
        """Release the claim, if it is here and has not expired; False: ask the database."""
        slot = crc32(name.encode()) % SLOTS
        found = self.tickets[slot]
        if not found or (ticket and found != ticket) or self.lines[slot]:
            return False
        start = _BODIES + BODY * slot
        if self._map[start : start + _ID] != claim_id.encode() or self.expires[slot] <= now:
            return False
        self.tickets[slot] = 0
        return True

    def renew(self, name: str, claim_id: str, ticket: int, now: float, ttl: float) -> bool:
        """Renew the claim, if it is here and has not expired; False: ask the database."""
        slot = crc32(name.encode()) % SLOTS
        if not ticket or self.tickets[slot] != ticket or self.lines[slot]:
            return False
        start = _BODIES + BODY * slot
        if self._map[start : start + _ID] != claim_id.encode() or self.expires[slot] <= now:
            return False
        expires = self.expires[slot] = max(self.expires[slot], now + ttl)
        if self.first[slot] <= now:
            self.first[slot] = expires
        start += _OWN.size
        self._map[start : start + 8] = struct.pack("=d", ttl)
        return True

    # -- for the database ------------------------------------------------------------------

    def find(self, name: str) -> LoneClaim | None:
        """The lone claim of this name, if any; Damaged if its slot contains no possible claim."""
        slot = self.slot(name)
        if not self.tickets[slot]:
            return None
        found = self._read(slot)
        if not self._sane(found):
            raise Damaged
        return found if found.name == name else None

    def _sane(self, found: LoneClaim) -> bool:
        """Can this be a claim? The name determines the slot; start and ttl determine the earliest
        expiry. So this check finds most flipped bits."""
        return (
            crc32(found.name.encode()) % SLOTS == found.slot
            and found.ticket < TICKET_MAX
            and found.weight > 0 < found.capacity
            and 0.0 <= found.since + found.ttl <= found.expires < math.inf
        )

    def free(self, slot: int) -> None:
        """Free the slot of a claim that is in the database now, or has ended."""
        self.tickets[slot] = 0

    def slot(self, name: str) -> int:
        """The slot of a name; other names may share it."""
        return crc32(name.encode()) % SLOTS

    def born(self, name: str) -> None:
        """Count a line of this name; called before the line is committed."""
        self.lines[self.slot(name)] += 1

    def died(self, name: str) -> None:
        """Subtract a line of this name from the count, after the line's end is committed."""
        slot = self.slot(name)
        if self.lines[slot]:
            self.lines[slot] -= 1

    def recount(self, names: list[str]) -> None:
        """Set the counts: exactly these names have a line in the database."""
        counts = array("I", bytes(4 * SLOTS))
        for name in names:
            counts[self.slot(name)] += 1
        if counts.tobytes() != self.lines.tobytes():
            self.lines[:] = memoryview(counts)

    def claims(self) -> Iterator[LoneClaim]:
        """All lone claims, without the slots that contain no possible claim."""
        for slot, ticket in enumerate(self.tickets.tolist()):
            if ticket and self._sane(found := self._read(slot)):
                yield found

    def move(self, session: str, to: str) -> None:
        """Give the claims of a session the name of the client's new session."""
        for found in self.claims():
            if found.session == session:
                start = _BODIES + BODY * found.slot + _ID
                self._map[start : start + 16] = to.encode()

    def close(self) -> None:
        """Unmap the table."""
        for view in (self._world, self.tickets, self.expires, self.first, self.lines, self._view):
            view.release()
        del self._map

    def _learn(self, claim: Claim) -> tuple[object, int, bytes]:
        """Return the spec, its slot, and the bytes that its claims share; no bytes if they don't
        fit."""
        name, kind, capacity, weight, ttl, owner, meta = claim.spec
        texts = [text.encode() for text in (kind, name, owner, meta)]
        body = b""
        if _TEXTS + sum(map(len, texts)) <= BODY and max(weight, capacity) < 1 << 32:
            body = _SPEC.pack(ttl, weight, capacity, *map(len, texts)) + b"".join(texts)
        known = (claim.spec, self.slot(name), body)
        if len(self._specs) >= _SPECS_MAX:
            self._specs.clear()
        self._specs[id(claim.spec)] = known
        return known

    def _read(self, slot: int) -> LoneClaim:
        start = _BODIES + BODY * slot
        body = self._map[start : start + BODY]
        claim_id, session, since = _OWN.unpack_from(body)
        ttl, weight, capacity, *sizes = _SPEC.unpack_from(body, _OWN.size)
        texts, at = [], _TEXTS
        for size in sizes:
            texts.append(body[at : at + size].decode("utf-8", "replace"))
            at += size
        kind, name, owner, meta = texts
        return LoneClaim(
            slot,
            name,
            self.tickets[slot],
            claim_id.decode("ascii", "replace"),
            kind,
            capacity,
            weight,
            ttl,
            since,
            self.expires[slot],
            self.first[slot],
            session.decode("ascii", "replace"),
            owner,
            meta,
        )


def _part(view: memoryview, start: int, end: int, kind: str) -> Any:
    """Return a part of the map as an array of numbers; ``kind`` is a format of `struct`."""
    with view[start:end] as part:
        return part.cast(kind)  # type: ignore[call-overload]


def _allocate(fd: int) -> None:
    """Allocate the file on the disk: a write to a hole would raise SIGBUS on a full disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
        return
    for start in range(0, SIZE, 1 << 16):
        os.pwrite(fd, bytes(min(1 << 16, SIZE - start)), start)
    os.ftruncate(fd, SIZE)
