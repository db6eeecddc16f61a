"""Opening of regular files without following links, and complete writes to them."""

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

#: The suffix of a sidecar.
NOTE_SUFFIX = ".fence"
#: The suffix of a replacement while it is being written.
FRESH_SUFFIX = ".fence.new"
NAME_BYTES_MAX = 255

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
_CHUNK_BYTES = 1 << 20


class Place(NamedTuple):
    """The paths of a fenced file, its sidecar and its replacement."""

    data: Path
    note: Path
    fresh: Path


def place(text: str) -> Place:
    """Return the paths for a file. Symbolic links are resolved, so all links to a file share one
    sidecar."""
    if not text or "\0" in text:
        raise ConfigError(f"{text!r:.80} can't be the path of a file")
    try:
        data = Path(text).resolve()
    except (RuntimeError, OSError) as wrong:  # a loop of links is a RuntimeError before 3.13
        raise ConfigError(f"{text!r} can't be resolved: {wrong}") from None
    if not data.name or data.name.endswith((NOTE_SUFFIX, FRESH_SUFFIX)):
        raise ConfigError(
            f"{text!r} can't be a fenced file: it has no file name, or one that is reserved for "
            f"sidecars (*{NOTE_SUFFIX}...); name the file itself"
        )
    room = NAME_BYTES_MAX - len(FRESH_SUFFIX)
    if len(os.fsencode(data.name)) > room:
        raise ConfigError(f"the file name {data.name[:40]!r}... is too long: at most {room} bytes")
    return Place(
        data, data.with_name(data.name + NOTE_SUFFIX), data.with_name(data.name + FRESH_SUFFIX)
    )


def about(path: Path) -> os.stat_result | None:
    """Return a file's metadata; None if there is no file, ``ConfigError`` if it isn't regular."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(
            f"{str(path)!r} is a folder, a link or a device; only a regular file can be fenced"
        )
    return found


def opened(path: Path, how: int) -> io.FileIO:
    """Open a regular file; it must exist, unless ``how`` contains ``O_CREAT``."""
    about(path)
    return _file(path, how, "r" if how & os.O_ACCMODE == os.O_RDONLY else "r+", 0o666)


def made(path: Path, how: int) -> io.FileIO:
    """Open a regular file; create it if it is missing, with the mode that the umask allows."""
    try:
        # First without O_CREAT: in a sticky folder the kernel refuses to open another user's file
        # with that flag.
        return opened(path, how)
    except FileNotFoundError:
        return opened(path, how | os.O_CREAT)


def new(path: Path, model: os.stat_result | None) -> io.FileIO:
    """Create a file with the owner and mode of ``model``; until these are set, it is private.

    Without a model, the file has the mode that the umask allows.
    """
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    file = _file(path, how, "w", 0o666 if model is None else 0o600)
    if model is not None:
        resemble(file, model, model.st_mode & 0o777)
    return file


def resemble(file: io.FileIO, model: os.stat_result, mode: int) -> None:
    """Give ``file`` the owner and group of ``model``, as far as permitted; then set ``mode``.

    If the group can't be set, the file belongs to another group than the model. This group must not
    get the rights of the model's group, so ``mode`` is set without group rights.
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
    """Write all bytes, in several calls if one call writes only a part."""
    rest = memoryview(payload)
    while rest:
        rest = rest[file.write(rest) :]


def crc(file: io.FileIO, start: int) -> int:
    """Return the CRC-32 of the bytes from ``start`` to the end of the file."""
    total = 0
    while chunk := os.pread(file.fileno(), _CHUNK_BYTES, start):
        total = zlib.crc32(chunk, total)
        start += len(chunk)
    return total


@contextmanager
def told(path: Path) -> Generator[None]:
    """Add to each system error in the block: the path, and that nothing of the write was kept."""
    try:
        yield
    except OSError as wrong:
        words = f"{wrong.strerror} (nothing of this write was kept)"
        raise OSError(wrong.errno, words, str(path)) from wrong


def _file(path: Path, how: int, kind: str, mode: int) -> io.FileIO:
    """Open a file; the result closes itself when it is no longer used.

    One chain of C calls opens it. Ctrl-C can come between two Python calls: after ``os.open`` and
    before its result is stored, it would leave the file open.
    """
    opened_as = map(os.open, (path,), (how | _FLAGS,), (mode,))
    return lifted(next(map(io.FileIO, opened_as, (kind,))), kind)
