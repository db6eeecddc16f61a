"""The first page of the file mutex, mapped into memory, so that every process sees it at once.

The map is coherent between processes and outlives ``kill -9``. The boot id and the reserved block
of tickets must also outlive a power cut, so they are synced before they are used. Each field is one
aligned 8-byte word, written by a single instruction, so a process that is killed during a write
leaves either the old or the new value. Words are in the machine's byte order: the file is valid
only on the machine whose clock its times are from.

Every field is read and written inside the file mutex, except ``WORLD`` and the counts of changes.
"""

from __future__ import annotations

import os
import struct
import sys

from ....core.layout import newer
from ....core.model import TTL_S_MAX
from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import walltime
from ....runtime.opening.blocking import opened
from .owned import mapped

SIZE = 4096
MAGIC_WORD = int.from_bytes(b"holdfast", "little")
FORMAT = 1
#: Tickets are reserved on disk in blocks of this size, with one fsync per block.
BLOCK = 10_000
#: Number of tickets left at which the next block is reserved, outside the file mutex.
AHEAD = BLOCK // 2

# Indices of the 8-byte words.
MAGIC, VERSION, BOOT_LOW, BOOT_HIGH, TIME_SPACE, NEXT, LIMIT, WORLD, DATABASE = range(9)
LATEST, QUIET, PID, WHEN, SHARED_MEMORY, LOG, LONE, TOMBS, RESERVED = range(9, 18)
#: A second copy of the boot id: if only one copy is the current boot id, the other was damaged.
BOOT_LOW_AGAIN, BOOT_HIGH_AGAIN = 18, 19
#: Index of the first word that counts changes, for reads without the file mutex: see ``values``.
CHANGES = 64
WORDS = SIZE // 8
#: Maximum difference between the limit and the next ticket.
SPAN = 4 * BLOCK
#: No ticket is greater: SQLite's integers end at 2 ** 63.
TICKET_MAX = 1 << 62
#: Seconds from now within which every lease and every tombstone ends.
FAR_S = 2 * TTL_S_MAX

LOW = (1 << 64) - 1
#: The file with the boot id of Linux.
BOOT = "/proc/sys/kernel/random/boot_id"
#: Reads `NEXT`, `LIMIT`, `LATEST`, `QUIET`, `TOMBS` and `RESERVED` in one call, for `damaged`.
_told = struct.Struct("QQ16xdd40xdQ").unpack_from


def boot_id() -> int:
    """Return a number that differs after each boot; 0 if this process sees no boot id.

    Raises ``StoreUnavailable`` if the boot id can't be read at the moment, usually because no
    descriptor is free. An answer of 0 would look like another boot, which ends all holds.
    """
    try:
        with open(BOOT, encoding="ascii") as file:
            return int(file.read().strip().replace("-", ""), 16)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
        return 0
    except OSError as wrong:
        raise StoreUnavailable(
            f"{BOOT} can't be read: {wrong.strerror}. Without it, a restart of the "
            "machine can't be detected; remove the cause and try again"
        ) from None


def time_space() -> int:
    """The time namespace of this process, whose clocks may be shifted; 0 where there is none."""
    try:
        return os.stat("/proc/self/ns/time").st_ino
    except OSError:
        return 0


class Header:
    """The page, as words of 64 bits and as floats of 64 bits."""

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        self.fd = fd
        if os.fstat(fd).st_size < SIZE:
            # The page is written, not just the file extended: on a full disk, a write through the
            # map to a hole of the file would raise SIGBUS.
            os.pwrite(fd, b"\0" * SIZE, 0)
        # This maps a separate open file, because a map keeps a copy of its descriptor. A copy of
        # the file mutex's descriptor would keep the file mutex locked after a close.
        own = opened(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(own)
            if info.st_ino != os.fstat(fd).st_ino:
                raise StoreUnavailable(f"{path} is being replaced just now: try again")
            self.map = mapped(own, info, SIZE)
        finally:
            os.close(own)
        self.words = memoryview(self.map).cast("Q")
        self.floats = memoryview(self.map).cast("d")

    def fresh(self) -> bool:
        """True until the first client has finished setting up this page."""
        return self.words[MAGIC] == 0

    def check(self) -> None:
        """Refuse a page that isn't ours, has another format, or counts time differently."""
        words = self.words
        if words[MAGIC] != MAGIC_WORD:
            raise ConfigError(
                f"{self.path} is not the file mutex of a lock database; if no process uses the "
                "database, remove that file"
            )
        if words[VERSION] > FORMAT:
            raise newer(self.path, words[VERSION], FORMAT)
        if words[VERSION] != FORMAT:
            raise ConfigError(
                f"{self.path} has layout {words[VERSION]}, which this release of holdfast no "
                "longer reads; if no process uses the database, remove that file"
            )
        boot, known = boot_id(), words[BOOT_HIGH] << 64 | words[BOOT_LOW]
        if bool(boot) != bool(known):
            raise ConfigError(
                f"{self.path} is used by a process that can read {BOOT}, and by one that can't, so "
                "they can't agree whether the machine was restarted. Let both read it "
                "(ProcSubset= and a chroot hide it); if no process uses the database, remove that "
                "file"
            )
        if boot == known and words[TIME_SPACE] != time_space():
            raise ConfigError(
                f"{self.path} is in use by processes in another time namespace, whose clocks "
                "cannot be compared with ours: use another path for this container"
            )

    def same_boot(self) -> bool:
        """Were the times in this page taken since the machine last started?"""
        return (self.words[BOOT_HIGH] << 64 | self.words[BOOT_LOW]) == boot_id()

    def remember_boot(self) -> bool:
        """Repair the boot id from its second copy, if that one is current; True if repaired."""
        words, boot = self.words, boot_id()
        again = words[BOOT_HIGH_AGAIN] << 64 | words[BOOT_LOW_AGAIN]
        if not boot or self.same_boot() or again != boot:
            return False
        words[BOOT_HIGH], words[BOOT_LOW] = boot >> 64, boot & LOW
        return True

    def damaged(self, now: float, in_use: bool = False) -> bool:
        """Does the page have impossible tickets, or impossible times of this boot?

        ``in_use``: the page was opened in this boot, so the check doesn't read the boot id (30 us).
        """
        following, limit, latest, quiet, tombs, reserved = _told(self.map, NEXT * 8)
        if not limit <= following + SPAN <= TICKET_MAX or not following:
            return True
        if not limit <= reserved <= limit + SPAN:
            return True
        if not in_use and not self.same_boot():
            return False
        far = now + FAR_S
        # A comparison with NaN is false.
        return not (0.0 <= quiet <= far and 0.0 <= latest <= far and 0.0 <= tombs <= far)

    def heal(self, now: float, ticket: int, latest: float) -> None:
        """Keep the possible values, and end the generation. ``ticket`` and ``latest`` are the
        greatest ticket and expiry of the other files; ``latest`` includes a reserve if these files
        can be incomplete."""
        words, floats, far = self.words, self.floats, now + FAR_S
        words[WORLD] = 0
        given = [words[one] for one in (LIMIT, RESERVED) if words[one] < TICKET_MAX]
        following = max(ticket, *given, int(walltime() * 1e6)) if given else ticket
        words[NEXT] = max(following, int(walltime() * 1e6)) + SPAN
        words[LIMIT] = words[RESERVED] = words[NEXT]
        ends = [one for one in (floats[LATEST], floats[QUIET], latest) if 0.0 <= one <= far]
        floats[LATEST] = floats[TOMBS] = max(ends)
        floats[QUIET] = 0.0
        self.sync()

    def set_up(self, ticket: int, latest: float, world: int) -> None:
        """Set up a fresh page; ``ticket`` and ``latest`` are the greatest known ticket and expiry.

        Tickets start at the wall clock in microseconds, so they continue to rise even if every file
        was deleted: no store gives a million tickets a second for long.
        """
        words = self.words
        words[VERSION] = FORMAT
        start = max(int(walltime() * 1e6), ticket + 1)
        words[NEXT] = words[LIMIT] = words[RESERVED] = start
        words[PID] = words[SHARED_MEMORY] = words[LOG] = 0
        words[WORLD] = world
        self._start(latest)
        # This word is last, because it means that the page is complete.
        words[MAGIC] = MAGIC_WORD
        self.sync()

    def restart(self) -> None:
        """Reset the page after a boot: no time in it is valid; any reserved ticket may be given."""
        self.leap()
        self._start(0.0)
        self.sync()

    def leap(self) -> None:
        """Move the next ticket beyond every ticket that can have been given: beyond all reserved
        ones, and beyond the wall clock, because this file can be an old copy that was restored."""
        words = self.words
        reserved = max(words[LIMIT], words[RESERVED])
        words[NEXT] = max(words[NEXT], reserved, int(walltime() * 1e6))

    def _start(self, latest: float) -> None:
        words, boot = self.words, boot_id()
        words[TIME_SPACE] = time_space()
        self.floats[LATEST] = self.floats[TOMBS] = latest
        self.floats[QUIET] = 0.0
        words[BOOT_HIGH] = boot >> 64
        words[BOOT_LOW] = boot & LOW
        words[BOOT_HIGH_AGAIN], words[BOOT_LOW_AGAIN] = boot >> 64, boot & LOW

    def promise(self) -> int:
        """Note the next block of tickets; return its limit, which is valid once the page is synced.

        The limit is in a separate word: if this client is killed before the sync, other clients
        must not treat these tickets as reserved.
        """
        words = self.words
        words[RESERVED] = limit = max(words[NEXT], words[LIMIT], words[RESERVED]) + BLOCK
        return limit

    def reserve(self) -> int:
        """Put the next block of tickets on the disk before any is given; return the new limit."""
        limit = self.promise()
        self.sync()
        self.words[LIMIT] = limit
        return limit

    def sync(self) -> None:
        """Put the page on the disk.

        On Linux a sync of the file includes the changes through its maps. Elsewhere the map is
        flushed first, though that stops every thread of the process.
        """
        if sys.platform != "linux":
            self.map.flush()
        os.fsync(self.fd)

    def close(self) -> None:
        """Unmap the page."""
        self.words.release()
        self.floats.release()
        del self.map
