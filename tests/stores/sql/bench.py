"""The properties of a store in an SQL database, for the shared tests.

Each store has a subclass of `Bench`, which its ``conftest.py`` returns as the fixture ``bench``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from holdfast import Client
from holdfast.core.guard.model import Finish, Wish
from holdfast.testing.faults import CHUNKS, Fault, Proxy
from holdfast.testing.faults.wire import Wire


class Bench:
    """The server that all tests of a store share, and ways to look into its tables."""

    #: The scheme of its URLs.
    scheme: ClassVar[str]
    #: The beginning of the name of each table, with the schema.
    tables: ClassVar[str]
    #: The tables of refresh guards.
    guard_tables: ClassVar[tuple[str, ...]]
    #: The column of a line for the time at which the first claim expires, and the maximum number of
    #: dead claims that one verb removes.
    first: ClassVar[str]
    steps: ClassVar[int]
    #: A query for the ids of all tombstones.
    tombs: ClassVar[str]
    #: How the proxy splits the requests.
    wire: ClassVar[Wire] = CHUNKS
    #: True if the torture can lose and delay messages (see `holdfast.testing.torture`).
    weather: ClassVar[bool] = False
    #: True if an ack waits for the server's disk.
    acks_wait: ClassVar[bool] = True
    #: A message, or the end of a connection, without which the server does not end a session.
    goodbye: ClassVar[tuple[bytes, Fault]]
    #: A part of the first message of a client of `proxied`.
    begins: ClassVar[bytes]
    #: The methods of this class get a connection and return it.
    pool: ClassVar[type]

    def __init__(self, server: Any) -> None:
        self.server = server

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement in which each table is called ``{table}``, as in ``{lines}``."""
        return list(self.server.ask(sql.replace("{", self.tables).replace("}", ""), *values))

    def buried(self) -> set[str]:
        """The ids of all tombstones."""
        return {str(row) for row in self.ask(self.tombs)}

    def proxied(self, proxy: Proxy, options: str = "") -> str:
        """The URL of the server behind this proxy; ``options`` is the query part of the URL."""
        raise NotImplementedError

    def word(self, verb: str) -> bytes:
        """Bytes in the requests of this verb, and of no other; queues have ``queue_put``."""
        raise NotImplementedError

    def locked(self, name: str, server: Any = None) -> AbstractContextManager[None]:
        """Lock the row of this name inside the block."""
        raise NotImplementedError

    def sessions(self, server: Any, label: str) -> int:
        """The number of sessions of the client whose URL has the options `labelled`."""
        raise NotImplementedError

    def labelled(self, server: Any, label: str, pool: int) -> str:
        """The URL of a client whose sessions can be counted."""
        raise NotImplementedError

    def sweep(self, client: Client, ahead: float) -> None:
        """Remove expired rows of refresh guards, as if ``ahead`` seconds had passed."""
        raise NotImplementedError

    def open_begin(self, wish: Wish) -> AbstractContextManager[Any]:
        """A request for a refresh lease that isn't committed yet; the block gets its connection."""
        raise NotImplementedError

    def open_finish(self, finish: Finish) -> AbstractContextManager[Any]:
        """A stored value that isn't committed yet."""
        raise NotImplementedError

    def open_invalidate(self, wish: Wish) -> AbstractContextManager[Any]:
        """An invalidation that isn't committed yet."""
        raise NotImplementedError
