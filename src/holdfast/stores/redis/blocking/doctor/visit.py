"""The connections to an examined server, and what the server reports about itself."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from .....errors import StoreUnavailable
from .....runtime.blocking import boottime, walltime
from ...complaints import ServerSaid
from ...config import Settings
from ...keys import BUCKETS
from ...library import packed
from ..dial import Dialler
from ..link import Link
from ..shard import ShardLink

#: Maximum seconds to wait for each request.
WITHIN_S = 3.0
Reply = Any


class Clock(NamedTuple):
    """One reading of the server's clock, and of ours in the middle of the request, in seconds.

    ``took``: the duration of the request.
    """

    server: float
    ours: float
    took: float


class Visit:
    """One examination of one server."""

    def __init__(
        self,
        settings: Settings,
        dialler: Dialler | None = None,
        buckets: Sequence[int] | None = None,
    ) -> None:
        self.settings = settings
        #: True if the server is a node of a cluster; ``buckets`` are then the buckets of the node.
        self.sharded = buckets is not None
        self.buckets = range(BUCKETS) if buckets is None else buckets
        self.label = settings.label
        self.prefix = settings.prefix
        #: The rights that this user lacks for a complete examination.
        self.unseen: set[str] = set()
        #: A unique part for the names of the keys and channels that this examination uses.
        self.word = f"doctor-{secrets.token_hex(6)}".encode()
        self._dialler = dialler or Dialler(settings)
        self._main = self._connect()

    @contextmanager
    def connected(self) -> Generator[Link]:
        """Open one more connection. Close it soon: the server may have few connections left."""
        link = self._connect(ShardLink if self.sharded else Link)
        try:
            yield link
        finally:
            link.close()

    def _connect(self, kind: type[Link] = Link) -> Link:
        return kind(self._dialler.dial(boottime() + self.settings.connect_s))

    @property
    def protocol(self) -> int:
        """The protocol in use, 2 or 3."""
        return self._dialler.protocol

    def ask(self, *words: bytes, link: Link | None = None) -> Reply:
        """The reply to one command; an error reply is returned, not raised."""
        return self.ask_many([words], link)[0]

    def ask_many(self, commands: list[tuple[bytes, ...]], link: Link | None = None) -> list[Reply]:
        """The replies to several commands, in one round trip; see `ask`."""
        if not commands:
            return []
        wires = [packed(*words) for words in commands]
        try:
            return (link or self._main).ask_many(wires, boottime() + WITHIN_S)
        except OSError as wrong:
            what = commands[0][0].decode()
            raise StoreUnavailable(
                f"{self.label} did not answer {what} within {WITHIN_S:g} s: {wrong}"
            ) from wrong

    def look(self, right: str, *words: bytes, link: Link | None = None) -> Reply:
        """The reply to one command, or None for an error reply.

        If the user lacks the right for the command, ``right`` is added to `unseen`.
        """
        reply = self.ask(*words, link=link)
        if isinstance(reply, ServerSaid):
            if reply.code == "NOPERM":
                self.unseen.add(right)
            return None
        return reply

    # -- what the server reports about itself ----------------------------------------------

    def told(self, link: Link | None = None) -> dict[str, str]:
        """The fields of INFO, over this connection; empty if the server refuses the command."""
        text = self.look("info", b"INFO", link=link)
        if not isinstance(text, bytes):
            return {}
        lines = text.decode("utf-8", "replace").splitlines()
        return {key: value for key, colon, value in (one.partition(":") for one in lines) if colon}

    @functools.cached_property
    def info(self) -> dict[str, str]:
        """The fields of INFO, read once and then cached."""
        return self.told()

    @functools.cached_property
    def hello(self) -> dict[str, Any]:
        """The reply to HELLO; empty before Redis 6.2 and via many proxies. HELLO needs no right."""
        said = self.ask(b"HELLO")
        if isinstance(said, list):  # the form of RESP2
            said = dict(zip(said[::2], said[1::2], strict=False))
        if not isinstance(said, dict):
            return {}
        return {key.decode(): value for key, value in said.items() if isinstance(key, bytes)}

    @functools.cached_property
    def user(self) -> str:
        """The text "the user NAME", for messages; "the user" if the name is unknown."""
        return f"the user {self.user_name}".rstrip()

    @functools.cached_property
    def user_name(self) -> str:
        """The name of the user of this connection; empty if it is unknown."""
        said = self.ask(b"ACL", b"WHOAMI")
        if isinstance(said, bytes):
            return said.decode("utf-8", "replace")
        return str(self.settings.arguments.get("username") or "")

    def number(self, key: str) -> int | None:
        """A field of INFO as a number; None if INFO has no such number."""
        text = self.info.get(key, "")
        return int(text) if text.isdecimal() else None

    def replicas(self) -> Iterator[dict[str, str]]:
        """The fields that INFO gives for each replica of this server."""
        for at in range(self.number("connected_slaves") or 0):
            parts = (one.partition("=") for one in self.info.get(f"slave{at}", "").split(","))
            yield {key: value for key, _, value in parts}

    def setting(self, name: str) -> str | None:
        """The value of one setting of the server; None if it can't be read."""
        said = self.look("config|get", b"CONFIG", b"GET", name.encode())
        if isinstance(said, dict):
            said = [part for pair in said.items() for part in pair]
        if isinstance(said, list) and len(said) == 2:
            text: str = said[1].decode("utf-8", "replace")
            return text
        return None

    def clock(self) -> Clock | None:
        """Read the server's clock and ours; None if the server doesn't send its time."""
        begun, ours = boottime(), walltime()
        said = self.ask(b"TIME")
        took = boottime() - begun
        if not isinstance(said, list):
            return None
        return Clock(int(said[0]) + int(said[1]) / 1e6, ours + took / 2, took)

    # -- the end of the examination --------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._main.close()
