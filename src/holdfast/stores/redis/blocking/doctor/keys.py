"""The keys under the prefix: holdfast's own, and foreign ones."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from .....core.finding import Finding, fail, ok, warn
from .....core.layout import newer
from .....runtime.blocking import boottime
from ...complaints import LAYOUT, ServerSaid
from ...keys import bucket_of
from ...queue_keys import HASHES, MARKS, is_shard
from ...value_keys import NEWER
from .visit import Visit

#: Maximum seconds for the search through a large database.
LOOK_S = 2.0
#: Number of keys that are examined in one step of the search.
STEP = 1000
#: Maximum number of keys that a finding shows.
SHOWN = 3
#: The type of a key by its mark, the text after the bucket; `MARKS` are the marks of queues.
TYPES = {b":": b"hash", b"~": b"hash", b"!": b"zset", b"#": b"string"}
TYPES |= {mark: b"hash" if mark in HASHES else b"zset" for mark in MARKS}
# The marks of refresh guards: of values, of refresh leases, of counts.
TYPES |= {b"=": b"string", b"%": b"hash", b"+": b"hash", b"&": b"zset"}
#: Marks of the counts of refresh guards. Keys with these marks aren't in the bucket of a name.
TALLIES = (b"+", b"&")
#: Marks of keys that always have an expiry; jobs have none.
_ENDS = frozenset((b":", b"~", b"!", b"=", b"%", b"+", b"&"))
#: Maximum number of names in use, or used lately, whose fences are examined.
FENCES = 1000
#: Seconds by which a fence, the time of a grant, can be ahead of the server's clock. If it is more
#: seconds ahead, the clock was set back.
AHEAD_S = 1.0
#: Number of bytes in the state of an idle line (the last ticket); minimum number in the state of a
#: line with one holder; position of the last ticket in the state of such a line. See
#: ``lua/line.lua``.
_IDLE, _ALONE, _ALONE_AT = 8, 48, 32


class _Found:
    """The keys under a prefix."""

    def __init__(self, prefix: str) -> None:
        self._layout = re.compile(
            re.escape(f"{prefix}:").encode() + rb"\{(\d{1,3})\}([:~!#=%+&]|@\w:)"
        )
        self.all = 0
        self.lines: list[bytes] = []
        #: Keys that aren't holdfast's; keys whose type isn't holdfast's; keys that lack an expiry.
        self.foreign: list[bytes] = []
        self.mistaken: list[bytes] = []
        self.endless: list[bytes] = []

    def take(self, key: bytes, kind: bytes, pttl: int) -> None:
        """Add one key to its list."""
        if kind == b"none":
            return  # it has expired since
        self.all += 1
        mark = self._mark(key)
        if mark is None:
            self.foreign.append(key)
        elif TYPES[mark] != kind:
            self.mistaken.append(key)
        elif mark in _ENDS and pttl == -1:
            self.endless.append(key)
        elif mark == b":":
            self.lines.append(key)

    def _mark(self, key: bytes) -> bytes | None:
        """The mark of a key, by its name; None if the key isn't ours."""
        found = self._layout.match(key)
        if not found:
            return None
        name, mark = key[found.end() :], found[2]
        if mark == b"#":
            return mark if name == b"guard" else None
        if mark in TALLIES:
            return mark
        if mark in MARKS:
            return mark if is_shard(name, int(found[1])) else None
        if mark not in TYPES:
            return None
        return mark if name and int(found[1]) == bucket_of(name) else None


def examine(visit: Visit) -> Iterator[Finding]:
    """Look for other writers under the prefix, and for fences ahead of the server's clock."""
    found = _Found(visit.prefix)
    pattern, cursor, end = f"{visit.prefix}:*".encode(), b"", boottime() + LOOK_S
    while cursor != b"0" and (not cursor or boottime() <= end):
        said = visit.ask(b"SCAN", cursor or b"0", b"MATCH", pattern, b"COUNT", b"%d" % STEP)
        if isinstance(said, ServerSaid):
            return  # reported under "rights"
        cursor, keys = said
        _sort(visit, found, keys)
    yield from _others(visit, found)
    if cursor != b"0":
        yield warn(
            f"the database is too large to search within {LOOK_S:g} s",
            "holdfast ls searches all of it: a separate database makes that fast",
        )
    yield from _fences(visit, found)


def _sort(visit: Visit, found: _Found, keys: list[bytes]) -> None:
    asked: list[tuple[bytes, ...]] = []
    for key in keys:
        asked += (b"TYPE", key), (b"PTTL", key)
    said = visit.ask_many(asked)
    for key, kind, pttl in zip(keys, said[::2], said[1::2], strict=True):
        if isinstance(kind, bytes) and isinstance(pttl, int):
            found.take(key, kind, pttl)


def _others(visit: Visit, found: _Found) -> Iterator[Finding]:
    prefix = f"{visit.prefix}:"
    if found.foreign:
        yield warn(
            f"{len(found.foreign)} under {prefix} aren't holdfast's: {_some(found.foreign)}",
            "another program writes there: give the locks a separate prefix or database",
        )
    if found.mistaken:
        yield warn(
            f"{len(found.mistaken)} that holdfast needs are of another type: "
            f"{_some(found.mistaken)}. Their names can't be locked",
            "find out which program writes them, and delete or rename them",
        )
    if found.endless:
        yield warn(
            f"{len(found.endless)} have lost their expiry: {_some(found.endless)}",
            "all keys of holdfast expire; another program has removed the expiry (PERSIST)",
        )
    if not (found.foreign or found.mistaken or found.endless):
        yield ok(f"{found.all:,} under {prefix}, all of them holdfast's")


def _some(keys: list[bytes]) -> str:
    shown = [key.decode("utf-8", "backslashreplace")[:60] for key in sorted(keys)[:SHOWN]]
    return ", ".join(shown) + (", ..." if len(keys) > SHOWN else "")


def _fences(visit: Visit, found: _Found) -> Iterator[Finding]:
    """Look for a fence that is ahead of the server's clock."""
    lines = found.lines[:FENCES]
    states = visit.ask_many([(b"HGET", key, b"s") for key in lines])
    marks = [NEWER.match(state) for state in states if isinstance(state, bytes)]
    if later := [int(mark[1]) for mark in marks if mark]:
        wrong = newer(f"the state of {len(later)} names", max(later), LAYOUT)
        yield fail(str(wrong), subject="layout")
    clock = visit.clock()
    if clock is None:
        return
    ahead = max((ticket_of(state) / 1e6 - clock.server for state in states), default=0.0)
    if ahead > AHEAD_S:
        yield warn(
            f"the server's clock was set back: a fence lies {ahead:,.0f} s ahead of it. Fences of "
            "names in use still rise. A name that is idle for 90 minutes starts at the clock "
            "again, and can get smaller fences than before",
            "correct the clock, and keep it from jumping (NTP)",
            "fences",
        )


def ticket_of(state: object) -> float:
    """The last ticket of a line, from its state; 0 for a line with several claims."""
    if not isinstance(state, bytes) or state[:1] in b"*@":
        return 0.0
    at = 0 if len(state) == _IDLE else _ALONE_AT
    if at and len(state) < _ALONE:
        return 0.0
    ticket: float = struct.unpack_from(">d", state, at)[0]
    return ticket
