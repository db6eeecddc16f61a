"""Position of a claim in its line, and the nodes that it watches while it waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core.model import WAITERS_MAX, Full, Gone, Held, Joined, Kind, Loss, Refused, Waiting
from ...core.policy import ASK_AGAIN_S_MAX
from . import line as lines
from .mine import Mine
from .names import Entry, entries
from .notes import read_note
from .port import Bell, Port, refused
from .requests import Children, Found, Get, No

#: A try is a claim that doesn't wait for its turn. If only other tries block a try, and one of them
#: is less than ``TRY_SETTLES_S`` seconds older, the try waits for the others at most
#: ``TRY_WAITS_S`` seconds.
TRY_SETTLES_S = 0.5
TRY_WAITS_S = 0.1


class Standing:
    """Reads lines, and watches the nodes that block a claim."""

    def __init__(self, port: Port, recipe: str, ask_again: float = ASK_AGAIN_S_MAX) -> None:
        self._port = port
        self._recipe = recipe
        #: Maximum seconds until a waiter asks again.
        self._ask_again = min(ask_again, ASK_AGAIN_S_MAX)

    def listed(self, nodes: Any, folder: str) -> list[str]:
        """Return the children in an answer; none if there is no such folder."""
        if isinstance(nodes, list):
            return nodes
        if nodes is No.NODE:
            return []
        raise refused(nodes, f"list {folder}", self._port.label)

    def entries(self, nodes: list[str], name: str) -> list[Entry]:
        """Return the claims among these nodes; ``ConfigError`` if another recipe uses the name."""
        return entries(nodes, self._recipe, name)

    async def stand(self, mine: Mine, nodes: list[str], until: float) -> Joined:
        """Return the claim's state in the line of these nodes; watch the nodes that block it.

        The nodes were listed after the claim's own node was created, so no other node can come
        ahead of it later. Return ``Gone`` if the claim's own node isn't among them.
        """
        spec = mine.claim.spec
        while True:
            line = self.entries(nodes, spec.name)
            own = next((one for one in line if one.node == mine.node), None)
            if own is None:
                return self.vanished(mine)
            seen = lines.view(own, line, spec, mine.shrunk)
            wrong = lines.mismatch(seen.ahead[0], spec) if seen.ahead else None
            if wrong is not None:
                return wrong
            block = lines.block(seen, spec, mine.weight)
            if block is None:
                mine.held = True
                return Held(mine.stat.czxid, mine.ttl)
            waiters = len(seen.ahead) - seen.held(spec.capacity)
            if waiters >= WAITERS_MAX:
                return Full(waiters)
            if mine.bell is None:
                gone = await self._unsettled(mine, seen, until)
                if gone is None:
                    return Refused(self._ask_again, "")
            else:
                gone = await self._watch(mine, block, until)
                if gone is None:
                    return Waiting(mine.stat.czxid, waiters + 1, self._ask_again)
            nodes = [one for one in nodes if one not in gone]

    def vanished(self, mine: Mine) -> Gone:
        """Return why the claim is lost, after its node has disappeared."""
        if mine.dead is None:
            same = mine.stat.session == self._port.session()
            mine.dead = Loss.BROKEN if same else Loss.SESSION
        return Gone(mine.dead)

    async def _watch(self, mine: Mine, block: lines.Block, until: float) -> set[str] | None:
        """Watch the nodes that block the claim; return None if all of them still block it.

        Otherwise return the nodes that are gone: none of them, if only a weight was reduced.
        """
        if len(block.nodes) > lines.WATCHED_MAX:
            return await self._watch_folder(mine, block, until)
        mine.blocked(block.nodes[0].node if block.alone else "")
        fresh = [one for one in block.nodes if one.node not in mine.armed]
        if not fresh:
            return None
        mine.armed.update(one.node for one in fresh)
        try:
            return self._news(mine, fresh, await self._port.ask(_gets(mine, fresh), until))
        except BaseException:
            mine.armed.clear()
            raise

    async def _watch_folder(self, mine: Mine, block: lines.Block, until: float) -> set[str] | None:
        """Watch the folder instead of its many blocking nodes. Return the same as `_watch`."""
        mine.blocked("")
        if "" in mine.armed:
            return None
        mine.armed.add("")
        try:
            (nodes,) = await self._port.ask([Children(mine.folder, partial(mine.heard, ""))], until)
        except BaseException:
            mine.armed.clear()
            raise
        here = set(self.listed(nodes, mine.folder))
        return {one.node for one in block.nodes} - here or None

    def _news(self, mine: Mine, nodes: Sequence[Entry], answers: list[Any]) -> set[str] | None:
        """Return the nodes that are gone; None if none is gone and no weight has changed."""
        gone: set[str] = set()
        changed = False
        for one, answer in zip(nodes, answers, strict=True):
            if answer is No.NODE:
                mine.armed.discard(one.node)
                gone.add(one.node)
            elif isinstance(answer, Found) and one.kind:
                weight = read_note(answer.data).weight or one.weight
                if 0 < weight < mine.shrunk.get(one.node, one.weight):
                    mine.shrunk[one.node] = weight
                    changed = True
        return gone if gone or changed else None

    async def _unsettled(self, mine: Mine, seen: lines.View, until: float) -> set[str] | None:
        """Return None if this try must be refused, otherwise the nodes that are gone.

        The set of nodes is empty if only a weight was reduced.

        A try that only other tries block waits for a moment if one of them is about as young as
        itself: the other tries may be about to withdraw.
        """
        spec = mine.claim.spec
        sure = [
            (one, weight)
            for one, weight in zip(seen.ahead, seen.weights, strict=True)
            if not one.trying
        ]
        settled = lines.View(tuple(one for one, _ in sure), tuple(weight for _, weight in sure))
        block = lines.block(settled, spec, mine.weight)
        if block is not None:
            nodes = [one for one in block.nodes if one.kind is Kind.RWLOCK and one.weight > 1]
            if not nodes:
                return None
            return self._news(mine, nodes, await self._port.ask(_gets(mine, nodes), until))
        bell = self._port.bell()
        mine.bell = bell.set
        try:
            tries = [one for one in seen.ahead if one.trying]
            return await self._await_tries(mine, tries, bell, until)
        finally:
            mine.bell = None

    async def _await_tries(
        self, mine: Mine, tries: list[Entry], bell: Bell, until: float
    ) -> set[str] | None:
        answers = await self._port.ask(_gets(mine, tries), until)
        gone = self._news(mine, tries, answers)
        if gone is not None:
            return gone
        ages = [mine.stat.created - one.stat.created for one in answers if isinstance(one, Found)]
        left = min(TRY_WAITS_S, until - self._port.now())
        if left > 0 and min(ages, default=TRY_SETTLES_S) < TRY_SETTLES_S and await bell.wait(left):
            return self._news(mine, tries, await self._port.ask(_gets(mine, tries), until))
        return None


def _gets(mine: Mine, nodes: Sequence[Entry]) -> list[Get]:
    return [Get(f"{mine.folder}/{one.node}", partial(mine.heard, one.node)) for one in nodes]
