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
    """Open a file like ``os.open``, with a descriptor of at least 3."""
    fd = os.open(path, flags, mode, dir_fd=dir_fd)
    if fd >= FIRST:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST)
    finally:
        os.close(fd)


def lifted(file: io.FileIO, kind: str) -> io.FileIO:
    """Return the same open file with a descriptor of at least 3; if its descriptor was lower, close
    that one.

    One chain of C calls makes the descriptor and the object that closes it, so Ctrl-C can't come
    between the two.
    """
    if file.fileno() >= FIRST:
        return file
    with file:
        above = map(fcntl.fcntl, (file.fileno(),), (fcntl.F_DUPFD_CLOEXEC,), (FIRST,))
        return next(map(io.FileIO, above, (kind,)))


def datagrams() -> socket.socket:
    """Return a Unix datagram socket without a name, with a descriptor of at least 3."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if made.fileno() >= FIRST:
        return made
    with made:
        return socket.socket(fileno=fcntl.fcntl(made.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST))


@contextmanager
def filled() -> Generator[None]:
    """Give each file that is opened in this block a descriptor of at least 3.

    Use it for files whose descriptor can't be changed later: because other code copies it, or
    because SQLite also has the file open. Each close of such a file drops SQLite's locks on it in
    this process.
    """
    spares: list[int] = []
    try:
        while not all(map(_taken, range(FIRST))):
            spares += os.pipe()  # not /dev/null, which can be missing in a chroot
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
