"""Data types of the row lock, and the two ports that it uses.

The executor (`Teller`) runs statements in the caller's own transaction. The side connection
(`Beside`) is for statements that must commit immediately; it is never in a caller's transaction.
Blocking ports never suspend, so the same code serves threads and asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
#: Maximum number of idle side connections that are kept open to one database.
KEPT = 2


class Late(Exception):
    """The side connection got no answer within its time limit."""

    def __init__(self, waited: float) -> None:
        super().__init__(f"no answer for {waited:.3g} s")
        self.waited = waited


class Ended(Exception):
    """The server ended a wait: the time-out has expired, or the wait was cancelled."""

    def __init__(self, by: Exception) -> None:
        super().__init__(str(by))
        #: The driver's exception.
        self.by = by


@dataclass(frozen=True, slots=True)
class RowLock:
    """The lock on a name that your transaction has, until it ends.

    There is nothing to release: ``COMMIT``, ``ROLLBACK`` and the end of the connection release it.
    ``fence`` is greater than the fence of every earlier holder of this name that committed.
    """

    name: str
    fence: int


class Row(NamedTuple):
    """The row of a name, and its table."""

    table: str
    kind: str
    key: str
    #: The name as the caller wrote it, for messages.
    shown: str

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of a statement that selects the row."""
        return {"kind": self.kind, "key": self.key}


class Answer(NamedTuple):
    """The result of a statement: its first row (None: no row), and the number of changed rows."""

    row: Sequence[Any] | None
    changed: int

    @property
    def number(self) -> int | None:
        """The first column of the row as a whole number; None if row or value is missing."""
        return None if self.row is None or self.row[0] is None else int(self.row[0])


class Teller(Protocol):
    """The executor: runs statements, one after the other, over one connection."""

    async def ask(self, text: str, values: Mapping[str, Any]) -> Answer:
        """Carry out a statement whose parameters are written ``<name>``."""
        ...

    async def rows(self, text: str, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Carry out a statement, and return all its rows."""
        ...


class SeenRows(Protocol):
    """Remembers the rows that existed a short time ago, to save a check of each."""

    def has(self, row: Row, now: float) -> bool:
        """Return True if the row existed a short time ago."""
        ...

    def note(self, row: Row, now: float) -> None:
        """Record that the row exists now."""
        ...

    def forget(self, row: Row) -> None:
        """Forget the row, because it can have been removed."""
        ...


class Beside(Protocol):
    """Side connections to the caller's database: separate connections, in autocommit."""

    @property
    def seen(self) -> SeenRows:
        """The rows that existed a short time ago."""
        ...

    async def do(self, work: Callable[[Teller], Awaitable[T]], limit: float | None = None) -> T:
        """Do work over one connection; if a kept connection fails, do the work over another.

        ``limit``: maximum seconds; after that the connection is cut and `Late` is raised.
        """
        ...


class Dialect(Protocol):
    """The parts that differ between the databases."""

    #: The name of the database in messages.
    label: str
    #: The statement that creates the table, with a placeholder for its name.
    create: str
    #: Error codes for three cases: the table doesn't exist; another client has just created the
    #: table; the user lacks a right.
    no_table: frozenset[str | int]
    made_meanwhile: frozenset[str | int]
    no_right: frozenset[str | int]

    async def settle(self, teller: Teller) -> None:
        """Prepare a separate connection that was just opened."""
        ...

    async def ensure(self, teller: Teller, row: Row) -> bool | None:
        """Create a missing row over a side connection; return True if this call created it.

        Return None if another transaction blocks the row's place in the index. The fence of a new
        row is negative until the first holder commits.
        """
        ...

    async def take(self, teller: Teller, row: Row) -> int | None:
        """Lock the row; raise and return its fence; return None if the row is locked or missing."""
        ...

    async def there(self, teller: Teller, beside: Beside, row: Row, limit: float) -> bool:
        """Return True if the row existed during a `take` that returned None.

        A missing row can be created by this call. ``limit``: maximum seconds for the side
        connection.
        """
        ...

    async def wait(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """Do `take`, but wait for the holder; None if the row was removed. Can raise `Ended`."""
        ...

    async def purge(self, teller: Teller, batch: Batch) -> tuple[int, tuple[str, str] | None]:
        """Remove one batch of rows; return their number and the last row (None: all done)."""
        ...

    async def cutoff(self, teller: Teller, age: float) -> str:
        """Return the time ``age`` seconds ago by the server's clock, as text for `Batch`."""
        ...


class Batch(NamedTuple):
    """The rows that may be removed in one short transaction."""

    table: str
    #: Only rows that were last used at this time or earlier.
    cutoff: str
    #: Only rows of this kind; None: of any kind.
    kind: str | None
    #: Only rows behind this kind and name, in order of the primary key.
    after: tuple[str, str]
    #: Maximum number of rows.
    most: int


def plain(row: Any) -> Sequence[Any]:
    """Return a row as a sequence, even if the connection returns rows as dictionaries."""
    return tuple(row.values()) if isinstance(row, Mapping) else row


def code(failure: BaseException) -> str | int | None:
    """Return the number or SQLSTATE of a driver's error, even if a wrapper such as SQLAlchemy
    raised it."""
    seen: BaseException | None = failure
    while seen is not None:
        if isinstance(number := getattr(seen, "errno", None), int):
            return number
        if seen.args and type(seen.args[0]) is int:
            return int(seen.args[0])
        for attribute in ("sqlstate", "pgcode"):  # last, because MySQL's are less exact
            if isinstance(found := getattr(seen, attribute, None), str):
                return found
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None
