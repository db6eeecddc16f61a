"""Descriptors that are never 0, 1 or 2, where a lock could be lost silently.

A process can be started with its standard descriptors closed. The kernel gives the lowest free
number, so the next opened file becomes "stdin". A daemonizer then puts /dev/null in place of 0, 1
and 2, which closes that file and drops its locks.
"""

from __future__ import annotations

import fcntl
import io
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

#: The lowest number that is not a standard descriptor.
FIRST = 3


def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """``os.open``, with a number from 3 on."""
    fd = os.open(path, flags, mode, dir_fd=dir_fd)
    if fd >= FIRST:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST)
    finally:
        os.close(fd)


def lifted(file: io.FileIO, kind: str) -> io.FileIO:
    """The same open file with a number from 3 on; the given file is closed if its number was lower.

    One chain of C calls makes it, so that Ctrl-C always leaves it in an object that closes itself.
    """
    if file.fileno() >= FIRST:
        return file
    with file:
        above = map(fcntl.fcntl, (file.fileno(),), (fcntl.F_DUPFD_CLOEXEC,), (FIRST,))
        return next(map(io.FileIO, above, (kind,)))


def datagrams() -> socket.socket:
    """A Unix datagram socket without a name, with a number from 3 on."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if made.fileno() >= FIRST:
        return made
    with made:
        return socket.socket(fileno=fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST))


@contextmanager
def filled() -> Generator[None]:
    """A block in which each opened file gets a number from 3 on.

    It is for files that can't be moved: a descriptor that other code copies, or a file that SQLite
    has open too, because each close of such a file drops SQLite's locks on it in this process.
    """
    spares: list[int] = []
    try:
        while not all(map(_taken, range(FIRST))):
            spares += os.pipe()  # a device may be missing in a chroot
        yield
    finally:
        for fd in spares:
            os.close(fd)


def _taken(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
