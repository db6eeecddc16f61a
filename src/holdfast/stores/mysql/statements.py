"""Verbs as statements of SQL: each is one ``CALL``, and so one round trip.

`LockCalls`, `QueueCalls` and `GuardCalls` have a `Row` for each verb; see `holdfast.runtime.codec`.
A statement is constant except for its values: whole numbers, and hexadecimal literals for
everything else. Such a literal has no quotes to escape, and no charset. The drivers don't prepare
statements at the server, and the way in which they escape quotes depends on settings of the
session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, ParamSpec

from ...core.model import Change, Claim, Kind, Leave, Renewal
from ...core.policy import PATIENCE_S, TOMB_S
from ...errors import NotHeld
from ...runtime import codec
from .schema import VERSION

P = ParamSpec("P")
KINDS = tuple(Kind)
_ID_BYTES = 16
#: Seconds after which an unused name is forgotten. If the server's clock is set back by at most
#: this time, fences still rise.
IDLE_S = 3600.0
#: Maximum number of names that one sweep checks.
SWEEP_ROWS = 256
NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
#: Reads the claims that have not expired. It is one statement, so all rows are from the same
#: moment.
_LOOK = f"""
SELECT l.name, l.kind, l.capacity, 1 AS held, l.last AS ticket, l.weight, l.owner, l.meta,
  {NOW} - GREATEST(0, l.since), l.expires - {NOW}, l.leaving
FROM {{prefix}}_lines l
WHERE %s AND l.lone IS NOT NULL AND l.expires > {NOW}
UNION ALL
SELECT l.name, l.kind, l.capacity, c.held, c.ticket, c.weight, c.owner, c.meta,
  {NOW} - GREATEST(0, c.since), c.expires - {NOW}, c.leaving
FROM {{prefix}}_lines l JOIN {{prefix}}_claims c ON c.name = l.name AND c.ticket >= l.low
WHERE %s AND l.claims > 0 AND c.expires > {NOW}
ORDER BY name, ticket
"""  # noqa: S608


def micros(seconds: float) -> int:
    """Return seconds as microseconds, rounded up: no lease is shorter than requested."""
    return -int(-seconds * 1_000_000 // 1)


def ident(claim_id: str) -> bytes:
    """Return a claim's id as bytes; raise ``NotHeld`` for other text: a token can contain any."""
    try:
        found = bytes.fromhex(claim_id)
    except ValueError:
        found = b""
    if len(found) != _ID_BYTES:
        raise NotHeld("that is not the id of a claim: 32 hexadecimal digits")
    return found


def literal(value: bytes) -> str:
    """Return a literal of SQL for these bytes."""
    return f"X'{value.hex()}'"


def of_names(column: str, prefix: str, exact: bool) -> str:
    """Return a condition of SQL: the column equals this name, or begins with this prefix."""
    name = prefix.encode()
    if exact:
        return f"{column} = {literal(name)}"
    if not name:
        return "TRUE"
    # The last byte of a text in UTF-8 is never 255.
    after = name[:-1] + bytes([name[-1] + 1])
    return f"{column} >= {literal(name)} AND {column} < {literal(after)}"


def by_name(names: Sequence[str]) -> list[int]:
    """Return the indexes of these names in the server's order."""
    return sorted(range(len(names)), key=lambda at: names[at].encode())


def sized(value: bytes) -> bytes:
    """Return bytes with their length before them."""
    return len(value).to_bytes(2, "big") + value


#: The function that packs a value, by its kind.
_PACKS: dict[str, codec.Pack] = {
    "text": lambda text: f"X'{text.encode().hex()}'",
    "id": lambda claim_id: f"X'{ident(claim_id).hex()}'",
    "id?": lambda claim_id: literal(ident(claim_id)) if claim_id else "NULL",
    "kind": {kind: number for number, kind in enumerate(KINDS)}.__getitem__,
    "n": int,
    "us": micros,
    "later": lambda seconds: micros(max(0.0, seconds)),
}
#: The function that packs a field of an item in a batch, by its kind. A batch is one literal.
ITEM: dict[str, codec.Pack] = {
    "text": lambda text: len(raw := text.encode()).to_bytes(2, "big") + raw,
    "size": lambda text: len(text.encode()).to_bytes(2, "big"),
    "bare": str.encode,
    "id": ident,
    "kind": lambda kind: KINDS.index(kind).to_bytes(1, "big"),
    "n1": lambda number: number.to_bytes(1, "big"),
    "n4": lambda number: number.to_bytes(4, "big"),
    "n8": lambda number: number.to_bytes(8, "big"),
    "us": lambda seconds: micros(seconds).to_bytes(8, "big"),
}


class Statements:
    """A table of verbs for one prefix: each `Row` of a subclass makes statements."""

    #: The second prefix of the procedures' names, and their version.
    family, version = "", VERSION
    #: Kinds that only this table has.
    kinds: ClassVar[dict[str, codec.Pack]] = {}

    def __init__(self, prefix: str, patience: float = PATIENCE_S) -> None:
        #: Letters, digits and _ (config.py).
        self.prefix = prefix
        self.constants = {
            "patience": micros(patience),
            "semaphore": KINDS.index(Kind.SEMAPHORE),
            "tombstone": micros(TOMB_S),
            "none": "NULL",
            "zero": 0,
        }

    def pack(self, kind: str) -> codec.Pack:
        """Return the function for this kind; ``*path:kind,…`` packs fields of all items."""
        if not kind.startswith("*"):
            return self.kinds.get(kind) or _PACKS[kind]
        item = codec.packed(kind[1:].replace(",", " "), ITEM)
        return lambda items: literal(b"".join(map(item, items)))


class Row(codec.Row[P, str]):
    """A verb in a table. ``sql``: its statement; ``name``: the verb whose procedure it calls."""

    def __init__(self, fields: str, sql: str = "", *, name: str = "") -> None:
        super().__init__(fields)
        self._sql, self._calls = sql, name

    def made(self, table: Statements, fields: list[codec.Field]) -> Callable[P, str]:
        """See the base class."""
        name = f"{table.family}{self._calls or self.name}_{table.version}"
        marks = ",".join("%s" for _ in fields)
        sql = (self._sql or f"CALL {{prefix}}_{name}({marks})").replace("{prefix}", table.prefix)
        return codec.encoder(fields, table.pack, table.constants, sql.__mod__)


class LockCalls(Statements):
    """The verbs of locks. Verbs for several names get them in the server's order (`by_name`)."""

    join: Row[[Claim, bool]] = Row(
        "claim.spec.name:text claim.id:id claim.spec.kind:kind claim.spec.capacity:n "
        "claim.spec.weight:n claim.spec.ttl:us claim.spec.owner:text claim.spec.meta:text wait:n "
        "$patience"
    )
    #: Asks for one claim that waits, or renews it if it is held.
    turn: Row[[Claim]] = Row(
        "claim.spec.name:text claim.id:id claim.spec.ttl:us $patience $zero $none "
        "claim.spec.owner:text",
        name="stand",
    )
    #: Renews one claim that is held, perhaps with a smaller weight. Here and in `change`, the
    #: waiter TTL is 0, so a claim that waits isn't changed.
    renew_one: Row[[Renewal]] = Row(
        "renewal.claim.spec.name:text renewal.claim.id:id renewal.ttl:us $zero renewal.weight:n "
        "$none renewal.claim.spec.owner:text",
        name="stand",
    )
    change: Row[[Change]] = Row(
        "change.claim.spec.name:text change.claim.id:id change.ttl:us $zero $zero "
        "change.new_id:id? change.claim.spec.owner:text",
        name="stand",
    )
    #: The second argument is the lifetime of a tombstone in seconds; 0: no tombstone.
    _leave: Row[[Leave, float]] = Row(
        "leave.name:text leave.id:id leave.ticket:n leave.after:later tombstone:us", name="leave"
    )
    #: Ends a claim by its ticket.
    break_: Row[[str, int]] = Row("name:text $none ticket:n $zero $tombstone", name="leave")
    resize: Row[[str, int]] = Row("name:text $semaphore capacity:n")
    sweep: Row[[int, float]] = Row("rows:n idle:us", f"CALL {{prefix}}_sweep_{VERSION}(%s, %s)")
    #: Renews claims that are held.
    renew: Row[[Iterable[Renewal]]] = Row("renewals*claim.spec.name:text,claim.id:id,ttl:us")
    #: Releases claims that are alone in their lines.
    leave_all: Row[[Iterable[Leave]]] = Row("leaves*name:text,id:id")
    join_free: Row[[Iterable[Claim]]] = Row(
        "claims*spec.name:text,id:id,spec.kind:kind,spec.capacity:n4,spec.weight:n4,spec.ttl:us,"
        "spec.owner:size,spec.meta:size,spec.owner:bare,spec.meta:bare"
    )
    #: Returns 1 if the claim with this ticket is held; no row if it is gone. Locks nothing.
    peek: Row[[str, int]] = Row(
        "name:text ticket:n", "SELECT held FROM {prefix}_claims WHERE name = %s AND ticket = %s"
    )

    def leave(self, leave: Leave) -> str:
        """Withdraw or release a claim."""
        return self._leave(leave, leave.ttl + TOMB_S if leave.suspect else 0.0)

    def inspect(self, prefix: str, exact: bool) -> str:
        """Return the statement for the claims of one name, or of all names with a prefix."""
        which = of_names("l.name", prefix, exact)
        return _LOOK.replace("{prefix}", self.prefix) % (which, which)
