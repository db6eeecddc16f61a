"""An examination of an embedded store: each part in words, and what to do about it.

It looks without passing through the engine, so that it can still tell what is wrong when the
engine can't open the store. It changes nothing but for making the folders that are missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Iterator

from ....core.finding import Finding, Level
from ....errors import ConfigError, HoldfastError
from ....runtime.blocking import boottime, walltime
from ....url import StoreURL
from . import foreign
from .closing import Closing
from .database import escaped, explain
from .gate import describe
from .header import LIMIT, NEXT, PID, QUIET, SIZE, Header
from .owned import open_file, require_companions
from .paths import Place
from .place import QUEUES, TRUSTED, VALUES, database_path, file_system, others_read, prepare
from .queues import mending
from .queues.files import remedy
from .session import Others

#: A gate that stays shut for so long is stuck: a verb lasts some 20 us.
GATE_S = 1.0
#: Bytes free on the disk: less than this is worth a word, less than that is too little.
ROOM_LOW, ROOM_NONE = 64 << 20, 1 << 20
#: A log that has grown beyond this says that somebody reads without ever ending.
LOG_BIG = 64 << 20
#: So many broken rules are told.
WRONG_MAX = 3
#: Tickets start from the wall clock in microseconds; so far ahead of it is normal.
AHEAD_S = 3600.0


def examine(url: StoreURL) -> Iterator[Finding]:
    """Look at every part of a store, in the order in which they are needed."""
    path = database_path(url)
    there = os.path.lexists(path)
    yield _ok("file", path if there else f"{path}, which the first use will make")
    place = prepare(path, url.options.get("any_fs") == "yes")
    yield _ok("folder", _sharing(place))
    yield _file_system(os.path.dirname(place.database))
    yield _room(os.path.dirname(place.database))
    yield foreign.version()
    if os.path.exists(place.gate):
        yield from _gate(place)
    if there:
        yield _database(place)
        yield from _log(place)
        yield from foreign.strangers(place)
    yield from _sessions(place)
    if os.path.lexists(path + QUEUES):
        yield from _queues(prepare(path + QUEUES, True), url)
    if os.path.lexists(path + VALUES):
        yield from _values(prepare(path + VALUES, True))


def mend(url: StoreURL) -> Iterator[Finding]:
    """Get damaged queues going again; what was wrong, and which jobs are gone."""
    path = database_path(url) + QUEUES
    if not os.path.lexists(path):
        yield _ok("mend", "there are no queues in this store")
        return
    yield from mending.mend(prepare(path, url.options.get("any_fs") == "yes"))


def _ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def _sharing(place: Place) -> str:
    """Who may use it."""
    folder = os.path.dirname(place.database)
    info = os.stat(folder)
    mode = stat.S_IMODE(info.st_mode)
    if place.shared:
        return f"{folder} has mode {mode:o}: shared with the group {_group(info.st_gid)}"
    text = f"{folder} has mode {mode:o}: for uid {info.st_uid} alone, on one machine or container"
    return text + ("; others may list it, and read no lock" if others_read(place) else "")


def _group(gid: int) -> str:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return str(gid)


def _file_system(folder: str) -> Finding:
    kind = file_system(folder)
    if kind is None:
        return _ok("file system", "not told by this system; it must be a local one")
    if kind in TRUSTED:
        return _ok("file system", f"{kind}, where kernel locks hold")
    return Finding(
        Level.WARN,
        "file system",
        f"{kind} isn't known to lock between all who see it; ?any_fs=yes says that it may be used",
        "make sure that a single kernel serves everybody who uses it",
    )


def _room(folder: str) -> Finding:
    info = os.statvfs(folder)
    free = info.f_bavail * info.f_frsize
    text = f"{free / (1 << 20):,.0f} MiB free"
    if info.f_files and not info.f_favail:
        return Finding(Level.FAIL, "disk", "no inode is free", "delete some files")
    if free < ROOM_NONE:
        return Finding(Level.FAIL, "disk", text, "free some space: nothing new can be locked")
    if free < ROOM_LOW:
        return Finding(Level.WARN, "disk", text, "free some space before it runs out")
    return _ok("disk", text)


# -- the gate and its header --------------------------------------------------------------------


def _gate(place: Place) -> Iterator[Finding]:
    """Is it free? And what does its header say?"""
    try:
        fd, info = open_file(place.gate, place, 0)
    except (OSError, HoldfastError) as wrong:
        yield Finding(Level.FAIL, "gate", str(wrong))
        return
    try:
        if info.st_size < SIZE:
            yield Finding(Level.WARN, "gate", "it isn't complete; the next use makes it so")
            return
        found = _free(fd, place)
        yield found
        if found.level is Level.OK:
            header = Header(fd, place.gate)
            if not header.fresh():
                yield from _header(header)
    finally:
        os.close(fd)


def _free(fd: int, place: Place) -> Finding:
    """Can the gate be entered?"""
    waited = _enter(fd)
    if waited is None:
        pid = int.from_bytes(os.pread(fd, 8, PID * 8), "little")
        text = f"not free within {GATE_S:g} s: {describe(pid)}" if pid else "locked by somebody"
        return Finding(Level.FAIL, "gate", text, f"look who has it open: fuser {place.gate}")
    return _ok("gate", "free" if waited < 0.01 else f"free after {waited * 1000:.0f} ms")


def _enter(fd: int) -> float | None:
    """Lock it; how many seconds that took, None if it can't be had."""
    begun = boottime()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if boottime() - begun > GATE_S:
                return None
            time.sleep(0.001)
        else:
            return boottime() - begun


def _header(header: Header) -> Iterator[Finding]:
    try:
        header.check()
    except ConfigError as wrong:
        yield Finding(Level.FAIL, "gate", str(wrong))
        return
    now = boottime()
    if header.damaged(now):
        yield Finding(
            Level.WARN,
            "gate",
            "it is damaged: it says what can't be",
            "the next use begins with new tickets, once the leases of this moment are over",
        )
        return
    boot = "" if header.same_boot() else "; the machine was started anew since the last use"
    yield _ok("clock", f"counts from the machine's start, {now:,.0f} s ago{boot}")
    words = header.words
    ahead = words[NEXT] / 1e6 - walltime()
    text = f"next {words[NEXT]}, reserved on the disk up to {words[LIMIT]}"
    if ahead > AHEAD_S:
        yield Finding(
            Level.WARN,
            "fences",
            f"{text}: {ahead:,.0f} s ahead of the wall clock",
            "check the wall clock; as long as the gate's file stays, fences rise in any case",
        )
    else:
        yield _ok("fences", text)
    quiet = header.floats[QUIET] - now
    if quiet > 0:
        yield Finding(
            Level.WARN,
            "database",
            f"it was deleted while locks were held, so nobody is served for {quiet:,.0f} s more",
            "wait: whoever held a lock in the old one may still believe in it until then",
        )


# -- the database and the sessions -----------------------------------------------------------------


def _database(place: Place) -> Finding:
    """Can SQLite read it, and is it whole?"""
    return _whole(place, "database", "SELECT count(*), 'rows of claims' FROM claims WHERE ticket")


def _whole(place: Place, subject: str, count: str) -> Finding:
    """Can SQLite read the file, is it whole, and how many are in it?"""
    try:
        require_companions(place.database)  # SQLite would wait for ever for who writes to a FIFO
        connection = sqlite3.connect(
            f"file:{escaped(place.database)}?mode=ro", uri=True, timeout=1.0, factory=Closing
        )
        try:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            rows, what = connection.execute(count).fetchone()
        finally:
            connection.close()
    except HoldfastError as wrong:
        return Finding(Level.FAIL, subject, str(wrong))
    except sqlite3.Error as wrong:
        return Finding(Level.FAIL, subject, str(explain(wrong, place.database, True)))
    size = os.stat(place.database).st_size / (1 << 20)
    if verdict != "ok":
        return Finding(
            Level.FAIL,
            subject,
            f"damaged: {verdict}",
            f"end the processes that use it, then move {place.database} away",
        )
    return _ok(subject, f"whole, {size:.1f} MiB, {what}: {rows}")


def _queues(place: Place, url: StoreURL) -> Iterator[Finding]:
    """The same of the files of the serial queues, and do its tables agree with one another?"""
    whole = _whole(
        place, "queues", "SELECT ifnull(sum(waiting + taken + dead), 0), 'jobs' FROM queues"
    )
    if whole.level is Level.OK and (wrong := mending.looked(place)):
        text = f"damaged: {'; '.join(wrong[:WRONG_MAX])}"
        whole = Finding(Level.FAIL, "queues", text)
    yield whole._replace(remedy=remedy(url)) if whole.level is Level.FAIL else whole
    yield from foreign.strangers(place)
    yield from _shut(place, "queues")


def _values(place: Place) -> Iterator[Finding]:
    """The same of the files of the refresh guards."""
    yield _whole(place, "values", "SELECT count(*), 'values' FROM cached")
    yield from _log(place)
    yield from foreign.strangers(place)
    yield from _shut(place, "values")


def _shut(place: Place, subject: str) -> Iterator[Finding]:
    """A word if a gate can't be entered."""
    with contextlib.suppress(FileNotFoundError):
        try:
            fd, _ = open_file(place.gate, place, 0)
        except HoldfastError as wrong:
            yield Finding(Level.FAIL, subject, str(wrong))
            return
        try:
            if (found := _free(fd, place)).level is not Level.OK:
                yield found._replace(subject=subject)
        finally:
            os.close(fd)


def _log(place: Place) -> Iterator[Finding]:
    try:
        size = os.stat(place.database + "-wal").st_size
    except OSError:
        return
    if size > LOG_BIG:
        yield Finding(
            Level.WARN,
            "log",
            f"the write-ahead log has grown to {size >> 20} MiB",
            "another program seems to keep the database open for reading: end it",
        )


def _sessions(place: Place) -> Iterator[Finding]:
    """Which clients are alive by the kernel's word?"""
    try:
        others = Others(place)
        names = others.names()
        dead = sum(others.ended(name) for name in names)
    except (OSError, HoldfastError) as wrong:
        yield Finding(Level.FAIL, "sessions", str(wrong))
        return
    text = f"{len(names) - dead} alive"
    if dead:
        text += f", {dead} dead; whoever opens the store next clears up after those"
    yield _ok("sessions", text)
