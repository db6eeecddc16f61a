"""The verbs on ZooKeeper: a claim is an ephemeral node, and a line of claims is one folder.

This module uses no driver. Requests (``requests.py``) go through a port, for threads
(``blocking/``) or for one event loop (``aio.py``). Safety depends on three rules:

* **Only an answered write extends a lease**: the creation of a claim's node, or a batch of
  `keeping`. A follower that is cut off continues to answer reads while the majority grants
  the lock to another client.
* **A line is read after a write of the same session**, so that it is at least as new as that write.
* **The session of a node is the session in the server's answer.** A claim is lost, and stays lost,
  if the session of its node isn't the current session.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core.model import (
    Capabilities,
    Claim,
    Gone,
    Granted,
    Held,
    Joined,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ...core.policy import PATIENCE_S
from ...errors import NotSupported, StoreUnavailable
from .config import lease_of
from .ending import Ending
from .entering import Entering
from .keeping import Keeping
from .looking import Looking
from .mine import Mine
from .names import CURATOR
from .port import Port, refused
from .queues.verbs import ZooKeeperQueues
from .requests import Children, Delete, Look, No, Request, Stat, Sync
from .standing import Standing as Line

#: The capabilities of this store. A claim ends with its session, so it can't be handed over.
CAPABILITIES = Capabilities(
    store="zookeeper",
    resize=False,
    detach=False,
    min_hold=False,
    own_expiry=False,
    queues=True,
    crash_noticed="when the session of the dead process ends, whatever the ttl",
    clock="the length of a session",
)


class ZooKeeperStore(Ending):
    """See :class:`holdfast.core.ports.Store`."""

    batch_max = 500
    watch_every = math.inf

    def __init__(self, port: Port, root: str, recipe: str, session: float) -> None:
        super().__init__(port, session)
        self.lease_max = lease = lease_of(session)
        self.patience = min(PATIENCE_S, lease)
        self.capabilities = CAPABILITIES
        if recipe == CURATOR:
            # Curator's names of the nodes contain neither a weight nor the kind.
            self.capabilities = CAPABILITIES._replace(
                semaphore=False, rwlock=False, election=False, kinds=False
            )
        self._line = Line(port, recipe, self.patience / 3)
        self._entering = Entering(port, self._line, root, recipe)
        self._keeping = Keeping(port, self._own, self._line, self._entering, lease)
        self.queues = ZooKeeperQueues(port, root)
        self._looking = Looking(port, self._line, self._keeping, root, lease, self.patience)

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        until = self._port.now() + within
        mine = self._own.claims.get(claim.id)
        known = mine is not None
        if mine is None:
            mine = self._claim(claim, min(claim.spec.ttl, self.lease_max))
            # Stored before the first request, so that a withdrawal finds it.
            self._own.claims[claim.id] = mine
        if wait:
            self._bell(mine)
        if known and (mine.path or await self._find(mine, until)):
            answer = await self._keeping.turn(mine, until)
        else:
            nodes = await self._entering.create(mine, not wait, until)
            answer = await self._line.stand(mine, nodes, until)
        if isinstance(answer, Waiting) and not wait:
            answer = Refused(answer.retry_in, "")
        if isinstance(answer, Held | Waiting):
            self._live(mine, answer)
            return answer
        # A claim that isn't accepted must leave no node: a failed delete raises an error.
        await self._port.ask([Delete(mine.path)], until)
        self._own.forget(mine)
        return answer

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew a batch; see the contract."""
        answers = await self._keeping.renew(renewals, self._port.now() + within)
        for renewal, answer in zip(renewals, answers, strict=True):
            mine = self._own.claims.get(renewal.claim.id)
            if mine is not None and isinstance(answer, Held):
                self._live(mine, answer)
        return answers

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a waiter; see the contract."""
        mine = self._own.claims.get(claim.id)
        if mine is None or not mine.path:
            return Gone(Loss.EXPIRED)
        answer = await self._keeping.turn(mine, self._port.now() + within)
        if isinstance(answer, Held | Waiting):
            self._live(mine, answer)
            return answer
        return answer if isinstance(answer, Gone) else Gone(Loss.EXPIRED)

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """Delete the node with this ticket, even if another process made it; see the contract."""
        until = self._port.now() + within
        folder = self._entering.folder(name)
        _, nodes = await self._port.ask([Sync(folder), Children(folder)], until)
        line = self._line.entries(self._line.listed(nodes, folder), name)
        paths = [f"{folder}/{one.node}" for one in line]
        looks = await self._port.ask([Look(path) for path in paths], until)
        for path, look in zip(paths, looks, strict=True):
            if isinstance(look, Stat) and look.czxid == ticket:
                (answer,) = await self._port.ask([Delete(path)], until)
                if isinstance(answer, No) and answer is not No.NODE:
                    raise refused(answer, f"delete {path}", self.label)
                return answer is True
        return False

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Always None: no request can test whether several lines are empty."""
        return None

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until the blocking nodes are gone, or until the time-out; see the contract.

        The grant is only read, so it extends no lease: the holder's deadline counts from the last
        renewal of the claim.
        """
        until = self._port.now() + seconds
        mine, bell = self._own.claims.get(claim.id), self._bells.get(claim.id)
        if mine is None or bell is None or not (mine.armed or mine.cleared):
            return None
        while await bell.wait(until - self._port.now()):
            if mine.dead is not None or mine.stat.session != self._port.session():
                return None
            if not mine.cleared:
                try:
                    (nodes,) = await self._port.ask([Children(mine.folder)], until)
                    listed = self._line.listed(nodes, mine.folder)
                    answer = await self._line.stand(mine, listed, until)
                except StoreUnavailable:
                    return None
                if isinstance(answer, Waiting):
                    continue
                if not isinstance(answer, Held):
                    return None
            mine.held = True
            return Granted(mine.stat.czxid)
        return None

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines whose name begins with the prefix; see the contract."""
        return await self._looking.inspect(prefix, exact, self._port.now() + within)

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Not supported: the names of the nodes contain the capacity, and names can't change."""
        raise NotSupported(
            f"{self.label} can't change the permits of a semaphore while it is in use; when all "
            "its claims have ended, it can have another capacity"
        )

    # -- how a claim of a line ends ----------------------------------------------------------

    def _claim(self, claim: Claim, ttl: float) -> Mine:
        return Mine(claim, self._entering.folder(claim.spec.name), ttl)

    async def _find(self, mine: Mine, until: float) -> bool:
        return await self._entering.find(mine, until)

    def _removal(self, mine: Mine) -> Request:
        return Delete(mine.path)

    def _removed(self, mine: Mine, answer: Any) -> bool:
        if answer is not True and answer is not No.NODE:
            raise refused(answer, f"delete {mine.path}", self.label)
        return answer is True

    def _search(self, mine: Mine) -> None:
        self._port.post(Sync(mine.folder), _unheeded)
        self._port.post(Children(mine.folder), partial(self._searched, mine))

    def _searched(self, mine: Mine, nodes: Any) -> None:
        """Read the answer to the search in the claim's line: remove the claim's node if it exists.

        Due to the `Sync` before the search, no node can appear later.
        """
        node = self._entering.own_node(mine, self._line.listed(nodes, mine.folder))
        if node:
            mine.path = f"{mine.folder}/{node}"
            mine.stat = mine.stat._replace(session=self._port.session())
            self._remove(mine)
        else:
            self._own.forget(mine)

    # -- life cycle --------------------------------------------------------------------------

    def _on_alarm(self) -> None:
        super()._on_alarm()
        self.queues.on_alarm()

    async def close(self) -> None:
        """End our session, and with it all our remaining claims."""
        await super().close()
        self.queues.forget()

    def forked(self) -> None:
        """Forget the parent's claims and connection, after a fork; see the contract."""
        super().forked()
        self.queues.forget()
        self._keeping.marked = 0


def _unheeded(answer: Any) -> None:
    """Ignore the answer: only the order of the requests matters."""
