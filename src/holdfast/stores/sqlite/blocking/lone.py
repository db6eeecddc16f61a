"""Claims that stand alone: held, and nobody else ever came. They need no database.

Most locks are taken and released with nobody in the way. Such a claim is kept in a table that all
processes have mapped into memory, one slot per bucket of names, and the uncontended pair is a few
stores into it, inside the file mutex. As soon as anything else is asked of its name (somebody
joins behind it, it is to be adopted, downgraded, broken ...), the claim moves into the database,
where lines are kept, and comes back only when the line is empty again.

    slot.ticket   0: free; else this claim is held. Written last on entering, first on leaving,
                  by one instruction each: a process killed half-way has done all or nothing.
    slot.lines    how many names of this bucket have a line in the database, or might have:
                  raised before the line is committed, lowered after its end is. While it isn't
                  0 the slot is not enough to go by, and the database is asked.

So a claim that was copied into the database by a process killed before it could free the slot
is found in both, and the database is right. The table is worth nothing after a boot. A name or
text that doesn't fit, or whose slot is taken by another name, simply has its line in the database.
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
#: id, session, since; then what a spec says: ttl, weight, capacity and the lengths of its texts.
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
    """The table, mapped. Everything is done inside the file mutex."""

    def __init__(self, place: Place, anew: bool = False) -> None:
        self.path = place.database + "-lone"
        try:
            if anew:
                os.unlink(self.path)
            fd, info = open_file(self.path, place, os.O_CREAT | (os.O_EXCL if anew else 0))
            try:
                self.inode = info.st_ino
                if info.st_size != SIZE:
                    # New, or damaged: whoever was in what is missing is somewhere else now, so the
                    # number of its generation is taken away before anything else is done.
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
        #: What was last asked for: spec -> its slot and its part of the body.
        self._specs: dict[int, tuple[object, int, bytes]] = {}

    @property
    def world(self) -> int:
        """The generation that these claims live in."""
        return self._world[0]

    def begin(self, world: int) -> None:
        """Nobody is here, in this new generation."""
        self._world[0] = 0
        self.tickets[:] = memoryview(bytes(8 * SLOTS)).cast("Q")
        self.lines[:] = memoryview(bytes(4 * SLOTS)).cast("I")
        self._world[0] = world

    # -- the uncontended verbs -------------------------------------------------------------

    def enter(self, claim: Claim, ticket: int, session: bytes, now: float) -> bool:
        """Hold it, if nobody else has ever come; False: ask the database."""
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
        """Would each of them be granted by ``enter``, after the others?"""
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
        """Release it, if it is here and alive; False: ask the database."""
        slot = crc32(name.encode()) % SLOTS
        found = self.tickets[slot]
        if not found or (ticket and found != ticket) or self.lines[slot]:
            return False
        start = _BODIES + BODY * slot
        if self._map[start : start + _ID] != claim_id.encode() or self.expires[slot] <= now:
            return False
        self.tickets[slot] = 0
        return True

    def keep(self, name: str, claim_id: str, ticket: int, now: float, ttl: float) -> bool:
        """Renew it, if it is here and alive; False: ask the database."""
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
        """The claim that this name has here; Damaged if what is here can't be a claim."""
        slot = self.slot(name)
        if not self.tickets[slot]:
            return None
        found = self._read(slot)
        if not self._sane(found):
            raise Damaged
        return found if found.name == name else None

    def _sane(self, found: LoneClaim) -> bool:
        """Can this be a claim? A name tells its slot, and an expiry is told by ttl and beginning:
        a bit that was flipped usually shows here."""
        return (
            crc32(found.name.encode()) % SLOTS == found.slot
            and found.ticket < TICKET_MAX
            and found.weight > 0 < found.capacity
            and 0.0 <= found.since + found.ttl <= found.expires < math.inf
        )

    def free(self, slot: int) -> None:
        """It is in the database now, or has ended."""
        self.tickets[slot] = 0

    def slot(self, name: str) -> int:
        """The slot of a name, and of others."""
        return crc32(name.encode()) % SLOTS

    def born(self, name: str) -> None:
        """A line of this name may be in the database from now on."""
        self.lines[self.slot(name)] += 1

    def died(self, name: str) -> None:
        """The end of a line is committed."""
        slot = self.slot(name)
        if self.lines[slot]:
            self.lines[slot] -= 1

    def recount(self, names: list[str]) -> None:
        """Exactly these names have a line in the database."""
        counts = array("I", bytes(4 * SLOTS))
        for name in names:
            counts[self.slot(name)] += 1
        if counts.tobytes() != self.lines.tobytes():
            self.lines[:] = memoryview(counts)

    def claims(self) -> Iterator[LoneClaim]:
        """All that are here, but for what can't be a claim."""
        for slot, ticket in enumerate(self.tickets.tolist()):
            if ticket and self._sane(found := self._read(slot)):
                yield found

    def move(self, session: str, to: str) -> None:
        """A client's session has a new name."""
        for found in self.claims():
            if found.session == session:
                start = _BODIES + BODY * found.slot + _ID
                self._map[start : start + 16] = to.encode()

    def close(self) -> None:
        """Unmap it."""
        for view in (self._world, self.tickets, self.expires, self.first, self.lines, self._view):
            view.release()
        del self._map

    def _learn(self, claim: Claim) -> tuple[object, int, bytes]:
        """Prepare what all claims of a spec share; an empty body if it has no room here."""
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
    """A part of the map as numbers of one kind."""
    with view[start:end] as part:
        return part.cast(kind)  # type: ignore[call-overload]


def _allocate(fd: int) -> None:
    """All of it on the disk now: a store into a hole of a full disk would be a SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, SIZE)
        return
    for start in range(0, SIZE, 1 << 16):
        os.pwrite(fd, bytes(min(1 << 16, SIZE - start)), start)
    os.ftruncate(fd, SIZE)
