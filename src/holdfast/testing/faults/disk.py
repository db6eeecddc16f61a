"""Disks that are full, files that may not grow, files that another process deletes."""

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

#: Bytes of one write that fills a disk: large pieces first, then smaller ones, to the last byte.
_PIECES = (1 << 16, 1 << 12, 1)


class NoSmallDisk(Exception):
    """A small disk needs the right to mount one (root on Linux): skip the test."""


@contextlib.contextmanager
def no_file_longer(than: int) -> Generator[None]:
    """In this process no file grows beyond ``than`` bytes: a write there fails with ``EFBIG``.

    It acts like a quota (RLIMIT_FSIZE). Processes that are started meanwhile inherit it.
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

    ``NoSmallDisk`` where this process may not mount one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._ballast = "ballast"
        self.folder = Path()

    def fill(self) -> None:
        """Write until nothing more fits."""
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
        # Lazily, because another process may still have a file of it open.
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        self.folder.rmdir()


def delete(*paths: str | os.PathLike[str]) -> list[str]:
    """Delete files and folders that others use; the paths that existed and are now deleted.

    What others create in a folder meanwhile is deleted too, until the folder itself is gone.
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
                continue  # it was created again, as a folder
        found.append(os.fspath(path))
    return found
