"""The location of the embedded store: its paths, and the check that they are safe.

For ``/dir/locks.db`` the files are:

* ``/dir/locks.db``: the lines (and next to it SQLite's -wal and -shm)
* ``/dir/locks.db-lone``: the lone claims, mapped into memory
* ``/dir/locks.db.d/gate``: the file mutex, with the header that must outlive a crash
* ``/dir/locks.db.d/sessions/``: a FIFO per living client, and the sockets at which it listens

The serial queues, ``/dir/locks.db-queues``, and the values of refresh guards,
``/dir/locks.db-values``, have the same files next to them, except the table of lone claims.

A lock is only as trustworthy as the folder: a user that can replace these files can take every
lock. So a folder that other users may write to is refused. A file system is refused too, unless its
kernel locks are known to work between all processes that see the file.
"""

from __future__ import annotations

import os
import stat

from ....errors import ConfigError
from ....url import StoreURL
from .owned import make_folders
from .paths import Place, unusable

#: Local file systems whose flock and mmap work between all processes that see the file system.
TRUSTED = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"}
    | {"nilfs2", "ubifs", "tmpfs", "ramfs", "overlay", "aufs", "apfs", "hfs", "ufs"}
)
MOUNTS = "/proc/self/mountinfo"
#: Suffixes to the path of the locks, for the paths of the queues and of the guards' values.
QUEUES = "-queues"
VALUES = "-values"
SETGID_GROUP = stat.S_ISGID | stat.S_IWGRP


def database_path(url: StoreURL) -> str:
    """The database file of a URL; makes the user's private folder if the URL names no path."""
    if url.host or url.secret:
        raise ConfigError(
            f"sqlite://{url.host}{url.path}: a path is absolute and begins with the third slash, "
            "as in sqlite:///var/lib/x/locks.db"
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
    """Make the folder of `default_path` with mode 0700; return the path."""
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
    """The URL for messages, with the default path written out."""
    return str(url) if url.host or url.path.strip("/") else f"sqlite://{default_path()}"


def prepare(path: str, network_fs: bool) -> Place:
    """Check the folder of a database and make the folders next to it; errors name the remedy."""
    parent = os.path.realpath(os.path.dirname(path))
    shared = _check_folder(parent)
    if not network_fs:
        _check_file_system(parent)
    database = os.path.join(parent, os.path.basename(path))
    folder = database + ".d"
    place = Place(database, folder, folder + "/gate", folder + "/sessions", shared)
    _check_file(database)
    make_folders(place)
    return place


def _check_folder(folder: str) -> bool:
    """Refuse a folder in which others could replace our files; True if a group shares it."""
    try:
        info = os.stat(folder)
    except FileNotFoundError:
        raise ConfigError(
            f"the folder {folder} of the lock database doesn't exist; "
            f"make it first: {_making(folder)}"
        ) from None
    except OSError as wrong:
        raise unusable(folder, wrong) from None
    if not stat.S_ISDIR(info.st_mode):
        raise ConfigError(f"{folder} is not a folder, so no lock database can lie in it")
    if info.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"the folder {folder} is writable by everybody, so anybody could replace the locks. "
            + _instead(folder)
        )
    shared = info.st_mode & SETGID_GROUP == SETGID_GROUP
    if info.st_uid != os.geteuid() and not (info.st_uid == 0 and shared):
        raise ConfigError(
            f"the folder {folder} belongs to another user (uid {info.st_uid}), who could replace "
            "the locks. " + _instead(folder)
        )
    if info.st_mode & stat.S_IWGRP and not shared and not _private(info):
        raise ConfigError(
            f"the group {info.st_gid} may write to the folder {folder} and so could replace the "
            "locks, but files in it wouldn't belong to that group, as the setgid bit is missing. "
            + _instead(folder)
        )
    return shared


def _quoted(path: str) -> str:
    import shlex  # because few programs meet this error

    return shlex.quote(path)


def others_read(place: Place) -> bool:
    """Can the folder be read by users that may not use the locks in it?"""
    try:
        mode = os.stat(os.path.dirname(place.database)).st_mode
    except OSError as wrong:
        raise unusable(os.path.dirname(place.database), wrong) from None
    return bool(mode & stat.S_IROTH or (mode & stat.S_IRGRP and not place.shared))


def _may(folder: str, mode: int) -> bool:
    """May the effective user do this in a folder?"""
    return os.access(folder, mode, effective_ids=os.access in os.supports_effective_ids)


def _making(folder: str) -> str:
    """The command that makes a missing folder. Where this user may not make the folder, root must
    make it and give it to this user."""
    top = os.path.dirname(folder)
    while not os.path.lexists(top):
        top = os.path.dirname(top)
    if _may(top, os.W_OK | os.X_OK):
        return f"mkdir -p -m 700 {_quoted(folder)}"
    above, quoted = os.path.dirname(folder), _quoted(folder)
    before = "" if top == above else f"mkdir -p {_quoted(above)} && "
    return f"as root, {before}mkdir -m 700 {quoted} && chown -h {_quoted(_user())} {quoted}"


def _instead(folder: str) -> str:
    """Return a remedy that leaves this folder unchanged, because others may need it: a new folder
    in it, made by this user, or by root for this user. If this user can't enter this folder, the
    new folder is in the nearest parent folder that this user can enter."""
    while not _may(folder, os.X_OK):
        folder = os.path.dirname(folder)
    inside, ours = _inside(folder)
    url = f"sqlite://{inside}/locks.db"
    if ours:
        return f"Name a file in {inside}, which is there and belongs to this user alone ({url})"
    quoted = _quoted(inside)
    alone = f"mkdir -m 700 {quoted} for a user alone"
    if not _may(folder, os.W_OK):
        owner = _quoted(_user())
        alone = f"as root, mkdir -m 700 {quoted} && chown -h {owner} {quoted} for a user alone"
    return (
        f"Make a folder for the locks in {folder} and name a file there ({url}): {alone}; for a "
        "group root makes one that belongs to the group, with mode 2770"
    )


def _inside(folder: str) -> tuple[str, bool]:
    """Return the path of a folder for locks inside this one, and True if it is there already.

    If an unsuitable file, such as a link, has this name, another name is taken.
    """
    path, number = os.path.join(folder, "holdfast"), 1
    while number < 100:
        try:
            info = os.lstat(path)
        except OSError:
            break
        private = info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(info.st_mode) and private:
            return path, True
        number += 1
        path = os.path.join(folder, f"holdfast-{number}")
    return path, False


def _user() -> str:
    """The name of the effective user, or the user's number if there is no name."""
    number = os.geteuid()
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


def _private(info: os.stat_result) -> bool:
    """Is this the private group of a user, with the user's number and no other member?"""
    if info.st_gid != info.st_uid:
        return False
    try:
        import grp
        import pwd

        members = grp.getgrgid(info.st_gid).gr_mem
        return not set(members) - {pwd.getpwuid(info.st_uid).pw_name}
    except (ImportError, KeyError):
        return True


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


def _check_file_system(folder: str) -> None:
    """Refuse a file system whose locks may not work between all processes that see the file."""
    kind = file_system(folder)
    if kind is not None and kind not in TRUSTED:
        raise ConfigError(
            f"the folder {folder} is on a {kind} file system, where kernel locks may not hold "
            "between machines or containers: use a path on a local disk, a network store, or add "
            "?network_fs=yes if you know that one kernel serves all its users"
        )


def file_system(folder: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system of a folder; None where the kernel doesn't show it."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as wrong:  # no free descriptor, for example: the disk needn't be a local one
        raise unusable(mounts, wrong) from None
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
    r"""Decode a mount point, in which blanks and backslashes are in octal.

    >>> _unescape(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text
