"""The waiters for a job or a value: one file each, whose name contains what for, since when, and
where to send the wake-up.

To wake somebody is to remove such a file, which succeeds for one process only, and then to send a
datagram to the socket that its name says. So a job that becomes due wakes a waiter, without a
transaction and without the file mutex; and to wait no more is to remove one's own.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .folder import Folder, folder
from .paths import Place, unusable
from .wake import Post


class Ear(NamedTuple):
    """A waiter."""

    name: str
    session: str
    #: The file that says so, and where it is.
    file: str
    folder: Folder


class Ears:
    """The folder of the waiters."""

    def __init__(self, place: Place) -> None:
        self._folder = folder(place, "idle")

    def ear(self, topic: str, now: float, address: str, name: str) -> Ear:
        """One who is going to wait for something of the topic, once it listens."""
        file = f"{_key(topic)}-{int(now * 1e6):020d}-{address}-{name}"
        return Ear(name, address.rpartition(".")[0], file, self._folder)

    def listen(self, ear: Ear) -> None:
        """It waits on, or again."""
        try:
            self._link(ear.file)
        except FileNotFoundError:
            self._folder.renew()
            self._link(ear.file)

    def _link(self, file: str) -> None:
        try:
            os.symlink("-", file, dir_fd=self._folder.fd)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise
        except OSError as wrong:
            raise unusable(self._folder.path, wrong) from None

    def rouse(self, topic: str, count: int, post: Post) -> None:
        """Wake so many who wait for something of the topic, the longest waiting first."""
        for file, address, name in self._of(f"{_key(topic)}-"):
            if count <= 0:
                return
            count -= self._poke(file, address, name, post)

    def rouse_all(self, topics: Iterable[str], post: Post) -> None:
        """Wake all who wait for something of these topics."""
        keys = {_key(topic) for topic in topics}
        for file, address, name in self._of():
            if file.partition("-")[0] in keys:
                self._poke(file, address, name, post)

    def _poke(self, file: str, address: str, name: str, post: Post) -> bool:
        """Wake one; False if somebody else did, if it waits no more, or nobody listens there."""
        try:
            return self._folder.unlink(file) and post.send(address, name, 1)
        except BaseException:  # an interrupt: it may not have been woken, so it waits as before
            self._link(file)
            raise

    def _of(self, prefix: str = "") -> Iterator[tuple[str, str, str]]:
        try:
            found = sorted(one for one in self._folder.names() if one.startswith(prefix))
        except OSError:
            return
        for one in found:
            parts = one.split("-")
            if len(parts) == 4:
                yield one, parts[2], parts[3]

    def bury(self, session: str) -> None:
        """A session has ended: nobody waits there."""
        for file, address, _ in self._of():
            if address.startswith(session + "."):
                self._folder.unlink(file)


def _key(topic: str) -> str:
    """What the files of a topic begin with; two that share it wake each other for nothing."""
    return f"{zlib.crc32(topic.encode('utf-8', 'surrogatepass')):08x}"


def close(ear: Ear) -> None:
    """It waits no more."""
    ear.folder.unlink(ear.file)
