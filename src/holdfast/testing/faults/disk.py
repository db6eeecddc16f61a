"""Full disks, files that can't grow, and files that another process deletes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Self

#: Bytes per write when a disk is filled: large pieces first, then smaller ones, to the last byte.
_PIECES = (1 << 16, 1 << 12, 1)


class NoSmallDisk(Exception):
    """A small disk needs the right to mount a file system (root on Linux): skip the test."""


@contextlib.contextmanager
def no_file_longer(than: int) -> Generator[None]:
    """Let no file of this process grow beyond ``than`` bytes: such a write fails with ``EFBIG``.

    The limit acts like a quota (RLIMIT_FSIZE). Processes that are started in the body inherit it.
    """
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (than, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


class SmallDisk:
    """A separate file system of ``size`` bytes, mounted at ``folder`` while the block runs.

    Raises ``NoSmallDisk`` if this process may not mount a file system.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._ballast = "ballast"
        self.folder = Path()

    def fill(self) -> None:
        """Write to a file until the disk is full to the last byte."""
        with open(self.folder / self._ballast, "ab", buffering=0) as file:
            for piece in _PIECES:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(piece))

    def clear(self) -> None:
        """Free the space that ``fill`` has used."""
        (self.folder / self._ballast).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="small-disk-"))
        options = f"size={self._size},mode=0700"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as wrong:
            self.folder.rmdir()
            raise NoSmallDisk(str(wrong)) from None
        return self

    def __exit__(self, *_: object) -> None:
        # Unmount lazily, because another process can still have a file of this disk open.
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        self.folder.rmdir()


def delete(*paths: str | os.PathLike[str]) -> list[str]:
    """Delete files and folders that other processes use; return the paths that were deleted.

    If another process adds files to a folder at the same time, these files are deleted, too.
    """
    found = []
    for path in paths:
        if not os.path.lexists(path):
            continue
        while os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            try:
                os.unlink(path)
            except OSError as wrong:
                if wrong.errno not in (errno.EISDIR, errno.EPERM):
                    raise
                continue  # another process has created the path again, as a folder
        found.append(os.fspath(path))
    return found
