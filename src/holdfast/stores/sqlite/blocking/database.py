"""The database file: create it, recognise it, open it, close it.

SQLite deletes the write-ahead log and the shared memory when the last connection closes. It detects
the last one by a POSIX lock. A forked child does not inherit this lock, and any other close of the
file drops the lock ("How To Corrupt An SQLite Database File", 2.2). A client that then continues
with deleted files works in another generation than the next client. So each client also locks the
same bytes through a separate open file (`Database.lock_fd`). This lock prevents the deletion while
any client has the file open. It also shows a new client if the log and the shared memory must exist
already.

Everything here runs inside the file mutex.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Generator

from ....core.layout import newer
from ....core.ports import DiskFailed
from ....errors import ConfigError, StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.opening.blocking import opened
from .closing import Closing
from .header import boot_id
from .owned import open_file, open_folder, open_parent, require_companions
from .paths import Place, lacking, read_only, unusable
from .sql import create, verbs

#: "HFlk" in the SQLite header: a lock database of ours.
APPLICATION_ID = 0x48466C6B
SCHEMA = 1
PAGE_SIZE = 1024
#: Bytes that a new database keeps free for its first lines.
ROOM = 256 * 1024
#: Frames in the write-ahead log before it is copied back: 4 MiB.
CHECKPOINT_FRAMES = 4000
#: Maximum seconds that SQLite waits inside the file mutex; only a foreign program causes that.
BUSY_S = 1.0
#: SQLite's error codes for a disk that fails; the code for a full disk isn't among them.
DISK = {
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}
#: SQLite's error codes for content that no client of holdfast has written.
DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
)
#: The default remedy for a damaged file.
MOVE_AWAY = "end the processes that use it, then move it away; the next one makes a new file"
#: Maximum seconds that `Database.alone_soon` waits for another client to close the file.
CLOSING_S = 0.25

#: The bytes that SQLite's connections lock shared (SHARED_FIRST and SHARED_SIZE in os_unix.c).
_SHARED_RANGE = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x40000002, 510, 0)
#: The byte that a client locks to write with a rollback journal. While it is locked, SQLite doesn't
#: treat a journal that it finds as one that a crash has left.
_WRITER_BYTE = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x40000001, 1, 0)
_ALONE_RANGE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0x40000002, 510, 0)
_NO_RANGE = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0x40000001, 511, 0)
#: Linux: a lock that belongs to the open file. Elsewhere `Database.lock_fd` has no lock.
_OFD_SETLK = getattr(fcntl, "F_OFD_SETLK", None)


class Database:
    """The file with its `lock_fd`; after `connect`, an open database."""

    connection: sqlite3.Connection
    application = APPLICATION_ID
    schema = SCHEMA
    lock_fd = -1
    opened = False

    def __init__(self, place: Place, known: int = 0) -> None:
        self.place = place
        self.path = place.database
        #: The inode of a file that is known to be ours, even if a power cut damaged its content.
        self.known = known
        self.inode = 0
        self.alone = False
        #: Did a database of ours exist before this client opened it?
        self.there = self._examine()

    def _examine(self) -> bool:
        """Open the file and check it without SQLite; False if it is missing or empty."""
        try:
            self.lock_fd, info = open_file(self.path, self.place, 0)
        except FileNotFoundError:
            return False
        self.inode = info.st_ino
        self._share()
        if info.st_size and self.inode != self.known:
            self._recognise(os.pread(self.lock_fd, 100, 0))
        return info.st_size > 0

    def _share(self) -> None:
        """Check if another client has the file open; lock the file, so that others see this
        client."""
        self.alone = self._lock(_ALONE_RANGE)
        end = boottime() + BUSY_S
        while _OFD_SETLK is not None and not self._lock(_SHARED_RANGE):
            # The last connection of another client is deleting the log at this moment.
            if boottime() > end:
                raise StoreUnavailable(f"another program has {self.path} locked: try again")
            time.sleep(0.001)
        self._lock(_WRITER_BYTE)

    def alone_soon(self) -> bool:
        """True if no other client has the file open. This waits up to `CLOSING_S` for a client that
        closes the file outside the file mutex: the client was garbage-collected, or its process is
        ending."""
        end = boottime() + CLOSING_S
        while not self.alone and _OFD_SETLK is not None and boottime() < end:
            time.sleep(0.002)
            self._share()
        return self.alone

    def _lock(self, what: bytes) -> bool:
        if _OFD_SETLK is None:
            return False
        try:
            fcntl.fcntl(self.lock_fd, _OFD_SETLK, what)
        except OSError:
            return False
        return True

    def _recognise(self, head: bytes) -> None:
        """Refuse a file that isn't ours, before SQLite touches it."""
        if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
            raise ConfigError(
                f"{self.path} is not a SQLite database: it was left unchanged. Name another path, "
                "or move the file away"
            )
        if int.from_bytes(head[68:72], "big") != self.application:
            raise ConfigError(
                f"{self.path} is the database of another application: it was left unchanged. "
                "Name another path in the URL"
            )
        found = int.from_bytes(head[60:64], "big")
        if found > self.schema:
            raise newer(self.path, found, self.schema)
        if found != self.schema:
            raise ConfigError(
                f"{self.path} has layout {found}, which this release of holdfast no longer reads; "
                f"{MOVE_AWAY}"
            )

    def complete(self, companions: tuple[int, int]) -> bool:
        """Are the log and the shared memory that other clients use still in their places?

        If they were deleted, the other clients continue to write to files that no new client can
        find. Then a new client can't use this database.
        """
        if self.alone or not any(companions) or self.companions() == companions:
            return True
        return self.alone_soon()

    def companions(self) -> tuple[int, int]:
        """The inodes of the shared memory and of the log, 0 for one that isn't there."""
        found = []
        for path in (self.path + "-shm", self.path + "-wal"):
            try:
                found.append(os.stat(path).st_ino)
            except OSError:
                found.append(0)
        return found[0], found[1]

    def make(self, world: int, limit: int, quiet: float) -> None:
        """Make a complete database under another name, and put it in its place.

        The database records the time before which no claim is granted, in case the file mutex is
        deleted.
        """
        known = {"world": world, "boot": boot_id(), "limit": limit, "quiet": quiet}

        def fill(made: sqlite3.Connection) -> None:
            for statement in create().values():
                made.execute(statement)
            for key, value in known.items():
                made.execute(verbs().meta_set, (key, str(value)))
            # Leaves room in the file for some hundred lines: pages that the file has already can
            # be written when the disk is full.
            made.execute(verbs().meta_set, ("room", bytes(ROOM)))

        self.remake(fill, PAGE_SIZE)

    def remake(self, fill: Callable[[sqlite3.Connection], None], page_size: int) -> None:
        """Make a database that ``fill`` fills, and put it in its place when it is complete."""
        self.close()
        fresh = self.place.folder + "/new.db"
        content = self._content(fill, page_size)
        for left in ("-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path + left)
        parent, folder = open_parent(self.place), -1
        try:
            folder = open_folder(self.place)
            with contextlib.suppress(FileNotFoundError):
                os.unlink("new.db", dir_fd=folder)
            write(folder, "new.db", content, self.place.file_mode)
            name = os.path.basename(self.path)
            os.rename("new.db", name, src_dir_fd=folder, dst_dir_fd=parent)
        except OSError as wrong:
            raise unusable(fresh, wrong) from None
        finally:
            for fd in (parent, folder):
                if fd >= 0:
                    os.close(fd)
        self._examine()

    def _content(self, fill: Callable[[sqlite3.Connection], None], page_size: int) -> bytes:
        """The bytes of a new database.

        It is filled in memory and written through one descriptor, because any user who may write to
        the folder could redirect a path that SQLite opens while the database is made.
        """
        made = sqlite3.connect(":memory:", isolation_level=None, factory=Closing)
        try:
            made.execute(f"PRAGMA page_size = {page_size}")
            made.execute("BEGIN IMMEDIATE")
            fill(made)
            made.execute(f"PRAGMA application_id = {self.application}")
            made.execute(f"PRAGMA user_version = {self.schema}")
            made.execute("COMMIT")
            made.execute(verbs().meta_drop, ("room",))
            content = bytearray(made.serialize())
        finally:
            made.close()
        content[18:20] = b"\2\2"  # The format versions that mean: with a write-ahead log.
        return bytes(content)

    def connect(self) -> None:
        """Open the database with SQLite, unless it is open."""
        if self.opened:
            return
        require_companions(self.path)
        self.connection = _connect(self.path)
        self.opened = True
        run = self.connection.execute
        # After a boot the database is made again, so no verb has to wait for the disk inside the
        # file mutex. A system without a boot id can't detect a boot, so there verbs do wait.
        run("PRAGMA synchronous = " + ("OFF" if boot_id() else "NORMAL"))
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")
        if os.stat(self.path).st_ino != self.inode or run("PRAGMA user_version").fetchone() != (
            self.schema,
        ):
            raise StoreUnavailable(f"{self.path} is being replaced just now: try again")

    def clear(self, world: int, quiet: float) -> None:
        """Remove all claims and begin this generation, which grants nothing until ``quiet``."""
        run, sql = self.connection.execute, verbs()
        run("BEGIN IMMEDIATE")
        run(sql.all_clear)
        run(sql.tombs_clear)
        run(sql.meta_set, ("world", str(world)))
        run(sql.meta_set, ("boot", str(boot_id())))
        run(sql.meta_set, ("quiet", str(quiet)))
        run("COMMIT")

    def meta(self, key: str) -> str:
        """Return the text that is stored in the database under this key, or an empty string."""
        found = self.connection.execute(verbs().meta_get, (key,)).fetchone()
        return found[0] if found else ""

    def set_meta(self, key: str, value: str) -> None:
        """Store a text in the database under this key."""
        self.connection.execute(verbs().meta_set, (key, value))

    def close(self) -> None:
        """Close the connection; the last one of all processes deletes the log."""
        if self.lock_fd >= 0:
            self._lock(_NO_RANGE)
        if self.opened:
            self.opened = False
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        """Close `lock_fd`. Where locks don't belong to open files, `lock_fd` stays open instead,
        because closing it would drop the locks that SQLite has for other clients of this
        process."""
        lock_fd, self.lock_fd = self.lock_fd, -1
        if lock_fd >= 0 and _OFD_SETLK is not None:
            os.close(lock_fd)

    def forked(self) -> None:
        """In the child: close `lock_fd`, whose lock is the parent's, and nothing else."""
        self.opened = False
        self._unlock()

    def __del__(self) -> None:
        """Close the database of a client that is no longer referenced."""
        self.close()


def escaped(path: str) -> str:
    """A path, escaped for a URI that SQLite opens; urllib would take 4 ms to import.

    >>> escaped("/a b/100%?#")
    '/a b/100%25%3f%23'
    """
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def write(folder: int, name: str, content: bytes, mode: int) -> None:
    """Make a file with this content and mode; the name must be free."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = opened(name, flags, 0o600, dir_fd=folder)
    try:
        os.fchmod(fd, mode)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{escaped(path)}?mode=rw",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        factory=Closing,
    )


@contextlib.contextmanager
def explained(path: str, opening: bool = False, remedy: str = MOVE_AWAY) -> Generator[None]:
    """Turn errors of SQLite and of the system into our errors, which name file and remedy."""
    try:
        yield
    except StoreUnavailable:
        raise
    except (sqlite3.Error, OSError, UnicodeDecodeError) as wrong:
        raise explain(wrong, path, opening, remedy) from None


def explain(
    wrong: sqlite3.Error | OSError | UnicodeDecodeError,
    path: str,
    opening: bool,
    remedy: str = MOVE_AWAY,
) -> Exception:
    """Return our error for an error of SQLite or the system. ``remedy``: for a damaged file."""
    if isinstance(wrong, OSError):
        return unusable(path, wrong)
    code = getattr(wrong, "sqlite_errorcode", 0) & 0xFF
    # If a name in the schema was overwritten, SQLite's message about it can be invalid text.
    garbled = isinstance(wrong, UnicodeDecodeError) or "no such table" in str(wrong)
    if garbled or code in DAMAGE:
        return ConfigError(f"{path} is damaged ({wrong}) and was left unchanged: {remedy}")
    permanent = (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    )
    if code in permanent and read_only(path):
        return unusable(path, OSError(errno.EROFS, str(wrong)))
    if opening and code in permanent:
        # SQLite gives no reason. The reason can be a lack of descriptors, or the permissions.
        return unusable(path, lacking() or OSError(errno.EACCES, str(wrong)))
    if code == sqlite3.SQLITE_FULL:
        return DiskFailed(f"the disk of {path} is full: free some space and try again")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(
            f"another program (not holdfast) is writing to {path}: end it and try again"
        )
    name = getattr(wrong, "sqlite_errorname", type(wrong).__name__)
    if getattr(wrong, "sqlite_errorcode", 0) in DISK:
        return DiskFailed(
            f"the disk of {path} failed: {wrong} ({name}). Check if the disk is full or a quota is "
            "used up; otherwise read the system's log"
        )
    return StoreUnavailable(f"the embedded store {path} failed: {wrong} ({name})")


def full(wrong: sqlite3.Error) -> bool:
    """Can this error mean that the disk is full?"""
    code = getattr(wrong, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
