"""Inspection: the lines and their claims, with the age and remaining lease of each claim."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.model import ClaimRecord, Kind, LineRecord
from ...core.policy import fits
from .keeping import Keeping
from .names import SESSIONS, Entry, decoded, encoded
from .notes import read_note
from .port import Port
from .requests import Children, Found, Get, Look, Stat
from .standing import Standing

#: Maximum number of lines read in one round trip.
_LINES_AT_ONCE = 100


class Looking(NamedTuple):
    """Reads lines. It writes only to the node of our own session, to learn the time."""

    port: Port
    standing: Standing
    keeping: Keeping
    root: str
    #: The ttl assumed for a hold of another library, whose node doesn't contain a ttl.
    session: float
    patience: float

    async def inspect(self, prefix: str, exact: bool, until: float) -> list[LineRecord]:
        """Return the lines whose name begins with the prefix (or equals it), sorted by name."""
        if exact:
            folder = f"{self.root}/{encoded(prefix)}"
            now, nodes = await self.keeping.list_now(folder, until)
            line = await self._line(prefix, nodes, now, until)
            return [] if line is None else [line]
        now, nodes = await self.keeping.list_now(self.root, until)
        found = [decoded(one) for one in self.standing.listed(nodes, self.root)]
        names = sorted(one for one in found if one is not None and one.startswith(prefix))
        lines: list[LineRecord] = []
        for start in range(0, len(names), _LINES_AT_ONCE):
            part = names[start : start + _LINES_AT_ONCE]
            lists = await self.port.ask(
                [Children(f"{self.root}/{encoded(name)}") for name in part], until
            )
            for name, nodes in zip(part, lists, strict=True):
                line = await self._line(name, nodes, now, until)
                if line is not None:
                    lines.append(line)
        return lines

    async def _line(self, name: str, nodes: Any, now: float, until: float) -> LineRecord | None:
        folder = f"{self.root}/{encoded(name)}"
        line = self.standing.entries(self.standing.listed(nodes, folder), name)
        if not line:
            return None
        first = _first(line)
        order = sorted(line, key=lambda one: (one.number - first.number) % (1 << 32))
        said = await self.port.ask([Get(f"{folder}/{one.node}") for one in order], until)
        here = [(one, got) for one, got in zip(order, said, strict=True) if isinstance(got, Found)]
        if not here:
            return None
        sessions = sorted({got.stat.session for _, got in here})
        looks = await self.port.ask(
            [Look(f"{self.root}/{SESSIONS}/{one & (1 << 64) - 1:016x}") for one in sessions], until
        )
        seen = {
            one: look.changed
            for one, look in zip(sessions, looks, strict=True)
            if isinstance(look, Stat)
        }
        kind, capacity = _what(here[0][0])
        return LineRecord(name, kind, capacity, self._claims(here, kind, capacity, seen, now))

    def _claims(
        self,
        here: list[tuple[Entry, Found]],
        kind: str,
        capacity: int,
        seen: dict[int, float],
        now: float,
    ) -> tuple[ClaimRecord, ...]:
        claims: list[ClaimRecord] = []
        used = waiters = 0
        for entry, got in here:
            told = read_note(got.data)
            weight = min(told.weight or entry.weight, entry.weight)
            if not entry.kind:
                weight = 1 if entry.reads else capacity
            held = not waiters and fits(capacity, used, weight)
            used += weight
            waiters += not held
            lease = (told.ttl or self.session) if held else self.patience
            kept = max(got.stat.changed, seen.get(got.stat.session, 0.0))
            claims.append(
                ClaimRecord(
                    owner=told.owner,
                    fence=got.stat.czxid,
                    held=held,
                    weight=weight,
                    age=max(0.0, now - got.stat.created),
                    expires_in=max(0.0, kept + lease - now),
                    position=0 if held else waiters,
                    meta=told.meta,
                )
            )
        return tuple(claims)


def _first(line: list[Entry]) -> Entry:
    """Return the oldest entry. Numbers wrap around, so the oldest may have a greater one."""
    first = line[0]
    for one in line[1:]:
        if (first.number - one.number) % (1 << 32) < 1 << 31:
            first = one
    return first


def _what(first: Entry) -> tuple[str, int]:
    if first.kind:
        return first.kind, first.capacity
    return (Kind.RWLOCK, 1 << 20) if first.reads else (Kind.LOCK, 1)
