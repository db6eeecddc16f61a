"""The simple recipe: the client that creates the node of a name holds it. There is no line.

::

    /holdfast/orders%2F42              the lock, ephemeral: other libraries see its holder, too
    /holdfast/.claims/9f86d081884c...  the claim, ephemeral: made and deleted with the lock's node

ZooKeeper deletes a node by its name alone, so a delete can hit a newer node of the same name.
Therefore a release deletes the lock's node only under two conditions. The claim, whose name is
unique, is deleted in the same request. And the lock's data must have been written exactly once
since the node's creation: holdfast writes them once more, other libraries don't.

A waiter watches the lock's node. When the node is gone, all waiters try to create it, and one of
them succeeds.
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
from ...core.policy import ASK_AGAIN_S_MAX, ASK_AGAIN_S_MIN, PATIENCE_S
from ...errors import NotSupported
from .config import lease_of
from .ending import Ending
from .entering import Entering
from .holders import Holders, lies_a_line, line_in_use
from .keeping import Keeping
from .mine import Mine
from .names import CLAIMS, SIMPLE, digest
from .notes import note, read_note
from .port import Port, refused
from .requests import Create, Delete, Found, Get, Look, Made, Multi, No, Put, Request, Stat, Sync
from .standing import Standing as Line

#: The capabilities of a store without lines.
CAPABILITIES = Capabilities(
    store="zookeeper",
    fair=False,
    semaphore=False,
    rwlock=False,
    election=False,
    resize=False,
    detach=False,
    min_hold=False,
    visible_line=False,
    kinds=False,
    wakeup_grants=False,
    own_expiry=False,
    crash_noticed="when the session of the dead process ends, whatever the ttl",
    clock="the length of a session",
)
#: Maximum attempts in one join: the node can exist at the create, and be gone at the next read.
_TRIES = 3
#: Data version of our lock nodes: the number of writes after their creation.
_WRITTEN = 1
#: The key of the watch on the node of a name, in `Mine.armed`.
_NODE = "the node"


class SimpleStore(Ending):
    """See :class:`holdfast.core.ports.Store`."""

    capabilities = CAPABILITIES
    batch_max = 500
    watch_every = math.inf

    def __init__(self, port: Port, root: str, session: float) -> None:
        super().__init__(port, session)
        self.lease_max = lease = lease_of(session)
        self.patience = min(PATIENCE_S, lease)
        self._ask_again = min(self.patience / 3, ASK_AGAIN_S_MAX)
        line = Line(port, SIMPLE)
        self._entering = Entering(port, line, root, SIMPLE)
        self._keeping = Keeping(port, self._own, line, self._entering, lease)
        self._holders = Holders(port, self._keeping, root, lease)
        self._claims = f"{root}/{CLAIMS}"

    # -- acquiring ---------------------------------------------------------------------------

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Create the node if there is none; see the contract."""
        until = self._port.now() + within
        mine = self._own.claims.get(claim.id)
        if mine is None:
            mine = self._claim(claim, min(claim.spec.ttl, self.lease_max))
            mine.void = True  # until the first request is sent
            # Stored before the first request, so that a withdrawal finds it.
            self._own.claims[claim.id] = mine
        if wait:
            self._bell(mine)
        answer = await self._stand(mine, until)
        if isinstance(answer, Waiting) and not wait:
            self._own.forget(mine)
            return Refused(answer.retry_in, "")
        return answer

    async def _stand(self, mine: Mine, until: float) -> Held | Waiting | Gone:
        """Return the claim's state; try to acquire, unless it is held."""
        if mine.void or not (mine.path or await self._find(mine, until)):
            return await self._take(mine, until)
        # A repeated join: the answer is the claim's current state, after a new write.
        renewal = Renewal(mine.claim, mine.stat.czxid, mine.claim.spec.ttl)
        (answer,) = await self.renew([renewal], until - self._port.now())
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Gone):  # the next join has another id, so this claim is removed here
            self._doom([mine])
        return answer

    async def _take(self, mine: Mine, until: float) -> Held | Waiting:
        """Create the claim's two nodes, or watch the lock's node if it exists already."""
        for _ in range(_TRIES):
            requests: list[Request] = [self._creation(mine)]
            if mine.bell is None:
                requests.append(Look(mine.folder))
            mine.void = False
            said, *seen = await self._port.ask(requests, until)
            why = _refusal(said)
            if why is None:
                return self._taken(mine, said[-1])
            mine.void = True
            if why is No.NODE:
                await self._entering.make(Create(self._claims), until)
            elif why is not No.ROOM:
                raise refused(why, f"create {mine.folder}", self.label)
            elif await self._busy(mine, seen, until):
                return Waiting(0, 0, self._ask_again)
        return Waiting(0, 0, ASK_AGAIN_S_MIN)

    def _creation(self, mine: Mine) -> Multi:
        spec, mark = mine.claim.spec, digest(mine.claim.id)
        data = note(spec.owner, mine.ttl, mine.weight, spec.meta, mark)
        return Multi(
            (
                Create(mine.folder, data, ephemeral=True),
                Create(f"{self._claims}/{mark}", data, ephemeral=True),
                Put(mine.folder, data),
            )
        )

    def _taken(self, mine: Mine, stat: Stat) -> Held:
        mine.entered(Made(self._path(mine), stat))
        mine.held = True
        answer = Held(stat.czxid, mine.ttl)
        self._live(mine, answer)
        return answer

    async def _busy(self, mine: Mine, seen: list[Any], until: float) -> bool:
        """True if the name is still in use. A waiter also sets a watch on the lock's node."""
        if not seen:
            mine.armed.add(_NODE)
            try:
                seen = await self._port.ask([Get(mine.folder, partial(mine.heard, _NODE))], until)
            except BaseException:
                mine.armed.clear()
                raise
        (node,) = seen
        if node is No.NODE:
            mine.armed.clear()
            return False
        if isinstance(node, No):
            raise refused(node, f"read {mine.folder}", self.label)
        if lies_a_line(node.stat if isinstance(node, Found) else node):
            raise line_in_use(mine.claim.spec.name)
        return True

    # -- renewing and waiting ----------------------------------------------------------------

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Try again to create the node, if it is gone; see the contract."""
        until = self._port.now() + within
        mine = self._own.claims.get(claim.id)
        if mine is None:
            return Gone(Loss.EXPIRED)
        if mine.void and mine.armed:
            (node,) = await self._port.ask([Look(mine.folder)], until)
            if node is not No.NODE:
                return Waiting(0, 0, self._ask_again)
        return await self._stand(mine, until)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew by one write, and then check that the lock nodes are still ours; see the contract.

        The write checks only the claims' nodes: another program may have deleted a lock's node.
        """
        until = self._port.now() + within
        answers = await self._keeping.renew(renewals, until)
        found = [self._own.claims.get(renewal.claim.id) for renewal in renewals]
        kept = [
            (at, mine, answer)
            for at, (mine, answer) in enumerate(zip(found, answers, strict=True))
            if mine is not None and isinstance(answer, Held)
        ]
        try:
            looks = await self._port.ask([Look(mine.folder) for _, mine, _ in kept], until)
        except BaseException:
            for _, mine, _ in kept:
                mine.kept(None)
            raise
        for (at, mine, answer), look in zip(kept, looks, strict=True):
            if isinstance(look, Stat) and look.czxid == mine.stat.czxid:
                self._live(mine, answer)
            else:
                mine.kept(None)
                mine.dead = Loss.BROKEN
                self._doom([mine])
                answers[at] = Gone(mine.dead)
        return answers

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until the node is gone, or until the time-out; never grants. See the contract."""
        mine, bell = self._own.claims.get(claim.id), self._bells.get(claim.id)
        if mine is not None and bell is not None and mine.armed:
            await bell.wait(seconds)
        return None

    # -- releasing ---------------------------------------------------------------------------

    def _path(self, mine: Mine) -> str:
        return f"{self._claims}/{digest(mine.claim.id)}"

    def _claim(self, claim: Claim, ttl: float) -> Mine:
        return Mine(claim, self._entering.folder(claim.spec.name), ttl)

    async def _find(self, mine: Mine, until: float) -> bool:
        _, stat = await self._port.ask([Sync(self._claims), Look(self._path(mine))], until)
        if not isinstance(stat, Stat):
            return False
        mine.entered(Made(self._path(mine), stat))
        mine.held = True
        return True

    def _removal(self, mine: Mine) -> Request:
        if mine.dead is Loss.BROKEN:
            return Delete(mine.path)
        return Multi((Delete(mine.path), Delete(mine.folder, _WRITTEN)))

    def _removed(self, mine: Mine, answer: Any) -> bool | Request:
        if answer is True or answer is No.NODE:  # only the claim was deleted: its lock was broken
            return False
        why = _refusal(answer)
        if why is None:
            return True
        if answer[0] is No.NODE:
            return False
        if why is No.NODE or why is No.VERSION:
            mine.dead = Loss.BROKEN
            return self._removal(mine)
        raise refused(why, f"delete {mine.folder}", self.label)

    def _search(self, mine: Mine) -> None:
        self._port.post(Sync(self._claims), _unheeded)
        self._port.post(Look(self._path(mine)), partial(self._searched, mine))

    def _searched(self, mine: Mine, stat: Any) -> None:
        """Read the answer to the search for the claim's node: remove the claim if it exists."""
        if isinstance(stat, Stat):
            mine.entered(Made(self._path(mine), stat))
            self._remove(mine)
        else:
            self._own.forget(mine)

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """Delete the node with this ticket, even if another process made it; see the contract."""
        until = self._port.now() + within
        folder = self._entering.folder(name)
        _, node = await self._port.ask([Sync(folder), Get(folder)], until)
        if not isinstance(node, Found) or node.stat.czxid != ticket:
            return False
        parts = [Delete(folder, node.stat.version)]
        mark = read_note(node.data).claim
        if mark:
            parts.insert(0, Delete(f"{self._claims}/{mark}"))
        (said,) = await self._port.ask([Multi(tuple(parts))], until)
        why = _refusal(said)
        if why is No.RIGHT:
            raise refused(why, f"delete {folder}", self.label)
        return why is None

    # -- several claims, inspection, and unsupported verbs -----------------------------------

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Always None: claims are acquired one after the other; see the contract."""
        return None

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the holders of the names that begin with the prefix; see the contract."""
        return await self._holders.inspect(prefix, exact, self._port.now() + within)

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Not supported: there is no capacity to change; see the contract."""
        raise NotSupported(f"{self.label} has no semaphores with recipe=simple")

    def forked(self) -> None:
        """Forget the parent's claims and connection, after a fork; see the contract."""
        super().forked()
        self._keeping.marked = 0


def _refusal(said: Any) -> No | None:
    """Return the reason why a `Multi` was refused; None if all of it was carried out."""
    parts = said if isinstance(said, list) else [said]
    refusals = [one for one in parts if isinstance(one, No)]
    return next((one for one in refusals if one is not No.OTHER), No.OTHER) if refusals else None


def _unheeded(answer: Any) -> None:
    """Ignore the answer: only the order of the requests matters."""
