"""A folder of the store as an open file, so that no link can redirect the work in it.

All clients of a process share one descriptor of the folder. If the folder was deleted and made
again, the descriptor is switched to the new folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from functools import lru_cache

from ....errors import HoldfastError
from ....runtime.opening.blocking import opened
from .owned import open_folder
from .paths import Place

#: The form of a session's name; any other name in a row or in the folder isn't a session.
_SESSION = re.compile("[0-9a-f]{16}").fullmatch
#: The form of a socket's name.
_ADDRESS = re.compile(r"[0-9a-f]{16}\.[0-9]{1,12}").fullmatch


def is_session(name: object) -> bool:
    """Can this be a session's name? It may come from any user that can write to the database."""
    return isinstance(name, str) and _SESSION(name) is not None


@lru_cache  # a waiter has the same address each time
def is_address(name: object) -> bool:
    """Can this be the name of a socket?"""
    return isinstance(name, str) and _ADDRESS(name) is not None


class Folder:
    """One of the folders, open."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.name = name
        self.path = f"{place.folder}/{name}"
        self.fd = open_folder(place, name, make=True)
        # No `__del__`: another thread could get this object from `_folders` while `__del__` closes
        # the descriptor, whose number can then belong to another file. A weak reference is dead
        # before its callback runs.
        weakref.finalize(self, _close, self.fd).atexit = False

    def renew(self, make: bool = True) -> bool:
        """Switch to the folder that is now in its place; False if it is the same one."""
        with contextlib.suppress(OSError):
            now, known = os.lstat(self.path), os.fstat(self.fd)
            if (now.st_dev, now.st_ino) == (known.st_dev, known.st_ino):
                return False
        fd = open_folder(self.place, self.name, make=make)
        try:
            os.dup2(fd, self.fd, inheritable=False)
        finally:
            os.close(fd)
        return True

    def open(self, name: str, flags: int) -> int:
        """Open a file in it, and return the descriptor; a link is an OSError, too."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return opened(name, flags, 0o600, dir_fd=self.fd)
        except FileNotFoundError:
            if os.fstat(self.fd).st_nlink or not self._found_again():
                raise
        return opened(name, flags, 0o600, dir_fd=self.fd)

    def _found_again(self) -> bool:
        try:
            return self.renew(make=False)
        except (OSError, HoldfastError):
            return False

    def unlink(self, name: str) -> bool:
        """Remove a file; False if it couldn't be removed: other clients may have removed it."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """The names of all files in it."""
        return os.listdir(self.fd)

    def stat(self, name: str) -> os.stat_result:
        """The status of the file of this name; a link is not followed."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


_folders: weakref.WeakValueDictionary[tuple[str, str, bool], Folder] = weakref.WeakValueDictionary()


def folder(place: Place, name: str = "sessions") -> Folder:
    """The folder of this name, shared by all its users in this process."""
    key = (place.folder, name, place.shared)
    known = _folders.get(key)
    if known is None:
        known = _folders.setdefault(key, Folder(place, name))
    else:
        known.renew()
    return known
