"""Sessions: how the kernel tells everybody, at once, that a process has died.

A session is a FIFO in ``sessions/``, one per client that holds or waits. Its owner keeps it open
for reading and writing, and locked by flock. When the last process that has that descriptor is
gone, by ``exit`` or by ``kill -9``, two things happen in the kernel: the lock is free, and
whoever polls the reading end is told of a hang-up, within a millisecond.

The lock is the proof, the hang-up is only the alarm: somebody who opens the FIFO after the
owner's death hears nothing, so after opening it the lock is always tried as well. A session
file that is *missing* proves nothing (somebody may have deleted it): its claims live by their
expiry.

The descriptor can be handed to a child process: then the session lives as long as the child.
"""

from __future__ import annotations

import contextlib
import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock

from .place import Place, unusable

#: Sessions of others that are kept open at most; more are opened anew for each look.
CACHE_MAX = 128


class Session:
    """Our own session: made complete under another name, then put in its place."""

    fd = -1

    def __init__(self, place: Place) -> None:
        self.name = os.urandom(8).hex()
        self.path = f"{place.sessions}/{self.name}"
        fresh = f"{place.sessions}/.{self.name}"
        try:
            self.fd = _fifo(fresh)
            os.fchmod(self.fd, place.file_mode)
            flock(self.fd, LOCK_EX)
            os.rename(fresh, self.path)
        except OSError as wrong:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            raise unusable(self.path, wrong) from None
        self.inode = os.fstat(self.fd).st_ino

    def intact(self) -> bool:
        """Is our file still in its place, and our descriptor still our file?"""
        try:
            return os.stat(self.path).st_ino == self.inode == os.fstat(self.fd).st_ino
        except OSError:
            return False

    def end(self, unlink: bool) -> None:
        """Close it, which is death as far as others can see."""
        if unlink:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        fd, self.fd = self.fd, -1
        with contextlib.suppress(OSError):
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        """A client that was forgotten is as good as dead: its claims end."""
        self.end(unlink=False)


def _fifo(path: str) -> int:
    """Make a FIFO and open it; a plain file where the system has no FIFO that can be locked."""
    try:
        os.mkfifo(path, 0o600)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (AttributeError, PermissionError):
        return _plain(path)
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(fd)
        os.unlink(path)
        return _plain(path)
    return fd


def _plain(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class Others:
    """The sessions of other clients: are they alive, and what to poll to learn that they aren't."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._fds: dict[str, int] = {}

    def dead(self, name: str) -> bool:
        """Is it proven that the session has ended? Inside the gate only."""
        fd = self._fds.get(name, -1)
        if fd >= 0:
            return _free(fd)
        fd = self._open(name)
        if fd < 0:
            return False
        free = _free(fd)
        if len(self._fds) >= CACHE_MAX:
            self._prune()
        if not free and len(self._fds) < CACHE_MAX:
            self._fds[name] = fd
        else:
            os.close(fd)
        return free

    def alarm(self, name: str) -> int:
        """A descriptor that hangs up when the session ends; -1 if there is none to be had."""
        return self._fds.get(name, -1)

    def forget(self, name: str) -> None:
        """The session has been dealt with."""
        fd = self._fds.pop(name, -1)
        if fd >= 0:
            os.close(fd)

    def _prune(self) -> None:
        """Close those that have died unnoticed: nobody asks for them any more."""
        for name in [n for n, fd in self._fds.items() if _free(fd)]:
            self.forget(name)

    def bury(self, name: str) -> None:
        """Remove the files of a dead session, its FIFO last: it is what others would find."""
        self.forget(name)
        for file in os.listdir(self.place.sessions):
            if file.startswith(name + "."):
                with contextlib.suppress(OSError):
                    os.unlink(f"{self.place.sessions}/{file}")
        with contextlib.suppress(OSError):
            os.unlink(f"{self.place.sessions}/{name}")

    def exists(self, name: str) -> bool:
        """Is its file still there?"""
        return os.path.lexists(f"{self.place.sessions}/{name}")

    def names(self) -> list[str]:
        """All sessions that have a file, dead or alive."""
        return [n for n in os.listdir(self.place.sessions) if "." not in n]

    def _open(self, name: str) -> int:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(f"{self.place.sessions}/{name}", flags)
        except (OSError, ValueError):
            return -1

    def close(self) -> None:
        """Close every descriptor."""
        for name in list(self._fds):
            self.forget(name)

    def __del__(self) -> None:
        self.close()


def _free(fd: int) -> bool:
    """Is nobody's lock on it? Ours, taken to see that, is given back at once."""
    try:
        flock(fd, LOCK_SH | LOCK_NB)
    except OSError:
        return False
    flock(fd, LOCK_UN)
    return True
