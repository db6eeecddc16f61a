"""Sessions: the means by which the kernel shows every client, at once, that a process has died.

A session is a FIFO in ``sessions/``, one per client that holds or waits. Its owner keeps it open
for reading and writing, and locked by flock. When the last process that has that descriptor ends,
by ``exit`` or by ``kill -9``, the kernel frees the lock, and reports a hang-up within a millisecond
to each process that polls the reading end.

The lock is the proof, the hang-up is only the alarm. A client that opens the FIFO after the owner's
death gets no hang-up, so a client always tries the lock, too. A *missing* session file proves
nothing (it can have been deleted): the claims of the session end when they expire.

The descriptor can be handed to a child process: then the session lives as long as the child.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock

from ....errors import HoldfastError
from .folder import Folder, folder, is_session
from .paths import Place, unusable

#: Maximum number of other clients' sessions that a client keeps open, because it often checks the
#: same sessions again. Any other session is opened for each check: if all stayed open, a client
#: would need as many descriptors as there are clients.
CACHE_MAX = 2


class Alarm:
    """A descriptor that hangs up when a session ends. It is closed with the last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        """Close it only here, because several threads can use the descriptor."""
        fd = getattr(self, "fd", -1)
        if fd >= 0:
            os.close(fd)


#: Instead of a descriptor: there is none, or the session has ended.
NONE, ENDED = Alarm(-1), Alarm(-2)


class Session:
    """Our session. Its file is made and locked under another name, then renamed."""

    fd = -1

    def __init__(self, place: Place) -> None:
        self.name = os.urandom(8).hex()
        self.path = f"{place.sessions}/{self.name}"
        self._folder = there = folder(place)
        fresh = f".{self.name}"
        try:
            self.fd = _fifo(there, fresh)
            os.fchmod(self.fd, place.file_mode)
            flock(self.fd, LOCK_EX)
            os.rename(fresh, self.name, src_dir_fd=there.fd, dst_dir_fd=there.fd)
        except OSError as wrong:
            there.unlink(fresh)
            raise unusable(self.path, wrong) from None
        self.inode = os.fstat(self.fd).st_ino

    def intact(self) -> bool:
        """Is our file still in its place, and our descriptor still our file?"""
        try:
            return os.lstat(self.path).st_ino == self.inode == os.fstat(self.fd).st_ino
        except OSError:
            return False

    def end(self, unlink: bool) -> None:
        """Close our descriptor, so that other clients see the session as ended. ``unlink``: remove
        its file."""
        if unlink:
            self._folder.unlink(self.name)
        fd, self.fd = self.fd, -1
        with contextlib.suppress(OSError):
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        """End the session, and so the claims, of a client that is no longer referenced."""
        self.end(unlink=False)


def _fifo(there: Folder, name: str) -> int:
    """Make a FIFO and open it; a plain file where the system has no FIFO that can be locked."""
    try:
        os.mkfifo(name, 0o600, dir_fd=there.fd)
    except (AttributeError, NotImplementedError, PermissionError):
        return _plain(there, name)
    fd = there.open(name, os.O_RDWR | os.O_NONBLOCK)
    info = os.fstat(fd)
    if not stat.S_ISFIFO(info.st_mode) or info.st_uid != os.geteuid() or info.st_nlink != 1:
        os.close(fd)
        raise PermissionError(errno.EPERM, "another process has replaced it")
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(fd)
        there.unlink(name)
        return _plain(there, name)
    return fd


def _plain(there: Folder, name: str) -> int:
    return there.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)


class Others:
    """The sessions of other clients: checks if they have ended, and descriptors that show this.

    A name comes from a row that any client of the store may have written. So only a valid name is
    looked for, and only in the folder of the sessions.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.folder = folder(place)
        self._kept: dict[str, Alarm] = {}

    def dead(self, name: str) -> bool:
        """Is it proven that the session has ended? Called inside the file mutex only."""
        kept = self._kept.get(name)
        if kept is not None:
            return _free(kept.fd)
        alarm = self.alarm(name)
        if alarm.fd < 0:
            return alarm is ENDED
        while len(self._kept) >= CACHE_MAX:
            self.forget(next(iter(self._kept)))
        self._kept[name] = alarm
        return False

    def ended(self, name: str) -> bool:
        """Like `dead`, but keeps no descriptor open for another check."""
        return self._ended_or(self._open(name)) is ENDED

    def alarm(self, name: str) -> Alarm:
        """A descriptor that hangs up when the session ends; ``ENDED`` if it has ended, ``NONE`` if
        there is nothing to poll."""
        return self._ended_or(self._kept.get(name) or self._open(name))

    @staticmethod
    def _ended_or(alarm: Alarm) -> Alarm:
        return ENDED if alarm.fd >= 0 and _free(alarm.fd) else alarm

    def forget(self, name: str) -> None:
        """Stop keeping the descriptor of this session."""
        self._kept.pop(name, None)

    def bury(self, name: str) -> None:
        """Remove the files of a dead session. The FIFO is last, because others find the session by
        it."""
        self.forget(name)
        if not is_session(name):
            return
        for file in self.folder.names():
            if file.startswith(name + "."):
                self.folder.unlink(file)
        self.folder.unlink(name)

    def exists(self, name: str) -> bool:
        """Does this session have a file?"""
        try:
            return is_session(name) and bool(self.folder.stat(name))
        except OSError:
            return False

    def names(self) -> list[str]:
        """All sessions that have a file, dead or alive."""
        return [name for name in self.folder.names() if is_session(name)]

    def _open(self, name: str) -> Alarm:
        if not is_session(name):
            return NONE
        try:
            alarm = Alarm(self.folder.open(name, os.O_RDONLY | os.O_NONBLOCK))
        except (OSError, HoldfastError):
            return NONE
        kind = stat.S_IFMT(os.fstat(alarm.fd).st_mode)
        return alarm if kind in (stat.S_IFIFO, stat.S_IFREG) else NONE

    def close(self) -> None:
        """Stop keeping descriptors."""
        self._kept.clear()


def _free(fd: int) -> bool:
    """Is this file unlocked? The check takes the lock, and releases it immediately."""
    try:
        flock(fd, LOCK_SH | LOCK_NB)
    except OSError:
        return False
    flock(fd, LOCK_UN)
    return True
