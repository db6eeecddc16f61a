"""The paths of one store, and the error for one that can't be used."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import NamedTuple

from ....core.ports import DiskFailed
from ....errors import ConfigError, StoreUnavailable


class Place(NamedTuple):
    """The paths of one store, and the modes that its files get."""

    database: str
    folder: str
    gate: str
    sessions: str
    #: True if a group shares the folder (group-writable and setgid): files are 0660, else 0600.
    shared: bool

    @property
    def file_mode(self) -> int:
        """Mode of every file."""
        return 0o660 if self.shared else 0o600

    @property
    def dir_mode(self) -> int:
        """Mode of every folder."""
        return 0o2770 if self.shared else 0o700


def read_only(path: str) -> bool:
    """Is this file, or the folder for it, on a read-only file system?"""
    for place in (path, os.path.dirname(path)):
        with contextlib.suppress(OSError):
            return bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    return False


def lacking() -> OSError | None:
    """Return the error if fewer descriptors are free than SQLite needs; else None."""
    made: list[int] = []
    try:
        for _ in range(3):
            made += os.pipe()
    except OSError as wrong:
        return wrong
    finally:
        for fd in made:
            os.close(fd)
    return None


def unusable(path: str, wrong: OSError) -> Exception:
    """Return the error for a file that cannot be made or opened, permanently or at the moment."""
    if wrong.errno is None:  # from mmap, which copies a descriptor
        wrong = lacking() or wrong
    if wrong.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFailed(
            f"the embedded store cannot use {path}: {wrong.strerror}; free some space (or raise "
            "the quota) and try again"
        )
    if wrong.errno == errno.EIO:
        return DiskFailed(
            f"the embedded store cannot use {path}: {wrong.strerror}; the disk may be broken: "
            "look into the system's log"
        )
    if wrong.errno in (errno.ENFILE, errno.EMFILE):
        return StoreUnavailable(
            f"the embedded store cannot use {path}: {wrong.strerror}; close some descriptors "
            "(or allow more, `ulimit -n`) and try again"
        )
    if wrong.errno == errno.EROFS:
        return ConfigError(
            f"the embedded store cannot use {path}: it is on a read-only file system; name a path "
            "that can be written in the URL"
        )
    if wrong.errno == errno.ENOENT:  # its folder was there a moment ago
        return StoreUnavailable(f"another process is removing {path}: try again")
    return ConfigError(
        f"the embedded store cannot use {path}: {wrong.strerror}; it needs a folder that it may "
        "write to: correct the permissions, or name another path in the URL"
    )
