"""Where the embedded store lives, and whether it may live there.

For ``/dir/locks.db`` the files are::

    /dir/locks.db             the lines (and SQLite's -wal and -shm beside it)
    /dir/locks.db-lone        the claims that nobody stands behind, mapped into memory
    /dir/locks.db.d/gate      the kernel lock that writers queue at, and what must outlive a crash
    /dir/locks.db.d/sessions/ a FIFO per client that is alive, and the sockets that it listens at

The serial queues, ``/dir/locks.db-queues``, and the values of refresh guards,
``/dir/locks.db-values``, have the same beside them, but for the table of lone claims.

A lock is only as trustworthy as the folder: who can replace these files can take every lock.
So a folder that others may write to is refused, and so is a file system on which kernel locks
aren't known to work between everybody who sees the file.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from ....errors import ConfigError, StoreUnavailable
from ....url import StoreURL

#: Local file systems whose flock and mmap hold between all processes that see them.
TRUSTED = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
    | {"nilfs2", "ubifs", "tmpfs", "ramfs", "overlay", "aufs", "apfs", "hfs", "ufs"}
)
MOUNTS = "/proc/self/mountinfo"
#: What the paths of queues, and of the values of guards, have more than that of the locks.
QUEUES = "-queues"
VALUES = "-values"
SETGID_GROUP = stat.S_ISGID | stat.S_IWGRP


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

    def make_folders(self) -> None:
        """Make what stands beside the database, or check what is there."""
        for folder in (self.folder, self.sessions):
            _make(folder, self)


def database_path(url: StoreURL) -> str:
    """The database file that a URL means; makes the user's private folder if it means that."""
    if url.host or url.secret:
        raise ConfigError(
            f"sqlite://{url.host}{url.path}: a path has three slashes, as in sqlite:///var/lib/x/"
            "locks.db; for a relative one, write the absolute path"
        )
    if url.path in ("", "/"):
        return make_default()
    if "\0" in url.path or url.path.endswith("/"):
        raise ConfigError(f"sqlite://{url.path!r}: give the path of a file, not of a folder")
    return url.path


def default_path() -> str:
    """The database in the user's private state folder."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "holdfast", "locks.db")


def make_default() -> str:
    """The same, and the folder made with mode 0700."""
    path = default_path()
    if not os.path.isabs(path):
        raise ConfigError("no home folder is known: set HOME, XDG_STATE_HOME or HOLDFAST_URL")
    folder = os.path.dirname(path)
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.makedirs(folder, 0o700, exist_ok=True)
    except OSError as wrong:
        raise ConfigError(
            f"cannot make the state folder {folder}: {wrong.strerror}; "
            "set XDG_STATE_HOME or HOLDFAST_URL to a place that can be written"
        ) from None
    return path


def label(url: StoreURL) -> str:
    """The URL as people see it, with the default path spelt out."""
    return str(url) if url.host or url.path.strip("/") else f"sqlite://{default_path()}"


def prepare(path: str, any_fs: bool) -> Place:
    """Check the folder of a database and make what stands beside it, or say how to mend it."""
    parent = os.path.realpath(os.path.dirname(path))
    shared = _check_folder(parent)
    if not any_fs:
        _check_file_system(parent)
    database = os.path.join(parent, os.path.basename(path))
    folder = database + ".d"
    place = Place(database, folder, folder + "/gate", folder + "/sessions", shared)
    _check_file(database)
    place.make_folders()
    return place


def _check_folder(folder: str) -> bool:
    """Refuse a folder in which others could replace our files; True if a group shares it."""
    try:
        info = os.stat(folder)
    except FileNotFoundError:
        raise ConfigError(
            f"the folder {folder} of the lock database doesn't exist; "
            f"make it first: mkdir -p -m 700 {folder}"
        ) from None
    except OSError as wrong:
        raise unusable(folder, wrong) from None
    if not stat.S_ISDIR(info.st_mode):
        raise ConfigError(f"{folder} is not a folder, so no lock database can lie in it")
    if info.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"the folder {folder} is writable by everybody, so anybody could replace the locks: "
            f"chmod o-w {folder}, or name a file in a folder of your own"
        )
    shared = info.st_mode & SETGID_GROUP == SETGID_GROUP
    if info.st_uid != os.geteuid() and not (info.st_uid == 0 and shared):
        raise ConfigError(
            f"the folder {folder} belongs to another user (uid {info.st_uid}), who could replace "
            "the locks: use a folder of your own, or one that root owns and a group shares "
            f"(install -d -m 2770 -g GROUP {folder})"
        )
    return shared


def _check_file(path: str) -> None:
    """Refuse a database that isn't a plain file."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise ConfigError(f"the lock database {path}: {wrong.strerror}") from None
    if stat.S_ISLNK(info.st_mode):
        raise ConfigError(
            f"the lock database {path} is a symbolic link, which others may turn elsewhere: "
            f"name its target instead ({os.path.realpath(path)})"
        )
    if not stat.S_ISREG(info.st_mode):
        raise ConfigError(f"the lock database {path} is not a plain file: name another path")


def _make(folder: str, place: Place) -> None:
    """Make one of our folders, or check the one that is there."""
    try:
        os.mkdir(folder, 0o700)
        if place.shared:
            os.chmod(folder, place.dir_mode)
        return
    except FileExistsError:
        pass
    except OSError as wrong:
        raise unusable(folder, wrong) from None
    try:
        info = os.lstat(folder)
    except OSError as wrong:
        raise unusable(folder, wrong) from None
    if not stat.S_ISDIR(info.st_mode):
        raise ConfigError(f"{folder} is in the way: it must be a folder of the lock database")
    mine = info.st_uid == os.geteuid() or place.shared
    if not mine or info.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{folder} belongs to another user or is writable by everybody: remove it, "
            "or use another path for the lock database"
        )


def unusable(path: str, wrong: OSError) -> Exception:
    """The error for a file that cannot be made or opened: for good, or just now (disk full)."""
    if wrong.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENFILE, errno.EMFILE):
        return StoreUnavailable(
            f"the embedded store cannot use {path}: {wrong.strerror}; "
            "free some space (or descriptors) and try again"
        )
    if wrong.errno == errno.ENOENT:  # for its folder was there a moment ago
        return StoreUnavailable(f"somebody is removing {path} just now: try again")
    return ConfigError(
        f"the embedded store cannot use {path}: {wrong.strerror}; it needs a folder that it may "
        "write to: mend the permissions, or name another path in the URL"
    )


def _check_file_system(folder: str) -> None:
    """Refuse a file system whose locks may not reach everybody who sees the file."""
    kind = file_system(folder)
    if kind is not None and kind not in TRUSTED:
        raise ConfigError(
            f"the folder {folder} is on a {kind} file system, where kernel locks may not hold "
            "between machines or containers: use a path on a local disk, a network store, or add "
            "?any_fs=yes if you know that one kernel serves all who use it"
        )


def file_system(folder: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system that a folder is on; None where the kernel doesn't tell."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return None
    best, kind = -1, None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _unescape(fields[4])
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        # A later mount on the same point covers an earlier one, hence >=.
        if inside and len(point) >= best:
            best, kind = len(point), after.split()[0]
    return kind


def _unescape(text: str) -> str:
    r"""Mount points come with blanks and backslashes in octal.

    >>> _unescape(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text
