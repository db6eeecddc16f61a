"""Verbs of locks as calls: each calls one function of the schema, with its values as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.model import Claim, Keep, Leave
from ...errors import ConfigError
from .config import Settings
from .ddl import VERSION, quoted

Value = bytes | None
TEXT, BINARY = 0, 1
#: Maximum number of claims in one call. More would make its transaction long.
BATCH_MAX = 100


_URGENT = frozenset(
    {
        "keep", "leave", "leave_all", "look", "reclaim",
        "queue_extend", "queue_settle", "queue_give_back",
        "refresh_prolong", "refresh_abandon", "refresh_finish",
    }
)  # fmt: skip


class Verb(NamedTuple):
    """A function of the schema as a prepared statement.

    Its name, its SQL, the format of each value, and the format of the reply.
    """

    name: bytes
    sql: bytes
    formats: tuple[int, ...]
    answer: int = TEXT
    #: True if it renews, releases, or checks the server. One more connection is reserved for these
    #: verbs, so that they never wait behind requests for something new.
    urgent: bool = False
    #: The values that follow its own, unless the call has a `bound`: see `bounded`.
    usual: tuple[bytes, ...] = ()


class Call(NamedTuple):
    """One call of a function."""

    verb: Verb
    values: tuple[Value, ...]
    #: The lock_timeout of this call, in milliseconds; empty: `usual` of its verb.
    bound: tuple[bytes, ...] = ()


#: The lock_timeout of a session, in milliseconds. A request with at least this many seconds of time
#: keeps it; nearly all requests have more.
SESSION_MS, SESSION_S = 4800, 4.9
AS_THE_SESSION = (b"0",)


def bounded(call: Call, within: float) -> Call:
    """Return the call with a lock_timeout a little shorter than the time limit of its caller.

    So the reply arrives in time, and no request waits at the server after its caller has gone.
    """
    if not call.verb.usual:
        return call
    wait = max(1, int(within * 1000 - min(100.0, within * 200)))
    return Call(call.verb, call.values, (b"%d" % wait,))


def guard_window(settings: Settings) -> bytes:
    """The grace period of recovery as a value: 0 if recovery is off, below 0 if it is strict."""
    if settings.guard == "off":
        return b"0"
    return microseconds(-settings.window if settings.guard == "strict" else settings.window)


def verb(
    name: str,
    call: str,
    kinds: str,
    *,
    what: str = "",
    end: str = "",
    answer: int = TEXT,
    bounded: bool = True,
) -> Verb:
    """A verb that calls this function. ``kinds``: per value, b for raw bytes or t for text."""
    kinds += "t" if bounded else ""
    marks = ", ".join(f"${at}" for at in range(1, len(kinds) + 1))
    formats = tuple(BINARY if kind == "b" else TEXT for kind in kinds)
    sql = f"SELECT {what}{call}({marks}){end}"
    usual = AS_THE_SESSION if bounded else ()
    return Verb(f"holdfast_{name}".encode(), sql.encode(), formats, answer, name in _URGENT, usual)


def microseconds(seconds: float) -> bytes:
    """A number of seconds as a value."""
    return b"%d" % round(seconds * 1_000_000)


def yes(true: bool) -> bytes:
    """A boolean as a value."""
    return b"t" if true else b"f"


def array(values: Sequence[bytes]) -> bytes:
    """Several values as one array; they contain no blanks, and no signs that need quotes."""
    return b"{" + b",".join(values) + b"}"


def blobs(values: Sequence[bytes]) -> bytes:
    """Several values of any bytes as one array."""
    return array([b'"\\\\x' + one.hex().encode() + b'"' for one in values])


def _secret(leave: Leave) -> bytes:
    if not leave.id:  # the function would take that for a break
        raise ConfigError("a claim's id is never empty")
    return leave.id.encode()


class Calls:
    """Makes the calls for one schema."""

    def __init__(self, settings: Settings, patience: float) -> None:
        self._schema = quoted(settings.schema)
        self._relaxed = yes(settings.relaxed)
        self._window = guard_window(settings)
        self._patience = microseconds(patience)
        # b: raw bytes; t: text
        self._join = self._verb("join", "btttttttbbtt")
        self._join_free = self._verb("join_free", "t" * 10)
        self._keep = self._verb("keep", "tttt")
        self._stand = self._verb("stand", "btttttt" + "btt")
        self._leave = self._verb("leave", "bttttttt")
        #: The same, but not urgent: it withdraws a suspect claim.
        self._undo = self._leave._replace(urgent=False)
        self._leave_all = self._verb("leave_all", "tttttt")
        self._resize = self._verb("resize", "bttt")
        self._inspect = self._verb("inspect", "bb", "* FROM ", bounded=False)
        self._look = self._verb("look", "tt")
        self._reclaim = self._verb("reclaim", "btttttt" + "bbtt")

    def _verb(self, name: str, kinds: str, what: str = "", *, bounded: bool = True) -> Verb:
        call = f"{self._schema}.{name}_{VERSION}"
        return verb(name, call, kinds, what=what, bounded=bounded)

    def join(self, claim: Claim, wait: bool, address: str = "") -> Call:
        """Enter the line; without ``wait``, only if the claim is granted immediately."""
        spec = claim.spec
        return Call(
            self._join,
            (
                spec.name.encode(),
                claim.id.encode(),
                spec.kind.encode(),
                b"%d" % spec.capacity,
                b"%d" % spec.weight,
                microseconds(spec.ttl),
                self._patience if wait else b"-" + self._patience,
                address.encode(),
                spec.owner.encode(),
                spec.meta.encode(),
                self._window,
                self._relaxed,
            ),
        )

    def join_free(self, claims: Sequence[Claim]) -> Call:
        """Enter several empty lines; names in ascending order."""
        specs = [claim.spec for claim in claims]
        return Call(
            self._join_free,
            (
                blobs([one.name.encode() for one in specs]),
                array([claim.id.encode() for claim in claims]),
                array([one.kind.encode() for one in specs]),
                array([b"%d" % one.capacity for one in specs]),
                array([b"%d" % one.weight for one in specs]),
                array([microseconds(one.ttl) for one in specs]),
                blobs([one.owner.encode() for one in specs]),
                blobs([one.meta.encode() for one in specs]),
                self._window,
                self._relaxed,
            ),
        )

    def keep(self, keeps: Sequence[Keep]) -> Call:
        """Renew held claims, and change nothing else."""
        return Call(
            self._keep,
            (
                blobs([keep.claim.spec.name.encode() for keep in keeps]),
                array([keep.claim.id.encode() for keep in keeps]),
                array([microseconds(keep.ttl) for keep in keeps]),
                self._relaxed,
            ),
        )

    def stand(self, keep: Keep, address: str = "") -> Call:
        """Renew one claim, held or waiting, or change it."""
        spec = keep.claim.spec
        return Call(
            self._stand,
            (
                spec.name.encode(),
                keep.claim.id.encode(),
                microseconds(keep.ttl),
                self._patience,
                address.encode(),
                b"%d" % keep.weight,
                keep.new_id.encode() or None,
                spec.owner.encode(),
                self._window,
                self._relaxed,
            ),
        )

    def leave(self, leave: Leave) -> Call:
        """Withdraw or release."""
        return Call(
            self._undo if leave.suspect else self._leave,
            (
                leave.name.encode(),
                _secret(leave),
                b"%d" % leave.ticket,
                microseconds(leave.after),
                yes(leave.suspect),
                microseconds(leave.ttl),
                self._window,
                self._relaxed,
            ),
        )

    def break_(self, name: str, ticket: int) -> Call:
        """End a claim by its ticket."""
        which = (name.encode(), None, b"%d" % ticket)
        terms = (b"0", yes(False), microseconds(30.0))  # the function doesn't use them without id
        return Call(self._leave, (*which, *terms, self._window, self._relaxed))

    def leave_all(self, leaves: Sequence[Leave]) -> Call:
        """Withdraw or release many claims in one call, by their ids; names in ascending order."""
        return Call(
            self._leave_all,
            (
                blobs([one.name.encode() for one in leaves]),
                array([_secret(one) for one in leaves]),
                array([yes(one.suspect) for one in leaves]),
                array([microseconds(one.ttl) for one in leaves]),
                self._window,
                self._relaxed,
            ),
        )

    def resize(self, name: str, capacity: int) -> Call:
        """Change the capacity of a line that isn't empty."""
        values = (name.encode(), b"%d" % capacity, self._window, self._relaxed)
        return Call(self._resize, values)

    def inspect(self, prefix: str, exact: bool) -> Call:
        """Return the claims of all names with this prefix, or of this one name."""
        first = prefix.encode()
        return Call(self._inspect, (first, first + b"\0" if exact else after(first)))

    def look(self) -> Call:
        """Return the generation of the server, and what is left of the grace period."""
        return Call(self._look, (self._window, self._relaxed))

    def reclaim(self, keep: Keep) -> Call:
        """Restore a hold that the server forgot, for its whole ttl: its holder relies on that."""
        spec = keep.claim.spec
        return Call(
            self._reclaim,
            (
                spec.name.encode(),
                keep.claim.id.encode(),
                b"%d" % keep.ticket,
                spec.kind.encode(),
                b"%d" % spec.capacity,
                b"%d" % (keep.weight or spec.weight),
                microseconds(keep.ttl),
                spec.owner.encode(),
                spec.meta.encode(),
                self._window,
                self._relaxed,
            ),
        )


def after(prefix: bytes) -> bytes | None:
    r"""Return the first text after all texts with this prefix; None if there is none.

    >>> after(b"ab"), after(b"a\xff"), after(b"")
    (b'ac', b'b', None)
    """
    shorter = prefix.rstrip(b"\xff")
    return shorter[:-1] + bytes((shorter[-1] + 1,)) if shorter else None
