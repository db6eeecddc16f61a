"""Writing and reading of a fenced file, in the order of steps that ``note.py`` explains."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ...errors import ConfigError
from .. import note as notes
from ..note import Note
from . import files
from .files import Place
from .lock import locked

_APPEND = os.O_RDWR | os.O_APPEND


class Desk:
    """A fenced file that is locked for a write. The constructor reads the latest note, and repairs
    the file after a crash."""

    __slots__ = ("_durable", "_sidecar", "_where", "note")

    def __init__(self, where: Place, sidecar: io.FileIO, durable: bool) -> None:
        self._where = where
        self._sidecar = sidecar
        self._durable = durable
        image = _image(sidecar)
        self.note, settled = _latest(where, image)
        if notes.unborn(image):
            self._begin()
        if not settled:
            self._mend()

    def append(self, fence: int, payload: bytes) -> None:
        """Note the fence and the append, then write; cut off an append that fails."""
        with files.told(self._where.data), files.made(self._where.data, _APPEND) as file:
            at = os.fstat(file.fileno()).st_size
            if at == 0:  # the file is new, or its first writer was killed
                self._sync_folder()
            self._announce(fence, at, payload)
            try:
                files.write(file, payload)
                self._sync(file)
            except BaseException:
                with suppress(OSError):  # after an error here, the next writer repairs the file
                    self._cut(file, at)
                    self._settle()
                raise
            self._settle()

    def replace(self, fence: int, payload: bytes) -> None:
        """Note the fence, write the contents to a new file, and rename it over the old one."""
        where = self._where
        with files.told(where.data):
            model = files.about(where.data)
            self._announce(fence, 0, b"")
            try:
                where.fresh.unlink(missing_ok=True)
                with files.new(where.fresh, model) as file:
                    files.write(file, payload)
                    self._sync(file)
                where.fresh.replace(where.data)
            except BaseException:
                with suppress(OSError):
                    where.fresh.unlink(missing_ok=True)
                    self._settle()
                raise
        self._sync_folder()
        self._settle()

    def _begin(self) -> None:
        """Write all pages of the sidecar now, so that later a full disk can't prevent a note."""
        model = files.about(self._where.data)
        if model is not None:  # the users that may write the file may write the sidecar
            files.resemble(self._sidecar, model, model.st_mode & 0o666)
        self._sync_folder()
        self._put(notes.BLANK, 0)
        self._sync(self._sidecar)

    def _mend(self) -> None:
        """Finish or undo the write of a dead process, sync the result, then mark the write as
        settled."""
        self._sync(self._sidecar)  # the note of that process may not be on the disk yet
        self._where.fresh.unlink(missing_ok=True)
        self._sync_folder()
        if self.note.size:
            with suppress(FileNotFoundError), files.opened(self._where.data, _APPEND) as file:
                length = os.fstat(file.fileno()).st_size
                if self.note.ends_within(length) and files.crc(file, self.note.at) != self.note.crc:
                    self._cut(file, self.note.at)
                self._sync(file)
        self._settle()

    def _announce(self, fence: int, at: int, payload: bytes) -> None:
        note = Note(self.note.turn + 1, fence, at, len(payload), zlib.crc32(payload))
        self._put(note.page(), note.offset)
        self._sync(self._sidecar)
        self.note = note

    def _settle(self) -> None:
        with suppress(OSError):  # the mark can be missing: the checksum shows the same
            self._put(self.note.mark(), notes.MARK_AT)

    def _put(self, page: bytes, at: int) -> None:
        rest = memoryview(page)
        while rest:  # on a full disk the second call raises the error
            done = os.pwrite(self._sidecar.fileno(), rest, at)
            rest, at = rest[done:], at + done

    def _cut(self, file: io.FileIO, at: int) -> None:
        os.ftruncate(file.fileno(), at)
        self._sync(file)

    def _sync(self, file: io.FileIO) -> None:
        if self._durable:
            os.fsync(file.fileno())

    def _sync_folder(self) -> None:
        if self._durable:
            folder = os.open(self._where.data.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextmanager
def writing(where: Place, timeout: float | None, durable: bool) -> Generator[Desk]:
    """Lock the file until the end of the block; ``NotAcquired`` after ``timeout``."""
    files.about(where.data)  # a file that can't be fenced gets no sidecar
    with locked(where, True, timeout) as sidecar:
        with files.told(where.data):
            desk = Desk(where, sidecar, durable)
        yield desk


def read(where: Place, timeout: float | None) -> bytes:
    """Return the contents without a torn end."""
    while True:
        try:
            with locked(where, False, timeout) as sidecar:
                note, settled = _latest(where, _image(sidecar))
                data = _contents(where)
        except FileNotFoundError:
            if where.note.exists():  # so the file itself is missing
                raise
            data = _contents(where)
            if where.note.exists():  # the first writer has just made the sidecar
                continue
            return data
        torn = not settled and note.ends_within(len(data))
        if torn and zlib.crc32(data[note.at :]) != note.crc:
            return data[: note.at]
        return data


def greatest(where: Place, timeout: float | None) -> int:
    """Return the greatest fence accepted; 0 without a sidecar."""
    try:
        with locked(where, False, timeout) as sidecar:
            return _latest(where, _image(sidecar))[0].fence
    except FileNotFoundError:
        return 0


def _contents(where: Place) -> bytes:
    with files.opened(where.data, os.O_RDONLY) as file:
        return file.readall()


def _image(sidecar: io.FileIO) -> bytes:
    return os.pread(sidecar.fileno(), notes.IMAGE_BYTES + 1, 0)


def _latest(where: Place, image: bytes) -> tuple[Note, bool]:
    try:
        return notes.read(image)
    except ValueError as wrong:
        raise ConfigError(
            f"{str(where.note)!r} is damaged or not a sidecar of holdfast: {wrong}. Restore it "
            f"together with {where.data.name!r}; or stop all writers and delete it, which forgets "
            "the fence"
        ) from None
