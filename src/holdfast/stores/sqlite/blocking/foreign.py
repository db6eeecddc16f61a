"""Detection of other programs that have a database of a store open and can damage it.

SQLite 3.7.0 to 3.51.2 loses commits where a checkpoint and another connection's commit overlap. Our
own processes commit and checkpoint only inside the file mutex. A program that doesn't know the file
mutex may checkpoint at any time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator

from ....core.finding import Finding, ok, warn
from .gate import command_of
from .paths import Place

#: The first version with the bug, and the first one with the fix. `MENDED_TOO`: older series of
#: versions, each with the number of its first release that has the fix.
FIRST, MENDED = (3, 7, 0), (3, 51, 3)
MENDED_TOO = {(3, 44): 6, (3, 50): 7}
LOCKS = "/proc/locks"


def has_reset_bug(version: tuple[int, int, int]) -> bool:
    """Can this SQLite lose commits to a checkpoint?

    >>> [has_reset_bug(one) for one in ((3, 40, 1), (3, 44, 5), (3, 44, 6), (3, 50, 7), (3, 51, 3))]
    [True, True, False, False, False]
    """
    mended = MENDED_TOO.get(version[:2])
    return FIRST <= version < MENDED and (mended is None or version[2] < mended)


def version() -> Finding:
    """The version of SQLite; if it has the WAL-reset bug, why the bug doesn't affect the store."""
    text = f"version {sqlite3.sqlite_version}"
    if has_reset_bug(sqlite3.sqlite_version_info):
        text += (
            ", which has SQLite's WAL-reset bug; the file mutex prevents it while no other program "
            "checkpoints these files"
        )
    return ok(text)


def strangers(place: Place) -> Iterator[Finding]:
    """A warning for each process that may write to the database and doesn't know the file mutex."""
    for pid in sorted(_locking(place.database + "-shm")):
        if pid != os.getpid() and _writes_past(pid, place):
            yield warn(
                f"process {pid} ({command_of(pid) or 'no command line'}) has {place.database} open "
                "for writing without the file mutex: if it writes or checkpoints, jobs can be lost",
                f"end it; read with sqlite3 -readonly {place.database}, which can do neither",
                "foreign",
            )


def _locking(path: str) -> set[int]:
    """The processes whose SQLite uses this shared memory: each keeps a lock on it. The child of a
    fork also has the file open, but has no lock on this memory, and doesn't use it."""
    try:
        inode = os.stat(path).st_ino
        with open(LOCKS, encoding="ascii", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:
        return set()
    # 7: POSIX  ADVISORY  READ 4711 fd:01:1234 128 128; a waiting lock has an arrow before POSIX
    found = (w for w in lines if len(w) > 5 and w[1] == "POSIX" and w[4].isdigit())
    return {int(w[4]) for w in found if w[5].rpartition(":")[2] == str(inode)}


def _writes_past(pid: int, place: Place) -> bool:
    """Does this process have the database open for writing, but not the file mutex?

    A deleted file mutex counts, too, because the process opens the new one with its next verb. So
    this compares names as well as files.
    """
    folder, writes = f"/proc/{pid}/fd", False
    with contextlib.suppress(OSError):
        there = os.stat(place.database)
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                path = f"{folder}/{name}"
                if os.readlink(path).removesuffix(" (deleted)") == place.gate:
                    return False
                info = os.stat(path)
                if os.path.exists(place.gate) and os.path.samestat(info, os.stat(place.gate)):
                    return False
                may_write = os.lstat(path).st_mode & stat.S_IWUSR
                writes |= bool(may_write) and os.path.samestat(info, there)
    return writes
