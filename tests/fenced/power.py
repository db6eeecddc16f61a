"""A simulated disk that loses unsynced data when the power fails, a process dies or a call fails.

The real code runs on real files, and its changing system calls are recorded. Synced data is
certainly on the disk. Any part of the other data can have reached the disk, in any order: one page
of a write, or part of a page; the length of a file without its contents; a name without the data of
its file. A *kill* leaves everything that the dead process wrote in the kernel's memory. The next
process reads all of it, synced or not. A *fault* is a call that fails as on a full or broken disk.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from holdfast.fenced.blocking import files

PAGE = 4096
#: The calls that are recorded: those of ``os``, and ``files.write`` after each of its halves.
CALLS = ("open", "pwrite", "fsync", "ftruncate", "replace", "unlink", "write", "half")


class Killed(BaseException):
    """The process is dead after this; every further call raises this too."""


class File:
    """One inode: the data that is certainly on the disk, and the writes that can be on it."""

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = synced
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        for at, data in self.pending:
            self.synced = _apply(self.synced, at, data)
        self.pending.clear()

    def after_power_loss(self, dice: random.Random) -> bytes:
        """One of the contents that the disk can have."""
        contents = self.synced
        for at, data in self.pending:
            if dice.random() < 0.2:
                continue
            if data is None:
                contents = _apply(contents, at, None)
                continue
            if dice.random() < 0.5:  # the length is there before the data
                contents = contents.ljust(at + len(data), b"\0")
            for start, end in _pages(at, len(data)):
                luck = dice.random()
                if luck < 0.3:
                    continue
                piece = data[start:end]
                if luck < 0.5:
                    piece = piece[: dice.randrange(min(len(piece), dice.choice((100, PAGE))))]
                contents = _apply(contents, at + start, piece)
        return contents


def _apply(contents: bytes, at: int, data: bytes | None) -> bytes:
    """Apply a write, or (with None) a truncation."""
    if data is None:
        return contents[:at].ljust(at, b"\0")
    return contents.ljust(at, b"\0")[:at] + data + contents[at + len(data) :]


def _pages(at: int, size: int) -> list[tuple[int, int]]:
    """The pieces of a write that lie in one page each, counted from its start."""
    cuts = [0, *range(PAGE - at % PAGE, size, PAGE), size]
    return [(a, b) for a, b in itertools.pairwise(cuts) if b > a]


class Disk:
    """A folder whose changes are recorded. Use as ``with disk:`` around the code under test."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.names: dict[str, File] = {}
        self.synced_names: dict[str, File] = {}
        self.pending_names: list[tuple[str, File | None, str]] = []
        self.inodes: dict[int, File] = {}
        self.kill_in = self.fault_in = 0
        #: The calls that `kill_in` counts.
        self.kill_at: tuple[str, ...] = CALLS
        self.dead = False
        self._kept: list[tuple[Any, str, Any]] = []

    def put(self, name: str, contents: bytes) -> None:
        """Make a file that is completely synced."""
        path = self.folder / name
        path.write_bytes(contents)
        self.names[name] = self.synced_names[name] = File(contents)
        self.inodes[path.stat().st_ino] = self.names[name]

    # -- the calls -------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.dead = False
        for room, name in (
            *((os, name) for name in CALLS if name not in ("write", "half")),
            (files, "write"),
        ):
            self._kept.append((room, name, getattr(room, name)))
            setattr(room, name, self._noted(name, getattr(room, name)))
        return self

    def __exit__(self, *_: object) -> None:
        while self._kept:
            setattr(*self._kept.pop())
        self.kill_in = self.fault_in = 0

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        note = getattr(self, f"_{name}")

        def noted(*args: Any, **more: Any) -> Any:
            self._step(name)
            return note(call, *args, **more)

        return noted

    def _step(self, name: str) -> None:
        if self.dead:
            raise Killed
        if self.kill_in and name in self.kill_at:
            self.kill_in -= 1
            self.dead = self.kill_in == 0
            if self.dead:
                raise Killed
        if self.fault_in and name in ("pwrite", "fsync", "write"):
            self.fault_in -= 1
            if self.fault_in == 0 and name != "write":
                raise OSError(errno.EIO, "a planted fault")

    def _open(self, call: Any, path: Any, how: int, mode: int = 0o777) -> int:
        fd: int = call(path, how, mode)
        if os.path.isfile(path):
            name = os.path.basename(path)
            if name not in self.names:
                self._name(name, File())
            self.inodes[os.fstat(fd).st_ino] = self.names[name]
        return fd

    def _pwrite(self, call: Any, fd: int, data: Any, at: int) -> int:
        self._file(fd).pending.append((at, bytes(data)))
        return int(call(fd, data, at))

    def _write(self, call: Any, file: Any, payload: bytes) -> None:
        at = os.fstat(file.fileno()).st_size
        halves = (payload[: len(payload) // 2], payload[len(payload) // 2 :])
        for half in halves:
            call(file, half)
            self._file(file.fileno()).pending.append((at, half))
            at += len(half)
            self._step("half")
            if self.fault_in == 1:
                self.fault_in = 0
                raise OSError(errno.ENOSPC, "a planted full disk")

    def _fsync(self, call: Any, fd: int) -> None:
        del call  # the real disk needn't be bothered
        if os.fstat(fd).st_ino in self.inodes:
            self._file(fd).sync()
        else:
            self.synced_names = dict(self.names)
            self.pending_names.clear()

    def _ftruncate(self, call: Any, fd: int, at: int) -> None:
        self._file(fd).pending.append((at, None))
        call(fd, at)

    def _replace(self, call: Any, source: Any, target: Any) -> None:
        call(source, target)
        gone = os.path.basename(source)
        file = self.names.pop(gone)
        self.names[os.path.basename(target)] = file
        self.pending_names.append((os.path.basename(target), file, gone))

    def _unlink(self, call: Any, path: Any) -> None:
        call(path)
        self._name(os.path.basename(path), None)

    def _file(self, fd: int) -> File:
        return self.inodes[os.fstat(fd).st_ino]

    def _name(self, name: str, file: File | None) -> None:
        self.pending_names.append((name, file, ""))
        if file is None:
            del self.names[name]
        else:
            self.names[name] = file

    # -- the power -------------------------------------------------------------------------

    def lose_power(self, folder: Path) -> Disk:
        """The disk after the power came back, in another folder."""
        names = dict(self.synced_names)
        for name, file, gone in self.pending_names:
            if self.dice.random() < 0.5:
                names.pop(gone, None)
                if file is None:
                    names.pop(name, None)
                else:
                    names[name] = file
        disk = Disk(folder, self.dice)
        folder.mkdir()
        for name, file in names.items():
            disk.put(name, file.after_power_loss(self.dice))
        return disk
