"""Verbs of locks as statements of SQL: each is one ``CALL``, and so one round trip.

The statements are constants. Their values are whole numbers, and hexadecimal literals for
everything else: such a literal has no quotes to escape, and no charset. Neither driver prepares
statements at the server, and their escaping of quotes depends on settings of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.model import Claim, Keep, Kind, Leave
from ...core.policy import TOMB_S
from ...errors import NotHeld
from .schema import VERSION

KINDS = tuple(Kind)
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_ID_BYTES = 16
#: Seconds after which an unused name is forgotten. If the server's clock is set back by at most
#: this, fences still rise.
IDLE_S = 3600.0
#: Maximum number of names that one sweep looks at.
SWEEP_ROWS = 256
_NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
#: Reads the claims that have not expired. It is one statement, so all rows are as of one moment.
_LOOK = """
SELECT l.name, l.kind, l.capacity, 1 AS held, l.last AS ticket, l.weight, l.owner, l.meta,
  {now} - GREATEST(0, l.since), l.expires - {now}, l.leaving
FROM {prefix}_lines l
WHERE {{which}} AND l.lone IS NOT NULL AND l.expires > {now}
UNION ALL
SELECT l.name, l.kind, l.capacity, c.held, c.ticket, c.weight, c.owner, c.meta,
  {now} - GREATEST(0, c.since), c.expires - {now}, c.leaving
FROM {prefix}_lines l JOIN {prefix}_claims c ON c.name = l.name AND c.ticket >= l.low
WHERE {{which}} AND l.claims > 0 AND c.expires > {now}
ORDER BY name, ticket
"""


def micros(seconds: float) -> int:
    """Return seconds as microseconds, rounded up: no lease is shorter than requested."""
    return -int(-seconds * 1_000_000 // 1)


def ident(claim_id: str) -> bytes:
    """Return a claim's id as bytes; ``NotHeld`` if it is no id. In a token, it can be any text."""
    try:
        found = bytes.fromhex(claim_id)
    except ValueError:
        found = b""
    if len(found) != _ID_BYTES:
        raise NotHeld("that is not the id of a claim: 32 hexadecimal digits")
    return found


def literal(value: bytes) -> str:
    """Return a literal of these bytes."""
    return f"X'{value.hex()}'"


class Statements:
    """Makes the statements, for tables and procedures with this prefix."""

    def __init__(self, prefix: str, patience: float) -> None:
        self._patience = micros(patience)
        # A prefix is letters, digits and _ (config.py).
        self._peek = f"SELECT held FROM {prefix}_claims WHERE name = "  # noqa: S608
        self._look = _LOOK.format(prefix=prefix, now=_NOW)
        self._join = f"CALL {prefix}_join_{VERSION}("
        self._stand = f"CALL {prefix}_stand_{VERSION}("
        self._leave = f"CALL {prefix}_leave_{VERSION}("
        self._resize = f"CALL {prefix}_resize_{VERSION}("
        self.sweep = f"CALL {prefix}_sweep_{VERSION}({SWEEP_ROWS}, {micros(IDLE_S)})"
        self._renew = f"CALL {prefix}_renew_{VERSION}("
        self._join_free = f"CALL {prefix}_join_free_{VERSION}("
        self._leave_all = f"CALL {prefix}_leave_all_{VERSION}("

    def join(self, claim: Claim, wait: bool) -> str:
        """Enter the line."""
        spec = claim.spec
        return (
            f"{self._join}X'{spec.name.encode().hex()}',{literal(ident(claim.id))},"
            f"{_NUMBER[spec.kind]},{spec.capacity},{spec.weight},{micros(spec.ttl)},"
            f"X'{spec.owner.encode().hex()}',X'{spec.meta.encode().hex()}',"
            f"{wait:d},{self._patience})"
        )

    def stand(self, keep: Keep) -> str:
        """Renew one claim, held or waiting, or change it."""
        spec = keep.claim.spec
        new = literal(ident(keep.new_id)) if keep.new_id else "NULL"
        return (
            f"{self._stand}X'{spec.name.encode().hex()}',{literal(ident(keep.claim.id))},"
            f"{micros(keep.ttl)},{self._patience},{keep.weight},{new},{literal(spec.owner.encode())})"
        )

    def leave(self, leave: Leave) -> str:
        """Withdraw or release."""
        bury = micros(leave.ttl + TOMB_S) if leave.suspect else 0
        return (
            f"{self._leave}X'{leave.name.encode().hex()}',{literal(ident(leave.id))},{leave.ticket},"
            f"{micros(max(0.0, leave.after))},{bury})"
        )

    def break_(self, name: str, ticket: int) -> str:
        """End a claim by its ticket."""
        return f"{self._leave}X'{name.encode().hex()}',NULL,{ticket},0,{micros(TOMB_S)})"

    def resize(self, name: str, capacity: int) -> str:
        """Change the capacity of a line."""
        kind = _NUMBER[Kind.SEMAPHORE]
        return f"{self._resize}{literal(name.encode())},{kind},{capacity})"

    def renew(self, keeps: Iterable[Keep]) -> str:
        """Renew claims that are held, in the order of their names."""
        packed = b"".join(
            _head(keep.claim.spec.name, keep.claim.id) + micros(keep.ttl).to_bytes(8, "big")
            for keep in keeps
        )
        return f"{self._renew}{literal(packed)})"

    def leave_all(self, leaves: Iterable[Leave]) -> str:
        """Release claims that are alone in their lines, in the order of their names."""
        packed = b"".join(_head(leave.name, leave.id) for leave in leaves)
        return f"{self._leave_all}{literal(packed)})"

    def join_free(self, claims: Iterable[Claim]) -> str:
        """Enter several lines if all are empty, in the order of their names."""
        return f"{self._join_free}{literal(b''.join(map(_entering, claims)))})"

    def peek(self, name: str, ticket: int) -> str:
        """Is the claim with this ticket held? No row: the claim no longer exists. Locks nothing."""
        return f"{self._peek}{literal(name.encode())} AND ticket = {ticket}"

    def inspect(self, prefix: str, exact: bool) -> str:
        """Return the claims of one name, or of all names with a prefix, that have not expired."""
        return self._look.replace("{which}", of_names("l.name", prefix, exact))


def of_names(column: str, prefix: str, exact: bool) -> str:
    """Return a condition: the column is this name, or begins with this prefix."""
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


def _head(name: str, claim_id: str) -> bytes:
    known = name.encode()
    return len(known).to_bytes(2, "big") + known + ident(claim_id)


def _entering(claim: Claim) -> bytes:
    spec = claim.spec
    owner, meta = spec.owner.encode(), spec.meta.encode()
    numbers = (
        (_NUMBER[spec.kind], 1),
        (spec.capacity, 4),
        (spec.weight, 4),
        (micros(spec.ttl), 8),
        (len(owner), 2),
        (len(meta), 2),
    )
    packed = b"".join(number.to_bytes(size, "big") for number, size in numbers)
    return _head(spec.name, claim.id) + packed + owner + meta
