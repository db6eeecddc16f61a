"""Who waits for a job or a value: a file with a name that says what for, since when, and where to
poke.

To wake somebody is to remove such a file, which one process can do but once, and then to send a
datagram to the socket that its name says. So a job that becomes due wakes one who waits, without a
transaction and without the gate; and to wait no more is to remove one's own.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .place import Place, unusable
from .wake import Post


class Ear(NamedTuple):
    """One who waits."""

    name: str
    session: str
    path: str


class Ears:
    """The folder of those who wait."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._folder = f"{place.folder}/idle"
        self._make()

    def _make(self) -> None:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
                os.chmod(self._folder, self._place.dir_mode)
        except OSError as wrong:
            raise unusable(self._folder, wrong) from None

    def open(self, topic: str, now: float, address: str, name: str) -> Ear:
        """This one waits for something of the topic from now on."""
        file = f"{_key(topic)}-{int(now * 1e6):020d}-{address}-{name}"
        ear = Ear(name, address.rpartition(".")[0], f"{self._folder}/{file}")
        self.listen(ear)
        return ear

    def listen(self, ear: Ear) -> None:
        """It waits on, or again."""
        try:
            self._link(ear)
        except FileNotFoundError:
            self._make()
            self._link(ear)

    @staticmethod
    def _link(ear: Ear) -> None:
        with contextlib.suppress(FileExistsError):
            os.symlink("-", ear.path)

    def rouse(self, topic: str, count: int, post: Post) -> None:
        """Wake so many who wait for something of the topic, the longest waiting first."""
        for path, address, name in self._of(f"{_key(topic)}-"):
            if count <= 0:
                return
            try:
                os.unlink(path)
            except OSError:
                continue  # Somebody else woke it, or it waits no more.
            if post.send(address, name, 1):
                count -= 1

    def rouse_all(self, topics: Iterable[str], post: Post) -> None:
        """Wake all who wait for something of these topics."""
        keys = {_key(topic) for topic in topics}
        for path, address, name in self._of():
            if path[len(self._folder) + 1 :].partition("-")[0] in keys:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                    post.send(address, name, 1)

    def _of(self, prefix: str = "") -> Iterator[tuple[str, str, str]]:
        try:
            found = sorted(one for one in os.listdir(self._folder) if one.startswith(prefix))
        except OSError:
            return
        for one in found:
            parts = one.split("-")
            if len(parts) == 4:
                yield f"{self._folder}/{one}", parts[2], parts[3]

    def bury(self, session: str) -> None:
        """A session has ended: nobody waits there."""
        for path, address, _ in self._of():
            if address.startswith(session + "."):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _key(topic: str) -> str:
    """What the files of a topic begin with; two that share it wake each other for nothing."""
    return f"{zlib.crc32(topic.encode('utf-8', 'surrogatepass')):08x}"


def close(ear: Ear) -> None:
    """It waits no more."""
    with contextlib.suppress(OSError):
        os.unlink(ear.path)
