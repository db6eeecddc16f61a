"""An examination of an embedded store: a finding for each part, with its remedy.

The examination doesn't use the engine, so that it still finds the fault when the engine can't open
the store. It changes nothing, except that it makes missing folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import sqlite3
import stat
import time
from collections.abc import Iterator

from ....core.finding import Finding, Level, Table, fail, ok, run, warn
from ....core.layout import newer
from ....errors import ConfigError, HoldfastError
from ....runtime.blocking import boottime, walltime
from ....url import StoreURL
from . import foreign
from .closing import Closing
from .database import SCHEMA, escaped, explain
from .gate import describe
from .header import LIMIT, NEXT, PID, QUIET, SIZE, Header
from .owned import open_file, require_companions
from .paths import Place
from .place import QUEUES, TRUSTED, VALUES, database_path, file_system, others_read, prepare
from .queues import mending
from .queues.files import remedy
from .session import Others

#: Seconds after which a file mutex that isn't free counts as stuck: a verb lasts some 20 us.
GATE_S = 1.0
#: Free bytes on the disk: fewer than the first are a warning, fewer than the second a failure.
ROOM_LOW, ROOM_NONE = 64 << 20, 1 << 20
#: Bytes of the log above which another program probably never ends its reading transaction.
LOG_BIG = 64 << 20
#: The subject of a finding about a later layout, which is no damage.
LAYOUT = "layout"
#: Maximum number of broken rules that are reported.
WRONG_MAX = 3
#: Tickets start from the wall clock in microseconds; they are normally ahead by at most this.
AHEAD_S = 3600.0
_JOBS = "SELECT ifnull(sum(waiting + taken + dead), 0), 'jobs' FROM queues"


class Visit:
    """One examination: the path of the store, and whether the store exists."""

    def __init__(self, url: StoreURL) -> None:
        self.url = url
        self.path = database_path(url)
        self.there = os.path.lexists(self.path)

    @functools.cached_property
    def place(self) -> Place:
        """The paths of the store; missing folders are made."""
        return prepare(self.path, self.url.options.get("network_fs") == "yes")

    @property
    def folder(self) -> str:
        """The folder of the database."""
        return os.path.dirname(self.place.database)


def examine(url: StoreURL) -> Iterator[Finding]:
    """Examine every part of a store, in the order in which the parts are used."""
    return run(Visit(url), _CHECKS)


def mend(url: StoreURL) -> Iterator[Finding]:
    """Repair damaged queues; report the damage, and the jobs that are lost."""
    path = database_path(url) + QUEUES
    if not os.path.lexists(path):
        yield ok("there are no queues in this store", "mend")
        return
    yield from mending.mend(prepare(path, url.options.get("network_fs") == "yes"))


def _folder(visit: Visit) -> Finding:
    """Report which users may use the store."""
    info = os.stat(visit.folder)
    text = f"{visit.folder} has mode {stat.S_IMODE(info.st_mode):o}"
    if visit.place.shared:
        return ok(f"{text}: shared with the group {_group(info.st_gid)}")
    text += f": for uid {info.st_uid} alone, on one machine or container"
    return ok(text + ("; others can list it, but read no lock" if others_read(visit.place) else ""))


def _group(gid: int) -> str:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return str(gid)


def _file_system(visit: Visit) -> Finding:
    kind = file_system(visit.folder)
    if kind is None:
        return ok("this system doesn't report it; it must be a local one")
    if kind in TRUSTED:
        return ok(f"{kind}, where kernel locks hold")
    return warn(
        f"{kind}, whose locks may not work between all users of it; ?network_fs=yes allows it",
        "make sure that a single kernel serves all users of it",
    )


def _room(visit: Visit) -> Finding:
    info = os.statvfs(visit.folder)
    free = info.f_bavail * info.f_frsize
    text = f"{free / (1 << 20):,.0f} MiB free"
    if info.f_files and not info.f_favail:
        return fail("no inode is free", "delete some files")
    if free < ROOM_NONE:
        return fail(text, "free some space: nothing new can be locked")
    return warn(text, "free some space before it runs out") if free < ROOM_LOW else ok(text)


# -- the file mutex and its header -----------------------------------------------------------------


def _gate(place: Place) -> Iterator[Finding]:
    """Is the file mutex free, and is its header valid?"""
    try:
        fd, info = open_file(place.gate, place, 0)
    except FileNotFoundError:
        return
    except (OSError, HoldfastError) as wrong:
        yield fail(str(wrong))
        return
    try:
        if info.st_size < SIZE:
            yield warn("it isn't complete; the next use completes it")
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
    """Can the file mutex be taken?"""
    waited = _enter(fd)
    if waited is None:
        pid = int.from_bytes(os.pread(fd, 8, PID * 8), "little")
        text = f"not free within {GATE_S:g} s: {describe(pid)}" if pid else "a process holds it"
        return fail(text, f"find the processes that have it open: fuser {place.gate}")
    return ok("free" if waited < 0.01 else f"free after {waited * 1000:.0f} ms")


def _enter(fd: int) -> float | None:
    """Lock the file mutex; return the seconds that this took, or None after `GATE_S`."""
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
        yield fail(str(wrong))
        return
    now = boottime()
    if header.damaged(now):
        yield warn(
            "it is damaged: it contains impossible values",
            "the next use begins with new tickets, after the current leases have expired",
        )
        return
    boot = "" if header.same_boot() else "; the machine was restarted since the last use"
    yield ok(f"counts from the machine's start, {now:,.0f} s ago{boot}", "clock")
    ahead = header.words[NEXT] / 1e6 - walltime()
    text = f"next {header.words[NEXT]}, reserved on the disk up to {header.words[LIMIT]}"
    if ahead > AHEAD_S:
        remedy = "check the wall clock; fences rise in any case while the file mutex stays"
        yield warn(f"{text}: {ahead:,.0f} s ahead of the wall clock", remedy, "fences")
    else:
        yield ok(text, "fences")
    quiet = header.floats[QUIET] - now
    if quiet > 0:
        yield warn(
            f"it was deleted while locks were held, so no lock is granted for {quiet:,.0f} s",
            "wait: until then, holders in the deleted file can still rely on their locks",
            "database",
        )


# -- the databases and the sessions ----------------------------------------------------------------


def _database(visit: Visit) -> Iterator[Finding]:
    if visit.there:
        yield _whole(visit.place, "SELECT count(*), 'rows of claims' FROM claims WHERE ticket")
        yield from _log(visit.place)
        yield from foreign.strangers(visit.place)


def _whole(place: Place, count: str) -> Finding:
    """Can SQLite read the file, is it whole, and how many rows does it have?"""
    try:
        require_companions(place.database)  # if one were a FIFO, SQLite would wait for a writer
        connection = sqlite3.connect(
            f"file:{escaped(place.database)}?mode=ro", uri=True, timeout=1.0, factory=Closing
        )
        try:
            (layout,) = connection.execute("PRAGMA user_version").fetchone()
            if layout > SCHEMA:
                return fail(str(newer(place.database, layout, SCHEMA)), subject=LAYOUT)
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            rows, what = connection.execute(count).fetchone()
        finally:
            connection.close()
    except HoldfastError as wrong:
        return fail(str(wrong))
    except sqlite3.Error as wrong:
        return fail(str(explain(wrong, place.database, True)))
    size = os.stat(place.database).st_size / (1 << 20)
    if verdict != "ok":
        remedy = f"end the processes that use it, then move {place.database} away"
        return fail(f"damaged: {verdict}", remedy)
    return ok(f"whole, {size:.1f} MiB, {what}: {rows}")


def _beside(visit: Visit, end: str, count: str) -> Iterator[Finding]:
    """Check the database of queues or of values, and its file mutex, as for the locks."""
    path = visit.path + end
    if not os.path.lexists(path):
        return
    place = prepare(path, True)
    whole = _whole(place, count)
    if end == QUEUES and whole.subject != LAYOUT:  # do its tables agree with one another?
        if whole.level is Level.OK and (wrong := mending.looked(place)):
            whole = fail(f"damaged: {'; '.join(wrong[:WRONG_MAX])}")
        if whole.level is Level.FAIL:
            whole = whole._replace(remedy=remedy(visit.url))
    yield whole
    yield from _log(place)
    yield from foreign.strangers(place)
    gate = list(_gate(place))[:1]
    yield from (found for found in gate if found.level is not Level.OK)


def _log(place: Place) -> Iterator[Finding]:
    with contextlib.suppress(OSError):
        size = os.stat(place.database + "-wal").st_size
        if size > LOG_BIG:
            text = f"the write-ahead log has grown to {size >> 20} MiB"
            remedy = "another program seems to keep the database open for reading: end it"
            yield warn(text, remedy, "log")


def _sessions(visit: Visit) -> Finding:
    """Count the living clients, which hold their kernel locks, and the dead ones."""
    try:
        others = Others(visit.place)
        names = others.names()
        dead = sum(others.ended(name) for name in names)
    except (OSError, HoldfastError) as wrong:
        return fail(str(wrong))
    text = f"{len(names) - dead} alive"
    if dead:
        text += f", {dead} dead; the next client that opens the store removes these"
    return ok(text)


_CHECKS: Table[Visit] = {
    "file": lambda visit: ok(
        visit.path if visit.there else f"{visit.path}, which the first use will make"
    ),
    "folder": _folder,
    "file system": _file_system,
    "disk": _room,
    "sqlite": lambda _: foreign.version(),
    "gate": lambda visit: _gate(visit.place),
    "database": _database,
    "sessions": _sessions,
    "queues": lambda visit: _beside(visit, QUEUES, _JOBS),
    "values": lambda visit: _beside(visit, VALUES, "SELECT count(*), 'values' FROM cached"),
}
