"""Open files and folders of the store, and refuse what another user may have put in their place.

A user with write access to a shared folder can put a link, a FIFO or another user's file where one
of ours belongs. All later changes (content, mode) go through the descriptor that was checked here,
never through a path.
"""

from __future__ import annotations

import mmap
import os
import stat
import weakref

from ....errors import ConfigError, StoreUnavailable
from ....runtime.opening.blocking import filled, opened
from .paths import Place, unusable

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _FLAGS
#: Linux: open a file without access to its content. Elsewhere 0.
O_PATH = getattr(os, "O_PATH", 0)
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(path: str, place: Place, flags: int = os.O_CREAT) -> tuple[int, os.stat_result]:
    """A descriptor of one of our plain files, for reading and writing, and its status."""
    try:
        with filled():  # not `opened`: it closes a descriptor, which would drop SQLite's locks
            fd = os.open(path, os.O_RDWR | flags | _FLAGS, 0o600)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            raise unusable(path, _error(path)) from None
        raise
    except OSError as wrong:
        require_plain(path)
        raise unusable(path, wrong) from None
    try:
        info = os.fstat(fd)
        _require_own(path, info)
        ours = info.st_uid == os.geteuid() and (place.shared or not info.st_size)
        if ours and info.st_mode & 0o777 != place.file_mode:
            os.fchmod(fd, place.file_mode)
    except OSError as wrong:
        os.close(fd)
        if isinstance(wrong, StoreUnavailable):
            raise
        raise unusable(path, wrong) from None
    except BaseException:
        os.close(fd)
        raise
    return fd, info


def _error(path: str) -> OSError:
    try:
        os.lstat(os.path.dirname(path))
    except OSError as wrong:
        return wrong
    return FileNotFoundError(2, "No such file or directory")


def require_plain(path: str) -> None:
    """Refuse anything but a plain file with one name; a missing file is accepted."""
    try:
        info = os.lstat(path)
    except OSError:
        return
    _require_own(path, info)


def require_companions(path: str) -> None:
    """Refuse anything but a plain file at the paths that SQLite opens together with a database.

    Our databases never have a rollback journal. If another user put one there, SQLite would write
    the journal's content into the database, and delete the file that the journal names as its
    super-journal.
    """
    for one in (path, path + "-wal", path + "-shm"):
        require_plain(one)
    if os.path.lexists(path + "-journal"):
        raise ConfigError(
            f"{path}-journal is in the way: this database never has a rollback journal. "
            "Find out who put it there, then remove it"
        )


def _require_own(path: str, info: os.stat_result) -> None:
    kind = KINDS.get(stat.S_IFMT(info.st_mode))
    if kind is not None:
        raise ConfigError(
            f"{path} is {kind}, and a plain file of the lock database belongs there: "
            "find out who put it there, then remove it"
        )
    if info.st_nlink > 1:
        raise ConfigError(
            f"{path} has {info.st_nlink} names (hard links), and a process with another name of it "
            f"would not be excluded: list them by find / -xdev -inum {info.st_ino}, and remove "
            "all but this one"
        )
    if not info.st_nlink:
        raise StoreUnavailable(f"{path} is being replaced just now: try again")


def open_parent(place: Place) -> int:
    """A descriptor of the folder of the database."""
    parent = os.path.dirname(place.database)
    try:
        return opened(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as wrong:
        raise unusable(parent, wrong) from None


def open_folder(place: Place, *inside: str, make: bool = False) -> int:
    """A descriptor of one of our folders, reached without following a link below the parent."""
    fd = open_parent(place)
    path = os.path.dirname(place.database)
    for name in (os.path.basename(place.folder), *inside):
        above, path = fd, f"{path}/{name}"
        try:
            fd = _step(above, name, path, place, make)
        finally:
            os.close(above)
    return fd


def make_folders(place: Place) -> None:
    """Make the folders next to the database, or check the existing ones."""
    os.close(open_folder(place, os.path.basename(place.sessions), make=True))


def _step(above: int, name: str, path: str, place: Place, make: bool) -> int:
    made = False
    try:
        if make:
            try:
                os.mkdir(name, 0o700, dir_fd=above)
                made = True
            except FileExistsError:
                pass
        try:
            fd = opened(name, _FOLDER, dir_fd=above)
        except NotADirectoryError:
            raise ConfigError(
                f"{path} is in the way: it must be a folder of the lock database"
            ) from None
    except OSError as wrong:
        raise unusable(path, wrong) from None
    try:
        _check(fd, path, place, made)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(fd: int, path: str, place: Place, made: bool) -> None:
    info = os.fstat(fd)
    mine = info.st_uid == os.geteuid()
    if not (mine or place.shared) or info.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path} belongs to another user or is writable by everybody: use another path for "
            "the lock database, or remove that folder if it is unused"
        )
    if made and mine and place.shared:
        try:
            os.fchmod(fd, place.dir_mode)
        except OSError as wrong:
            raise unusable(path, wrong) from None


def admit(folder: int, name: str, mode: int) -> None:
    """Give our socket its mode; refuse any other file that has the socket's name now."""
    if not O_PATH:
        _require_socket(os.stat(name, dir_fd=folder, follow_symlinks=False))
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    fd = opened(name, O_PATH | _FLAGS, dir_fd=folder)
    try:
        info = os.fstat(fd)
        _require_socket(info)
        if info.st_mode & 0o777 != mode:
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _require_socket(info: os.stat_result) -> None:
    if not stat.S_ISSOCK(info.st_mode) or info.st_uid != os.geteuid() or info.st_nlink != 1:
        raise PermissionError("the socket was replaced by something else")


_maps: weakref.WeakValueDictionary[tuple[int, int], mmap.mmap] = weakref.WeakValueDictionary()


def mapped(fd: int, info: os.stat_result, size: int) -> mmap.mmap:
    """Map the file once for all clients of the process, because a map keeps a descriptor open."""
    key = info.st_dev, info.st_ino
    known = _maps.get(key)
    if known is None or len(known) != size:
        with filled():  # for the descriptor that the map keeps
            known = _maps[key] = mmap.mmap(fd, size)
    return known
