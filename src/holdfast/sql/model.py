"""Data types of the row lock, and the two ports that it is written over.

The **teller** carries out statements in the caller's own transaction. What must be committed at
once goes **beside** it, over a connection of ours that is never in anybody's transaction. Blocking
ports never suspend, so one text serves threads and asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
#: Separate connections that are kept open to one database.
KEPT = 2


class Late(Exception):
    """The separate connection had no answer within its time."""

    def __init__(self, waited: float) -> None:
        super().__init__(f"no answer for {waited:.3g} s")
        self.waited = waited


class Ended(Exception):
    """A wait was ended by the server: because the time has expired, or somebody cancelled it."""

    def __init__(self, by: Exception) -> None:
        super().__init__(str(by))
        #: What the driver raised.
        self.by = by


@dataclass(frozen=True, slots=True)
class RowLock:
    """The lock on a name that your transaction has, until it ends.

    There is nothing to release: ``COMMIT``, ``ROLLBACK`` and the end of the connection free it.
    ``fence`` is greater than every fence that a committed holder of this name had before.
    """

    name: str
    fence: int


class Row(NamedTuple):
    """Which row of which table stands for a name."""

    table: str
    kind: str
    key: str
    #: The name as the caller wrote it, for messages.
    shown: str

    @property
    def values(self) -> dict[str, Any]:
        """The parameters that find it."""
        return {"kind": self.kind, "key": self.key}


class Answer(NamedTuple):
    """What a statement came to: its first row, if it gives rows, and how many it changed."""

    row: Sequence[Any] | None
    changed: int

    @property
    def number(self) -> int | None:
        """The first column as a whole number."""
        return None if self.row is None or self.row[0] is None else int(self.row[0])


class Teller(Protocol):
    """Somebody who carries out one statement after the other over one connection."""

    async def ask(self, text: str, values: Mapping[str, Any]) -> Answer:
        """Carry out a statement whose parameters are written ``<name>``."""
        ...

    async def rows(self, text: str, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Carry out a statement, and give all its rows."""
        ...


class SeenRows(Protocol):
    """Which rows were there not long ago."""

    def has(self, row: Row, now: float) -> bool:
        """Was it there?"""
        ...

    def note(self, row: Row, now: float) -> None:
        """It is there now."""
        ...

    def forget(self, row: Row) -> None:
        """It may be gone."""
        ...


class Beside(Protocol):
    """Our own connections to the same database, in autocommit."""

    @property
    def seen(self) -> SeenRows:
        """The rows that were there when they looked."""
        ...

    async def do(self, work: Callable[[Teller], Awaitable[T]], limit: float | None = None) -> T:
        """Have this done over one of them. It may be done twice, if the first one was broken.

        ``limit`` is how many seconds it may take; after these it is cut, and `Late` raised.
        """
        ...


class Dialect(Protocol):
    """What differs between the databases."""

    #: The word for it in messages.
    label: str
    #: The statement that makes the table, with a place for its name.
    create: str
    #: Codes of errors: there is no table; it was made meanwhile; a right is missing.
    no_table: frozenset[str | int]
    made_meanwhile: frozenset[str | int]
    no_right: frozenset[str | int]

    async def settle(self, teller: Teller) -> None:
        """Prepare a separate connection that was just opened."""
        ...

    async def ensure(self, teller: Teller, row: Row) -> bool | None:
        """Have a row there, beside: was it made just now? None: somebody bars the place for it.

        Until somebody has committed with it, its fence is negative.
        """
        ...

    async def take(self, teller: Teller, row: Row) -> int | None:
        """Lock the row and raise its fence unless somebody has it, or it isn't there: the fence."""
        ...

    async def there(self, teller: Teller, beside: Beside, row: Row, limit: float) -> bool:
        """After a `take` without success: was it somebody's? False: it wasn't there, but can be
        now.

        ``limit`` is for what is done beside.
        """
        ...

    async def wait(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """As `take`, but wait for who has it. None: it was removed meanwhile. Raises `Ended`."""
        ...

    async def purge(self, teller: Teller, batch: Batch) -> tuple[int, tuple[str, str] | None]:
        """Remove one batch: how many, and where the next one begins; None after the last."""
        ...

    async def cutoff(self, teller: Teller, age: float) -> str:
        """The server's time so many seconds ago, as a text that `Batch` takes."""
        ...


class Batch(NamedTuple):
    """Which rows may be removed, in one short transaction."""

    table: str
    #: Not used since.
    cutoff: str
    #: Only of this kind; None: of any.
    kind: str | None
    #: Behind this row.
    after: tuple[str, str]
    most: int


def plain(row: Any) -> Sequence[Any]:
    """A row as a sequence, where a connection makes dictionaries of rows."""
    return tuple(row.values()) if isinstance(row, Mapping) else row


def code(failure: BaseException) -> str | int | None:
    """The number or SQLSTATE that a driver's error has, through those who wrap drivers."""
    seen: BaseException | None = failure
    while seen is not None:
        if isinstance(number := getattr(seen, "errno", None), int):
            return number
        if seen.args and type(seen.args[0]) is int:
            return int(seen.args[0])
        for attribute in ("sqlstate", "pgcode"):  # last, as those of MySQL say less
            if isinstance(found := getattr(seen, attribute, None), str):
                return found
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None
