"""Regular files, opened without following links, and written whole."""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...errors import ConfigError
from ...runtime.opening.blocking import lifted

#: What the sidecar's name ends in.
NOTE_SUFFIX = ".fence"
#: What the name of a replacement ends in while it is being written.
FRESH_SUFFIX = ".fence.new"
NAME_BYTES_MAX = 255

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
_CHUNK_BYTES = 1 << 20


class Place(NamedTuple):
    """Where a fenced file and what belongs to it lie."""

    data: Path
    note: Path
    fresh: Path


def place(text: str) -> Place:
    """The place of a path, with all links resolved, so that all ways to a file meet."""
    if not text or "\0" in text:
        raise ConfigError(f"{text!r:.80} can't be the path of a file")
    try:
        data = Path(text).resolve()
    except (RuntimeError, OSError) as wrong:  # a loop of links is a RuntimeError before 3.13
        raise ConfigError(f"{text!r} leads nowhere: {wrong}") from None
    if not data.name or data.name.endswith((NOTE_SUFFIX, FRESH_SUFFIX)):
        raise ConfigError(
            f"{text!r} can't be guarded: *{NOTE_SUFFIX} are the guards' own files; "
            "name the file that is to be guarded"
        )
    room = NAME_BYTES_MAX - len(FRESH_SUFFIX)
    if len(os.fsencode(data.name)) > room:
        raise ConfigError(f"the file name {data.name[:40]!r}... is too long: at most {room} bytes")
    return Place(
        data, data.with_name(data.name + NOTE_SUFFIX), data.with_name(data.name + FRESH_SUFFIX)
    )


def about(path: Path) -> os.stat_result | None:
    """What is known of a file, None if there is none; ``ConfigError`` if it is no regular file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(
            f"{str(path)!r} is a folder, a link or a device; only a regular file can be guarded"
        )
    return found


def opened(path: Path, how: int) -> io.FileIO:
    """A regular file that is there."""
    about(path)
    return _file(path, how, "r" if how & os.O_ACCMODE == os.O_RDONLY else "r+", 0o666)


def made(path: Path, how: int) -> io.FileIO:
    """A regular file, made if it isn't there, with the mode that the umask leaves."""
    try:
        # First without O_CREAT: in a sticky folder the kernel refuses it for others' files.
        return opened(path, how)
    except FileNotFoundError:
        return opened(path, how | os.O_CREAT)


def new(path: Path, model: os.stat_result | None) -> io.FileIO:
    """A new file, private until it has the owner and mode of its model."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    file = _file(path, how, "w", 0o666 if model is None else 0o600)
    if model is not None:
        resemble(file, model, model.st_mode & 0o777)
    return file


def resemble(file: io.FileIO, model: os.stat_result, mode: int) -> None:
    """Give a file the owner and group of another, as far as we may, and a mode.

    If it can't have the group, then no group may do anything, because it would be a wrong one.
    """
    mine = os.fstat(file.fileno())
    for uid, gid in ((model.st_uid, model.st_gid), (-1, model.st_gid)):
        if (mine.st_uid, mine.st_gid) == (model.st_uid, model.st_gid):
            break
        with suppress(PermissionError):
            os.fchown(file.fileno(), uid, gid)
            break
    else:
        mode &= ~0o070
    with suppress(PermissionError):
        os.fchmod(file.fileno(), mode)


def write(file: io.FileIO, payload: bytes) -> None:
    """Write all of it: one call may write less than it was given."""
    rest = memoryview(payload)
    while rest:
        rest = rest[file.write(rest) :]


def crc(file: io.FileIO, start: int) -> int:
    """The checksum of everything from ``start`` on."""
    total = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, start):
        total = zlib.crc32(chunk, total)
        start += len(chunk)
    return total


@contextmanager
def told(path: Path) -> Generator[None]:
    """System errors say which file it was about, and what became of the write."""
    try:
        yield
    except OSError as wrong:
        words = f"{wrong.strerror} (nothing of this write was kept)"
        raise OSError(wrong.errno, words, str(path)) from wrong


def _file(path: Path, how: int, kind: str, mode: int) -> io.FileIO:
    """Open a file, from the first moment as an object that closes itself.

    One chain of C calls, because Ctrl-C can come between two of our own: after an ``os.open``
    whose number nobody has noted yet, the file would stay open for ever.
    """
    opened_as = map(os.open, (path,), (how | _FLAGS,), (mode,))
    return lifted(next(map(io.FileIO, opened_as, (kind,))), kind)
