"""Renews claims: one `Multi` for a whole batch of holds, or for one waiter.

The `Multi` writes to the node of our session, so that no follower can answer it alone. The `Multi`
also checks that the node of every claim exists. If the `Multi` is refused, nothing was written and
nothing is renewed. Then the claims without a node are lost, and a `Multi` for the other claims is
sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.model import Gone, Held, Joined, Loss, Renewal, Standing, Waiting
from ...errors import StoreUnavailable
from .entering import Entering
from .mine import Mine, Own
from .names import SESSIONS
from .notes import note
from .port import Port, refused
from .requests import Check, Children, Create, Look, Multi, No, Put, Request, Sync
from .standing import Standing as Line

#: Maximum times to send a batch, each time without the claims that are gone.
_ROUNDS = 5


class Keeping:
    """Renews the claims of one process."""

    def __init__(self, port: Port, own: Own, line: Line, entering: Entering, most: float) -> None:
        self._port = port
        self._own = own
        self._line = line
        self._entering = entering
        #: The longest lease, in seconds.
        self._most = most
        #: Id of the session whose node is known to exist; 0: none.
        self.marked = 0

    async def renew(self, renewals: Sequence[Renewal], until: float) -> list[Standing | Exception]:
        """Renew held claims; return one answer for each, in order.

        If a claim's answer is `Held`, the caller must call `Mine.kept` on it: until then the claim
        doesn't expire."""
        mines = [self._own.claims.get(renewal.claim.id) for renewal in renewals]
        held = {at: mine for at, mine in enumerate(mines) if mine is not None and mine.held}
        found, _ = await self._write(renewals, held, (), until)
        gone = Gone(Loss.EXPIRED)
        return [found.get(at, gone) for at in range(len(renewals))]

    async def turn(self, mine: Mine, until: float) -> Joined:
        """Renew one claim that has a node, and return its state in the line.

        If the answer is `Held` or `Waiting`, the caller must call `Mine.kept`, as for `renew`."""
        renewal = Renewal(mine.claim, mine.stat.czxid, mine.claim.spec.ttl)
        lists = () if mine.held else (Children(mine.folder),)
        found, listed = await self._write([renewal], {0: mine}, lists, until)
        written = found[0]
        if isinstance(written, Exception):
            raise written
        if not listed:
            return written
        answer: Joined | None = None
        try:
            nodes = self._line.listed(listed[0], mine.folder)
            answer = await self._line.stand(mine, nodes, until)
        finally:
            if not isinstance(answer, Held | Waiting):
                mine.kept(None)
        return answer

    async def _write(
        self,
        renewals: Sequence[Renewal],
        mines: Mapping[int, Mine],
        lists: Sequence[Request],
        until: float,
    ) -> tuple[dict[int, Standing | Exception], list[Any]]:
        """Renew these claims, and list folders in the same round trip.

        Return the answer for each claim, and the lists; no lists if nothing was renewed."""
        found: dict[int, Standing | Exception] = {}
        todo: dict[int, Mine] = {}
        now = self._port.now()
        for at, mine in mines.items():
            if mine.expires <= now or not mine.keeping():
                self._own.doom(mine)
                found[at] = Gone(mine.dead or Loss.EXPIRED)
            else:
                todo[at] = mine
        begun = dict(todo)
        try:
            return found, await self._round(renewals, todo, found, lists, until)
        finally:
            for at, mine in begun.items():
                # For the other claims the caller calls `kept`, with their new deadline.
                if not isinstance(found.get(at), Held):
                    mine.kept(None)

    async def _round(
        self,
        renewals: Sequence[Renewal],
        todo: dict[int, Mine],
        found: dict[int, Standing | Exception],
        lists: Sequence[Request],
        until: float,
    ) -> list[Any]:
        for _ in range(_ROUNDS):
            if not todo:
                return []
            session = await self.mark(until)
            for at in [at for at, mine in todo.items() if mine.stat.session != session]:
                found[at] = self._line.vanished(todo.pop(at))
            ttls = {at: min(renewals[at].ttl, self._most) for at in todo}
            parts = [_part(mine, ttls[at], renewals[at]) for at, mine in todo.items()]
            write = Multi((Put(self._mark_of(session), b""), *parts))
            said, *listed = await self._port.ask([write, *lists], until)
            answers = said if isinstance(said, list) else [said]
            if not any(isinstance(one, No) for one in answers):
                for at, mine in todo.items():
                    mine.ttl, mine.weight = ttls[at], _weight(mine, renewals[at])
                    found[at] = Held(mine.stat.czxid, mine.ttl)
                return listed
            if answers[0] not in (No.OTHER, True):
                self.marked = 0
            await self._sort_out(todo, found, answers, until)
        wrong = StoreUnavailable(f"{self._port.label} refused {_ROUNDS} renewals")
        found.update(dict.fromkeys(todo, wrong))
        return []

    async def _sort_out(
        self,
        todo: dict[int, Mine],
        found: dict[int, Standing | Exception],
        answers: list[Any],
        until: float,
    ) -> None:
        """After a refused write, record the claims whose nodes are gone as lost."""
        if No.RIGHT in answers:
            raise refused(No.RIGHT, "renew", self._port.label)
        places = list(todo)
        looks = await self._port.ask([Look(todo[at].path) for at in places], until)
        for at, look in zip(places, looks, strict=True):
            if look is No.NODE:
                found[at] = self._line.vanished(todo.pop(at))

    # -- the node of the session -------------------------------------------------------------

    def _mark_of(self, session: int) -> str:
        return f"{self._entering.root}/{SESSIONS}/{session:016x}"

    async def mark(self, until: float) -> int:
        """Make sure that the node of our session exists; return the id of the session."""
        if not self._port.session():
            await self._port.ask([Sync("/")], until)
        session = self._port.session()
        if not session:
            raise StoreUnavailable(f"the connection to {self._port.label} was lost")
        if session != self.marked:
            node = Create(self._mark_of(session), ephemeral=True)
            (answer,) = await self._port.ask([node], until)
            if answer is No.NODE:
                await self._entering.make(node, until)
            elif isinstance(answer, No) and answer is not No.ROOM:
                raise refused(answer, "create the node of our session", self._port.label)
            self.marked = session
        return session

    async def list_now(self, folder: str, until: float) -> tuple[float, Any]:
        """Return the time by the leader's clock, and the children of a folder."""
        now, (nodes,) = await self.ask_now([Children(folder)], until)
        return now, nodes

    async def ask_now(self, reads: Sequence[Request], until: float) -> tuple[float, list[Any]]:
        """Return the leader's time, taken from a write, and the answers to reads after it."""
        mark = self._mark_of(await self.mark(until))
        stat, *answers = await self._port.ask([Put(mark, b""), *reads], until)
        if stat is No.NODE:
            self.marked = 0
            mark = self._mark_of(await self.mark(until))
            stat, *answers = await self._port.ask([Put(mark, b""), *reads], until)
        if isinstance(stat, No):
            raise refused(stat, "write to the node of our session", self._port.label)
        return stat.changed, answers


def _weight(mine: Mine, renewal: Renewal) -> int:
    return renewal.weight if 0 < renewal.weight < mine.weight else mine.weight


def _part(mine: Mine, ttl: float, renewal: Renewal) -> Put | Check:
    """Return this claim's part of a batch: check its node, or write the changed ttl or weight."""
    weight = _weight(mine, renewal)
    if weight == mine.weight and ttl == mine.ttl:
        return Check(mine.path)
    spec = mine.claim.spec
    return Put(mine.path, note(spec.owner, ttl, weight, spec.meta))
