"""A verb as what is sent: the call of one function of the schema, and its values as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.model import Claim, Keep, Leave
from .config import Settings
from .ddl import VERSION, quoted

Value = bytes | None
TEXT, BINARY = 0, 1
#: More would make one transaction long.
BATCH_MAX = 100


_URGENT = frozenset(
    {
        "keep", "leave", "leave_all", "look", "reclaim",
        "queue_extend", "queue_settle", "queue_give_back",
        "refresh_prolong", "refresh_abandon", "refresh_finish",
    }
)  # fmt: skip


class Verb(NamedTuple):
    """A function: the name of its prepared statement, its call, how each value is written, and
    how those of the answer are."""

    name: bytes
    sql: bytes
    formats: tuple[int, ...]
    answer: int = TEXT
    #: Does it renew, release or look after what is held? One connection more is kept for these, so
    #: that they never wait behind those who want something.
    urgent: bool = False
    #: What stands behind its values, unless a call says otherwise: see `bounded`.
    usual: tuple[bytes, ...] = ()


class Call(NamedTuple):
    """One call of a function."""

    verb: Verb
    values: tuple[Value, ...]
    #: For how many milliseconds it waits at the server, if not for as long as is usual.
    bound: tuple[bytes, ...] = ()


#: The lock_timeout of a session, in milliseconds, and the shortest wait in seconds for which a
#: request keeps it; nearly all waits are longer.
SESSION_MS, SESSION_S = 4800, 4.9
AS_THE_SESSION = (b"0",)


def bounded(call: Call, within: float) -> Call:
    """The call, told to wait for a row of somebody else's a little shorter than its caller waits:
    so that the answer comes in time, and nothing waits at the server for nobody."""
    if not call.verb.usual:
        return call
    wait = max(1, int(within * 1000 - min(100.0, within * 200)))
    return Call(call.verb, call.values, (b"%d" % wait,))


def guard_window(settings: Settings) -> bytes:
    """The guard's window as a value: 0 without one, below 0 for the strict one."""
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
    """A verb that calls this function; ``kinds``: b for a value as bytes, t for one as text."""
    kinds += "t" if bounded else ""
    marks = ", ".join(f"${at}" for at in range(1, len(kinds) + 1))
    formats = tuple(BINARY if kind == "b" else TEXT for kind in kinds)
    sql = f"SELECT {what}{call}({marks}){end}"
    usual = AS_THE_SESSION if bounded else ()
    return Verb(f"holdfast_{name}".encode(), sql.encode(), formats, answer, name in _URGENT, usual)


def microseconds(seconds: float) -> bytes:
    """A time as a value."""
    return b"%d" % round(seconds * 1_000_000)


def yes(true: bool) -> bytes:
    """Yes or no as a value."""
    return b"t" if true else b"f"


def array(values: Sequence[bytes]) -> bytes:
    """Several values without blanks or signs of their own as one."""
    return b"{" + b",".join(values) + b"}"


def blobs(values: Sequence[bytes]) -> bytes:
    """Several values of any bytes as one."""
    return array([b'"\\\\x' + one.hex().encode() + b'"' for one in values])


class Calls:
    """Makes the calls for one schema."""

    def __init__(self, settings: Settings, patience: float) -> None:
        self._schema = quoted(settings.schema)
        self._relaxed = yes(settings.relaxed)
        self._window = guard_window(settings)
        self._patience = microseconds(patience)
        # b: bytes as they are; t: text
        self._join = self._verb("join", "btttttttbbtt")
        self._join_free = self._verb("join_free", "t" * 10)
        self._keep = self._verb("keep", "tttt")
        self._stand = self._verb("stand", "btttttt" + "btt")
        self._leave = self._verb("leave", "bttttttt")
        #: The same where it undoes a wish.
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
        """Enter the line; without ``wait`` only if it is held at once."""
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
        """Renew what is held, and change nothing."""
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
        """Keep one claim alive, whatever it is, or change it."""
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
                leave.id.encode() or None,
                b"%d" % leave.ticket,
                microseconds(leave.after),
                yes(leave.suspect),
                microseconds(leave.ttl),
                self._window,
                self._relaxed,
            ),
        )

    def leave_all(self, leaves: Sequence[Leave]) -> Call:
        """Many by their ids and at once; names in ascending order."""
        return Call(
            self._leave_all,
            (
                blobs([one.name.encode() for one in leaves]),
                array([one.id.encode() for one in leaves]),
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
        """The claims of the names that begin so, or of this one."""
        first = prefix.encode()
        return Call(self._inspect, (first, first + b"\0" if exact else after(first)))

    def look(self) -> Call:
        """Ask the guard."""
        return Call(self._look, (self._window, self._relaxed))

    def reclaim(self, keep: Keep) -> Call:
        """Put back a claim that was forgotten, for all of its ttl: its holder believes in that."""
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
    r"""The first text behind all that begin so; None if there is none.

    >>> after(b"ab"), after(b"a\xff"), after(b"")
    (b'ac', b'b', None)
    """
    shorter = prefix.rstrip(b"\xff")
    return shorter[:-1] + bytes((shorter[-1] + 1,)) if shorter else None
