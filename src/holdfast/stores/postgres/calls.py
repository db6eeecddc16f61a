"""Verbs as calls. A call names one function of the schema, and has its arguments as bytes.

Locks, queues and refresh guards have a table each, with a `Row` for each verb. The format of a row
is in `holdfast.runtime.codec`.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import ClassVar, NamedTuple, ParamSpec

from ...core.model import Change, Claim, Leave, Renewal
from ...core.policy import PATIENCE_S
from ...errors import ConfigError
from ...runtime import codec
from .config import Settings
from .ddl import VERSION, quoted

Value = bytes | None
P = ParamSpec("P")
TEXT, BINARY = 0, 1
#: Maximum number of claims in one call. More claims would make the call's transaction long.
BATCH_MAX = 100


_URGENT = frozenset(
    {
        "renew", "renew_one", "change", "leave", "break_", "leave_all", "look", "reclaim",
        "queue_extend", "queue_settle", "queue_give_back",
        "refresh_prolong", "refresh_abandon", "refresh_finish",
    }
)  # fmt: skip


class Verb(NamedTuple):
    """A function of the schema as a prepared statement: the statement's name, and its SQL.

    ``formats``: the format of each value, `TEXT` or `BINARY`; ``answer``: the format of the reply.
    """

    name: bytes
    sql: bytes
    formats: tuple[int, ...]
    answer: int = TEXT
    #: True if the verb renews, releases, or checks the server. An additional connection is reserved
    #: for these verbs, so that they never wait behind requests for something new.
    urgent: bool = False
    #: The last value of a call without a ``bound``; empty: the function takes no lock_timeout.
    usual: tuple[bytes, ...] = ()


class Call(NamedTuple):
    """One call of a function."""

    verb: Verb
    values: tuple[Value, ...]
    #: The last value: a lock_timeout in milliseconds. Empty: the ``usual`` value of the verb.
    bound: tuple[bytes, ...] = ()


#: ``SESSION_MS``: the lock_timeout of a session in milliseconds. A call whose caller waits at least
#: ``SESSION_S`` seconds uses it; nearly all calls do.
SESSION_MS, SESSION_S = 4800, 4.9
#: The value that keeps the lock_timeout of the session.
AS_THE_SESSION = (b"0",)


def bounded(call: Call, within: float) -> Call:
    """Return the call with a lock_timeout a little shorter than the time limit of its caller.

    So the reply arrives in time, and no request waits at the server after its caller has gone.
    """
    if not call.verb.usual:
        return call
    wait = max(1, int(within * 1000 - min(100.0, within * 200)))
    return Call(call.verb, call.values, (b"%d" % wait,))


def signed_window(settings: Settings) -> bytes:
    """Return the grace period as a value: 0 if recovery is off, below 0 for recovery=strict."""
    if settings.recovery == "off":
        return b"0"
    return microseconds(-settings.window if settings.recovery == "strict" else settings.window)


def microseconds(seconds: float) -> bytes:
    """Return a number of seconds as a value."""
    return b"%d" % round(seconds * 1_000_000)


def array(values: Iterable[bytes]) -> bytes:
    """Return values as one array. They must not contain blanks or characters that need quotes."""
    return b"{" + b",".join(values) + b"}"


def blobs(values: Iterable[bytes]) -> bytes:
    """Return values, which may contain any bytes, as one array."""
    return array(map(b'"\\\\x%b"'.__mod__, map(hexlify, values)))


def _secret(claim_id: str) -> bytes:
    if not claim_id:  # the function would end the claim by its ticket, as a break does
        raise ConfigError("a claim's id is never empty")
    return claim_id.encode()


def span(prefix: str, exact: bool) -> tuple[bytes, bytes | None]:
    """Return the range of the names with this prefix, or of this one name: its start and end."""
    first = prefix.encode()
    return first, first + b"\0" if exact else after(first)


def after(prefix: bytes) -> bytes | None:
    r"""Return the first text after all texts with this prefix; None if there is none.

    >>> after(b"ab"), after(b"a\xff"), after(b"")
    (b'ac', b'b', None)
    """
    shorter = prefix.rstrip(b"\xff")
    return shorter[:-1] + bytes((shorter[-1] + 1,)) if shorter else None


#: Kinds that are sent as raw bytes.
_RAW = frozenset({"b", "b?", "bytes"})
#: The function that packs a value, by its kind.
KINDS: dict[str, codec.Pack] = {
    "b": str.encode,
    "b?": lambda text: None if text is None else text.encode(),
    "bytes": lambda value: value,
    "t": str.encode,
    "t?": lambda text: None if text is None else text.encode(),
    "id?": lambda text: text.encode() or None,
    "secret": _secret,
    "n": b"%d".__mod__,
    "us": microseconds,
    "yes": (b"f", b"t").__getitem__,
}


class Calls:
    """A table of verbs for one schema. Each `Row` in a subclass is a function that makes a call."""

    #: The prefix of the functions' names, their version, and the format of their replies.
    family, version, answer = "", VERSION, TEXT
    #: Kinds that only this table has.
    kinds: ClassVar[dict[str, codec.Pack]] = {}

    def __init__(self, settings: Settings, patience: float = PATIENCE_S) -> None:
        self.schema = quoted(settings.schema)
        most = microseconds(patience)
        self.constants = {
            "window": signed_window(settings),
            "relaxed": KINDS["yes"](settings.relaxed),
            "patience": most,
            # Fixed arguments of some verbs
            "none": None,
            "zero": b"0",
            "empty": b"",
            "no": KINDS["yes"](False),
            "ttl": microseconds(30.0),
        }
        self._kinds = KINDS | self.kinds | {"patience": (b"-" + most, most).__getitem__}

    def pack(self, kind: str) -> codec.Pack:
        """Return the function for this kind; ``*path:kind`` packs a field of all items as an array.

        Without a path, it packs the items themselves.
        """
        if not kind.startswith("*"):
            return self._kinds[kind]
        path, _, kind = kind[1:].partition(":")
        pack, join = self._kinds[kind], blobs if kind in _RAW else array
        if not path:
            return lambda items: join(map(pack, items))
        read = attrgetter(path)
        return lambda items: join(map(pack, map(read, items)))


class Row(codec.Row[P, Call]):
    """A verb in a table. ``sql``: its statement. ``bounded``: the function takes a lock_timeout.

    ``name``: the verb whose function is called, if that isn't this verb.
    """

    def __init__(
        self, fields: str, sql: str = "SELECT {call}", *, bounded: bool = True, name: str = ""
    ) -> None:
        super().__init__(fields)
        self._sql, self._usual, self._calls = sql, AS_THE_SESSION if bounded else (), name

    def made(self, table: Calls, fields: list[codec.Field]) -> Callable[P, Call]:
        """See the base class."""
        name = f"{table.family}{self._calls or self.name}"
        formats = [BINARY if kind in _RAW else TEXT for _, kind in fields]
        formats += [TEXT for _ in self._usual]
        marks = ", ".join(f"${at}" for at, _ in enumerate(formats, 1))
        sql = self._sql.format(
            call=f"{table.schema}.{name}_{table.version}({marks})",
            schema=table.schema,
            version=table.version,
            marks=marks,
        )
        verb = Verb(
            f"holdfast_{name}".encode(),
            sql.encode(),
            tuple(formats),
            table.answer,
            f"{table.family}{self.name}" in _URGENT,
            self._usual,
        )
        return codec.encoder(fields, table.pack, table.constants, partial(Call, verb))


class LockCalls(Calls):
    """The verbs of locks. A call about several names contains them in ascending order."""

    join: Row[[Claim, bool, str]] = Row(
        "claim.spec.name:b claim.id:t claim.spec.kind:t claim.spec.capacity:n claim.spec.weight:n "
        "claim.spec.ttl:us wait:patience address:t claim.spec.owner:b claim.spec.meta:b "
        "$window $relaxed"
    )
    join_free: Row[[Sequence[Claim]]] = Row(
        "claims*spec.name:b claims*id:t claims*spec.kind:t claims*spec.capacity:n "
        "claims*spec.weight:n claims*spec.ttl:us claims*spec.owner:b claims*spec.meta:b "
        "$window $relaxed"
    )
    #: Renews claims that are held, and changes nothing else.
    renew: Row[[Sequence[Renewal]]] = Row(
        "renewals*claim.spec.name:b renewals*claim.id:t renewals*ttl:us $relaxed"
    )
    #: Renews one claim that is held, perhaps with a smaller weight. Here and in `change`, the
    #: waiter TTL is 0, so a claim that waits isn't changed.
    renew_one: Row[[Renewal]] = Row(
        "renewal.claim.spec.name:b renewal.claim.id:t renewal.ttl:us $zero $empty renewal.weight:n "
        "$none renewal.claim.spec.owner:b $window $relaxed",
        name="stand",
    )
    change: Row[[Change]] = Row(
        "change.claim.spec.name:b change.claim.id:t change.ttl:us $zero $empty $zero "
        "change.new_id:id? change.claim.spec.owner:b $window $relaxed",
        name="stand",
    )
    #: Asks if it is the turn of one waiting claim; renews the claim if it is held.
    turn: Row[[Claim, str]] = Row(
        "claim.spec.name:b claim.id:t claim.spec.ttl:us $patience address:t $zero $none "
        "claim.spec.owner:b $window $relaxed",
        name="stand",
    )
    leave: Row[[Leave]] = Row(
        "leave.name:b leave.id:secret leave.ticket:n leave.after:us leave.suspect:yes leave.ttl:us "
        "$window $relaxed"
    )
    #: Withdraws a suspect claim: a `leave` that is not urgent.
    undo: Row[[Leave]] = Row(
        "leave.name:b leave.id:secret leave.ticket:n leave.after:us leave.suspect:yes leave.ttl:us "
        "$window $relaxed",
        name="leave",
    )
    #: Ends a claim by its ticket: a `leave` without an id, and with constants for all arguments
    #: after the ticket.
    break_: Row[[str, int]] = Row(
        "name:b $none ticket:n $zero $no $ttl $window $relaxed", name="leave"
    )
    leave_all: Row[[Sequence[Leave]]] = Row(
        "leaves*name:b leaves*id:secret leaves*suspect:yes leaves*ttl:us $window $relaxed"
    )
    resize: Row[[str, int]] = Row("name:b capacity:n $window $relaxed")
    #: Returns the claims of the names in a range; see `span`.
    inspect: Row[[bytes, bytes | None]] = Row(
        "first:bytes end:bytes", "SELECT * FROM {call}", bounded=False
    )
    #: Returns the generation of the server, and the rest of the grace period.
    look: Row[[]] = Row("$window $relaxed")
    #: Restores a hold that the server forgot, for the whole ttl, because the holder relies on it.
    reclaim: Row[[Renewal, int]] = Row(
        "renewal.claim.spec.name:b renewal.claim.id:t renewal.ticket:n renewal.claim.spec.kind:t "
        "renewal.claim.spec.capacity:n weight:n renewal.ttl:us renewal.claim.spec.owner:b "
        "renewal.claim.spec.meta:b $window $relaxed"
    )
