"""The gate file's first page, mapped into memory: what every process sees at once.

The map is coherent between processes and outlives ``kill -9``; what must also outlive a power
cut (the boot and the reserved block of tickets) is synced before it counts. Each field is one
aligned 8-byte word, stored by a single instruction, so a process killed in mid-store leaves
either the old or the new value. Words are in the machine's own byte order: the file never
leaves the machine that its clock belongs to.

Every field but ``WORLD`` and the counts of changes is read and written inside the gate only.
"""

from __future__ import annotations

import mmap
import os
import sys
import time

from ....errors import ConfigError, StoreUnavailable

SIZE = 4096
MAGIC_WORD = int.from_bytes(b"holdfast", "little")
FORMAT = 1
#: Tickets are reserved on disk in blocks of this size, with one fsync per block.
BLOCK = 10_000
#: When no more than these are left, the next block is reserved, outside of the gate.
AHEAD = BLOCK // 2

# Indices of the 8-byte words.
MAGIC, VERSION, BOOT_LOW, BOOT_HIGH, TIME_SPACE, NEXT, LIMIT, WORLD, DATABASE = range(9)
LATEST, QUIET, PID, WHEN, SHARED_MEMORY, LOG, LONE, TOMBS, RESERVED = range(9, 18)
#: From here on the page counts changes, for those who read without the gate: see ``values``.
CHANGES = 64
WORDS = SIZE // 8

_LOW = (1 << 64) - 1


def boot_id() -> int:
    """A number that is another after each boot; 0 where the kernel has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return int(file.read().strip().replace("-", ""), 16)
    except (OSError, ValueError):
        return 0


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
            # Written, not just extended: a store into a hole of a full disk would be a SIGBUS.
            os.pwrite(fd, b"\0" * SIZE, 0)
        # Through an open file of its own, because a map keeps a copy of its descriptor, and a
        # copy of the gate's would keep the gate locked after the gate is closed.
        own = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(own).st_ino != os.fstat(fd).st_ino:
                raise StoreUnavailable(f"{path} is being replaced just now: try again")
            self.map = mmap.mmap(own, SIZE)
        finally:
            os.close(own)
        self.words = memoryview(self.map).cast("Q")
        self.floats = memoryview(self.map).cast("d")

    def fresh(self) -> bool:
        """Has nobody finished to set this page up yet?"""
        return self.words[MAGIC] == 0

    def check(self) -> None:
        """Refuse a page that isn't ours, is newer than we, or counts time differently."""
        words = self.words
        if words[MAGIC] != MAGIC_WORD:
            raise ConfigError(
                f"{self.path} is not the gate of a lock database; if no process uses the "
                "database, remove that file"
            )
        if words[VERSION] != FORMAT:
            raise ConfigError(
                f"{self.path} was made by another version of holdfast (format {words[VERSION]}, "
                f"this one knows {FORMAT}): upgrade holdfast here, or use another path"
            )
        if self.same_boot() and words[TIME_SPACE] != time_space():
            raise ConfigError(
                f"{self.path} is in use by processes in another time namespace, whose clocks "
                "cannot be compared with ours: use another path for this container"
            )

    def same_boot(self) -> bool:
        """Were the times in this page taken since the machine last started?"""
        return (self.words[BOOT_HIGH] << 64 | self.words[BOOT_LOW]) == boot_id()

    def set_up(self, ticket: int, latest: float, world: int) -> None:
        """Make a fresh page: ``ticket`` and ``latest`` are the greatest that are known.

        The count starts at the wall clock in microseconds, so tickets go on rising even if
        every file was deleted: nobody gives a million a second for long.
        """
        words = self.words
        words[VERSION] = FORMAT
        start = max(time.time_ns() // 1000, ticket + 1)
        words[NEXT] = words[LIMIT] = words[RESERVED] = start
        words[PID] = words[SHARED_MEMORY] = words[LOG] = 0
        words[WORLD] = world
        self._start(latest)
        # Last, because it says that all the rest is there.
        words[MAGIC] = MAGIC_WORD
        self.sync()

    def restart(self) -> None:
        """After a boot no time is valid, and every ticket up to the limit may have been given."""
        self.leap()
        self._start(0.0)
        self.sync()

    def leap(self) -> None:
        """Go on beyond every ticket that may have been given: all that are reserved, and by the
        wall clock, because this file may be an old copy that was put back."""
        words = self.words
        reserved = max(words[LIMIT], words[RESERVED])
        words[NEXT] = max(words[NEXT], reserved, time.time_ns() // 1000)

    def _start(self, latest: float) -> None:
        words, boot = self.words, boot_id()
        words[TIME_SPACE] = time_space()
        self.floats[LATEST] = self.floats[TOMBS] = latest
        self.floats[QUIET] = 0.0
        words[BOOT_HIGH] = boot >> 64
        words[BOOT_LOW] = boot & _LOW

    def promise(self) -> int:
        """Write down the next block of tickets; its limit, which counts once the page is synced.

        In a word of its own, because whoever is cut short before that must not leave a limit that
        others take for reserved.
        """
        words = self.words
        words[RESERVED] = limit = max(words[NEXT], words[LIMIT], words[RESERVED]) + BLOCK
        return limit

    def reserve(self) -> int:
        """Put the next block of tickets on the disk, before any of it is given; the new limit."""
        limit = self.promise()
        self.sync()
        self.words[LIMIT] = limit
        return limit

    def sync(self) -> None:
        """Put the page on the disk.

        On Linux a file is synced with what its maps have changed. Elsewhere the map is flushed
        first, though that stops every thread of the process.
        """
        if sys.platform != "linux":
            self.map.flush()
        os.fsync(self.fd)

    def close(self) -> None:
        """Unmap it."""
        self.words.release()
        self.floats.release()
        self.map.close()
