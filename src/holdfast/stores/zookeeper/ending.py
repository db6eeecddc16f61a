"""The end of claims for all recipes: released, expired or withdrawn.

The node of an ended claim is deleted. A failed delete is repeated until the node is gone or its
session has ended. Each recipe defines which request removes a claim, and how to find its node when
the node's name is unknown.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core.model import Claim, Held, Kind, Leave, Spec, Waiting
from ...core.ports import NoHandover
from ...errors import NotSupported, StoreUnavailable
from .mine import Mine, Own
from .port import Bell, Port
from .requests import Request

#: Seconds until the next attempt to delete a node, after an attempt failed.
AGAIN_S = 0.25
#: Placeholder spec for the withdrawal of a claim of which only id and name are known.
_NOBODY = Spec("", Kind.LOCK, 1, 1, 0.0, "")


class Ending(NoHandover, abc.ABC):
    """The base of the stores of all recipes: ends the claims of this process."""

    #: The reason why this store has no refresh guards.
    no_guards = (
        "ZooKeeper keeps every node in the memory of each server, takes 1 MiB at most for one, and "
        "has a majority write each change to disk, so it isn't suited for cached values"
    )

    def __init__(self, port: Port, session: float) -> None:
        self._port = port
        self.label = port.label
        self._session = session
        self._own = Own()
        self._bells: dict[str, Bell] = {}
        port.on_alarm = self._on_alarm

    # -- defined by each recipe --------------------------------------------------------------

    @abc.abstractmethod
    def _claim(self, claim: Claim, ttl: float) -> Mine:
        """Return the state for a claim of this process that has no node yet."""

    @abc.abstractmethod
    async def _find(self, mine: Mine, until: float) -> bool:
        """Find the node of a claim whose create was not answered; False if there is none."""

    @abc.abstractmethod
    def _removal(self, mine: Mine) -> Request:
        """Return the request that removes the claim."""

    @abc.abstractmethod
    def _removed(self, mine: Mine, answer: Any) -> bool | Request:
        """Read the answer to `_removal`; raise if it was refused.

        Return True if the claim was there, False if not, or the request to send next.
        """

    @abc.abstractmethod
    def _search(self, mine: Mine) -> None:
        """Look for the node of a claim and remove it, without waiting for the answers."""

    # -- withdrawing and releasing -----------------------------------------------------------

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release; watches notify the waiters. See the contract."""
        if leave.after > 0:
            raise NotSupported(f"{self.label} can't keep a name occupied after its release")
        until = self._port.now() + within
        mine = self._own.claims.get(leave.id)
        if mine is None:
            if not leave.suspect:
                return False
            mine = self._claim(Claim(leave.id, _NOBODY._replace(name=leave.name)), leave.ttl)
        mine.expires = math.inf  # its node is being deleted
        try:
            if mine.void or not (mine.path or await self._find(mine, until)):
                self._own.forget(mine)
                return False
            # Read before the delete: after it, a concurrent renewal finds no node and sets `dead`.
            alive = mine.dead is None
            there: bool | Request = self._removal(mine)
            while not isinstance(there, bool):
                (answer,) = await self._port.ask([there], until)
                there = self._removed(mine, answer)
        except BaseException:
            self._doom([mine])
            raise
        self._own.forget(mine)
        return there and alive

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release several claims; see the contract."""
        until = self._port.now() + within
        mine = [self._own.claims.get(leave.id) for leave in leaves]
        known = [one for one in mine if one is not None and one.path]
        if len(known) < len(leaves):
            return [await self._leave_one(leave, until) for leave in leaves]
        alive = [one.dead is None for one in known]
        for one in known:
            one.expires = math.inf
        try:
            said = await self._port.ask([self._removal(one) for one in known], until)
        except BaseException:
            self._doom(known)
            raise
        return [
            await self._left(leave, one, answer, until, was)
            for leave, one, answer, was in zip(leaves, known, said, alive, strict=True)
        ]

    async def _left(
        self, leave: Leave, mine: Mine, answer: Any, until: float, alive: bool
    ) -> bool | Exception:
        """Return the result for one of several claims."""
        try:
            there = self._removed(mine, answer)
        except Exception as refusal:
            return refusal
        if not isinstance(there, bool):
            return await self._leave_one(leave, until)
        self._own.forget(mine)
        return there and alive

    async def _leave_one(self, leave: Leave, until: float) -> bool | Exception:
        try:
            return await self.leave(leave, until - self._port.now())
        except StoreUnavailable as failure:
            return failure

    # -- waiting -----------------------------------------------------------------------------

    def _bell(self, mine: Mine) -> None:
        bell = self._bells.get(mine.claim.id)
        if bell is None:
            bell = self._bells[mine.claim.id] = self._port.bell()
        mine.bell = bell.set

    def unlisten(self, claim: Claim) -> None:
        """Stop waiting for this claim; see the contract."""
        self._bells.pop(claim.id, None)
        mine = self._own.claims.get(claim.id)
        if mine is not None:
            mine.bell = None

    # -- claims that we end ourselves --------------------------------------------------------

    def _live(self, mine: Mine, answer: Held | Waiting) -> None:
        """Set the claim's new deadline, after a write was answered."""
        # A waiter lives as long as the session, not only for the waiter TTL. So the waiter survives
        # the time in which the ensemble elects a leader.
        lease = answer.expires_in if isinstance(answer, Held) else self._session
        mine.kept(self._port.now() + lease)
        self._port.alarm(mine.expires)

    def _doom(self, mines: Sequence[Mine]) -> None:
        """Withdraw these claims in the background; failed deletes are repeated."""
        for mine in mines:
            self._own.doom(mine)
        self._port.alarm(self._port.now() + AGAIN_S)

    def _on_alarm(self) -> None:
        """Delete the nodes of expired claims; failed deletions are repeated later."""
        now = self._port.now()
        self._own.bury(now)
        session = self._port.session()
        for mine in list(self._own.doomed.values()):
            if session and mine.path and mine.stat.session != session:
                self._own.forget(mine)
            elif session and mine.path:
                self._remove(mine)
            elif session:
                self._search(mine)
        due = self._own.next_due()
        if self._own.doomed:
            due = min(due, now + AGAIN_S)
        if due < math.inf:
            self._port.alarm(due)

    def _remove(self, mine: Mine) -> None:
        """Send the removal, without waiting for its answer."""
        self._port.post(self._removal(mine), partial(self._gone, mine))

    def _gone(self, mine: Mine, answer: Any) -> None:
        more = self._removed(mine, answer)  # after an exception the next alarm tries again
        if isinstance(more, bool):
            self._own.forget(mine)
        else:
            self._port.post(more, partial(self._gone, mine))

    # -- life cycle --------------------------------------------------------------------------

    async def changed(self, within: float) -> bool:
        """Always False: ZooKeeper loses nothing that it has acknowledged; see the contract."""
        return False

    async def close(self) -> None:
        """End our session, and with it all our remaining claims."""
        self._own.clear()
        await self._port.close()

    def forked(self) -> None:
        """Forget the parent's claims and connection, after a fork; see the contract."""
        self._own.clear()
        self._bells = {}
        self._port.forked()
