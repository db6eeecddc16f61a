"""The waiters for a job or a value: one file each, whose name contains the topic, the start of the
wait, and the address for the wake-up.

A client wakes a waiter in two steps. It removes the file, which succeeds for one process only. Then
it sends a datagram to the address in the name of the file. So a job that becomes due wakes a waiter
without a transaction and without the file mutex. A waiter that stops waiting removes its file.
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
    """A waiter, and the file that lists it."""

    name: str
    session: str
    #: The name of the file, and its folder.
    file: str
    folder: Folder


class Ears:
    """The folder in which the waiters are listed. A *topic* names what a waiter waits for."""

    def __init__(self, place: Place) -> None:
        self._folder = folder(place, "idle")

    def ear(self, topic: str, now: float, address: str, name: str) -> Ear:
        """Return a new waiter for the topic, which `listen` lists."""
        file = f"{_key(topic)}-{int(now * 1e6):020d}-{address}-{name}"
        return Ear(name, address.rpartition(".")[0], file, self._folder)

    def listen(self, ear: Ear) -> None:
        """List the waiter, unless it is listed already."""
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
        """Wake up to ``count`` waiters for the topic, the longest waiting first."""
        for file, address, name in self._of(f"{_key(topic)}-"):
            if count <= 0:
                return
            count -= self._poke(file, address, name, post)

    def rouse_all(self, topics: Iterable[str], post: Post) -> None:
        """Wake all waiters for these topics."""
        keys = {_key(topic) for topic in topics}
        for file, address, name in self._of():
            if file.partition("-")[0] in keys:
                self._poke(file, address, name, post)

    def _poke(self, file: str, address: str, name: str, post: Post) -> bool:
        """Wake one waiter; False if it is no longer listed, or if its socket is gone."""
        try:
            return self._folder.unlink(file) and post.send(address, name, 1)
        except BaseException:  # an interrupt: the wake-up may not be sent, so list it again
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
        """Remove the waiters of a session that has ended."""
        for file, address, _ in self._of():
            if address.startswith(session + "."):
                self._folder.unlink(file)


def _key(topic: str) -> str:
    """The prefix of the files of a topic; topics with the same prefix cause needless wake-ups."""
    return f"{zlib.crc32(topic.encode('utf-8', 'surrogatepass')):08x}"


def close(ear: Ear) -> None:
    """Remove a waiter."""
    ear.folder.unlink(ear.file)
