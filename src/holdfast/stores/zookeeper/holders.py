"""Inspection for the simple recipe: the holder of each name, even one that uses another library."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.model import ClaimRecord, Kind, LineRecord
from ...errors import ConfigError
from .keeping import Keeping
from .names import CLAIMS, SESSIONS, decoded, encoded, in_use
from .notes import read_note
from .port import Port
from .requests import Children, Found, Get, Look, Request, Stat

#: Maximum number of names read in one round trip.
_NAMES_AT_ONCE = 100


def lies_a_line(stat: Stat) -> bool:
    """Return True if the node is a folder in which another recipe keeps a line of claims."""
    return stat.folder and not stat.session


def line_in_use(name: str) -> ConfigError:
    """Return the error for a name for which another recipe keeps a line."""
    return in_use(name, "a line's", "recipe=kazoo, the default, or another prefix")


class Holders(NamedTuple):
    """Reads the holders. It writes only to the node of our own session, to learn the time."""

    port: Port
    keeping: Keeping
    root: str
    #: The remaining lease reported for a node of another library, whose session we don't know.
    lease: float

    async def inspect(self, prefix: str, exact: bool, until: float) -> list[LineRecord]:
        """Return the holders of the names that begin with the prefix (or equal it)."""
        if exact:
            now, (node,) = await self.keeping.ask_now([self._node(prefix)], until)
            if isinstance(node, Found) and lies_a_line(node.stat):
                raise line_in_use(prefix)
            return await self._lines([(prefix, node)], now, until)
        now, (listed,) = await self.keeping.ask_now([Children(self.root)], until)
        found = [decoded(one) for one in listed] if isinstance(listed, list) else []
        names = sorted(one for one in found if one is not None and one.startswith(prefix))
        lines: list[LineRecord] = []
        for start in range(0, len(names), _NAMES_AT_ONCE):
            part = names[start : start + _NAMES_AT_ONCE]
            nodes = await self.port.ask([self._node(name) for name in part], until)
            lines += await self._lines(list(zip(part, nodes, strict=True)), now, until)
        return lines

    def _node(self, name: str) -> Get:
        return Get(f"{self.root}/{encoded(name)}")

    async def _lines(
        self, nodes: list[tuple[str, object]], now: float, until: float
    ) -> list[LineRecord]:
        here = [
            (name, node)
            for name, node in nodes
            if isinstance(node, Found) and not lies_a_line(node.stat)
        ]
        asked: list[Request] = []
        for _, node in here:  # "-": the node has no claim, and no claim has this name
            asked.append(Get(f"{self.root}/{CLAIMS}/{read_note(node.data).claim or '-'}"))
            asked.append(Look(f"{self.root}/{SESSIONS}/{node.stat.session & (1 << 64) - 1:016x}"))
        said = await self.port.ask(asked, until)
        return [
            LineRecord(name, Kind.LOCK, 1, (self._holder(node, claim, session, now),))
            for (name, node), claim, session in zip(here, said[::2], said[1::2], strict=True)
        ]

    def _holder(self, node: Found, claim: object, session: object, now: float) -> ClaimRecord:
        stat = node.stat
        owner, meta = read_note(node.data).owner, ""
        if isinstance(claim, Found) and claim.stat.czxid == stat.czxid:
            told = read_note(claim.data)
            meta = told.meta
            kept = max(claim.stat.changed, session.changed if isinstance(session, Stat) else 0.0)
            left = max(0.0, kept + told.ttl - now)
        else:
            left = self.lease if stat.session else math.inf
        age = max(0.0, now - stat.created)
        return ClaimRecord(owner, stat.czxid, True, 1, age, left, 0, meta)
