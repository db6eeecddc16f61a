"""The store model: the reference line of claims behind a network that fails in every known way.

The server keeps its clock, unless a fault sets it; clients' clocks differ from it in rate by less
than the margin allows. A lease that would outlast its own ttl proves that the clock was set back,
and is cut to that.
It may be down, restart with its data, or restart without (then it grants nothing until every lease
that it may have forgotten is over: the grace that a guard against amnesia gives). Tickets are
``max(last + 1, time in microseconds)``, so they rise across all of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...core.model import (
    Capabilities,
    Claim,
    Granted,
    Held,
    Joined,
    Keep,
    Leave,
    LineRecord,
    Mismatch,
    Standing,
    Waiting,
)
from ...errors import StoreUnavailable
from ...stores.memory.line import Lines, Poke
from .fates import AGAIN_S, CUT_S, DOWN_S, TOO_LATE_S, Aim, Fate
from .world import Cancelled, Fut, Process, World

CAPABILITIES = Capabilities(store="simulated")
#: What the clock of a server shows at first: enough to be set back by some ten years.
EPOCH_S = 2_000_000_000.0


class Net:
    """What happens to messages just now; the faults turn these knobs."""

    def __init__(self) -> None:
        self.lose_request = 0.0
        self.lose_reply = 0.0
        self.reset = 0.0
        self.lose_poke = 0.05
        self.slow = 0.0
        self.cut: set[tuple[int, str]] = set()


class Server:
    """The one server of the world."""

    #: What clients ask for.
    verbs: tuple[str, ...] = ("join", "keep", "leave", "join_free", "leave_all")

    def __init__(self, world: World, ttl_max: float) -> None:
        self.world = world
        self.net = Net()
        self.lines = Lines()
        self.up = True
        self.generation = 0
        #: Seconds by which the clock was set, in all.
        self.skew = 0.0
        self.grace_until = 0.0
        self.ttl_max = ttl_max
        self.stores: dict[int, SimStore] = {}
        #: process -> (verb, what to do while its next request of that verb, for one name or for
        #: several, is under way).
        self.aims: dict[int, tuple[str, Callable[[], None]]] = {}
        self.before_verb: Callable[[str, tuple[Any, ...]], None] = lambda *_: None
        self.after_verb: Callable[[], None] = lambda: None
        #: process -> the fates of some of its requests to come, one after the other.
        self.fated: dict[int, list[Aim]] = {}
        #: process -> the verbs that it has sent so far.
        self.sent: dict[int, list[str]] = {}
        #: Seconds after its time-out at which a late request arrives.
        self.too_late: tuple[float, ...] = TOO_LATE_S
        #: The ids of the claims that were given back in time.
        self.freed: set[str] = set()
        #: Called with the process that a fate strikes.
        self.struck: Callable[[Process, Aim], None] = lambda *_: None

    def now(self) -> float:
        """The clock of the server."""
        return EPOCH_S + self.world.time + self.skew

    def step(self, delta: float) -> None:
        """The clock is set; what it was compared with is put right where that shows."""
        self.skew += delta
        if delta < 0:
            self.clamp(self.now())

    def clamp(self, now: float) -> None:
        """No lease outlasts its own length."""
        self.grace_until = min(self.grace_until, now + self.ttl_max + 1.0)
        for line in self.lines.lines.values():
            for row in line.rows():
                longest = max(row.ttl, self.lines.patience)
                row.expires = min(row.expires, now + longest)
                line.first = min(line.first, row.expires)

    def restart(self, keep_data: bool) -> None:
        """Come back, with the data or without. Without, in grace."""
        self.up = True
        self.generation += 1
        if not keep_data:
            self.lines = type(self.lines)()
            self.grace_until = self.now() + self.ttl_max + 1.0

    def stop(self) -> None:
        """Be gone: every connection breaks."""
        self.up = False
        self.generation += 1

    def fate(self, process: Process, verb: str) -> Fate | None:
        """What becomes of the request that this process sends now."""
        sent = self.sent.setdefault(process.pid, [])
        sent.append(verb)
        aims = self.fated.get(process.pid)
        if not aims or not aims[0].hits(verb, len(sent) - 1):
            return None
        aim = aims.pop(0)
        self.struck(process, aim)
        return aim.fate

    def down(self, seconds: float) -> None:
        """Be down for this time, if it is up."""
        if self.up:
            self.stop()
            self.world.after(seconds, partial(self._back, self.generation))

    def _back(self, generation: int) -> None:
        if self.generation == generation:
            self.restart(keep_data=True)

    def handle(self, verb: str, args: tuple[Any, ...], address: tuple[int, int]) -> Any:
        """Carry out one verb and send the pokes that come of it."""
        now = self.now()
        lines = self.lines
        lines.next_ticket = max(lines.next_ticket, int(now * 1e6))
        if now < self.grace_until and verb == "join":
            return StoreUnavailable("the server restarted without its data: no grants yet")
        if now < self.grace_until and verb == "join_free":
            return None
        self.before_verb(verb, args)
        answer, pokes = getattr(self, f"_{verb}")(*args, now, address)
        self.after_verb()
        for poke in pokes:
            self._poke(poke)
        return answer

    def _join(self, claim: Claim, wait: bool, now: float, address: Any) -> tuple[Any, list[Poke]]:
        return self.lines.join(claim, wait, now, address if wait else None)

    def _keep(self, keeps: Sequence[Keep], now: float, address: Any) -> tuple[Any, list[Poke]]:
        answers, pokes = [], []
        for keep in keeps:
            answer, some = self.lines.keep(keep, now, address)
            answers.append(answer)
            pokes += some
        return answers, pokes

    def _leave(self, leave: Leave, now: float, address: Any) -> tuple[Any, list[Poke]]:
        there, pokes = self.lines.leave(leave, now)
        if there:
            self.freed.add(leave.id)
        return there, pokes

    def _join_free(
        self, claims: Sequence[Claim], now: float, address: Any
    ) -> tuple[Any, list[Poke]]:
        return self.lines.join_free(claims, now)

    def _leave_all(
        self, leaves: Sequence[Leave], now: float, address: Any
    ) -> tuple[Any, list[Poke]]:
        done = [self._leave(leave, now, address) for leave in leaves]
        return [there for there, _ in done], [poke for _, pokes in done for poke in pokes]

    def _inspect(
        self, prefix: str, exact: bool, now: float, address: Any
    ) -> tuple[Any, list[Poke]]:
        return self.lines.inspect(prefix, now, exact), []

    def _resize(self, name: str, count: int, now: float, address: Any) -> tuple[Any, list[Poke]]:
        return self.lines.resize(name, count, now)

    def _poke(self, poke: Poke) -> None:
        (pid, _), cid, fence = poke
        world, store = self.world, self.stores[pid]
        if world.rng.random() < self.net.lose_poke or (pid, "down") in self.net.cut:
            return
        world.after(_delay(self), lambda: store.poked(cid, fence))


class Box:
    """Where the poke of one waiting claim arrives."""

    __slots__ = ("bell", "fence")

    def __init__(self) -> None:
        self.fence: int | None = None
        self.bell: Fut[None] | None = None


class Connection:
    """An ordered way to the server: a request never overtakes an earlier one on it."""

    __slots__ = ("broken", "generation", "last")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.last = 0.0
        self.broken = False


class SimStore:
    """The client's side: the five verbs as messages, from one process."""

    capabilities = CAPABILITIES
    keep_batch = 4
    watch_every = lease_max = math.inf
    label = "sim://"

    def __init__(self, server: Server, process: Process) -> None:
        self.server = server
        self.process = process
        self.world = server.world
        self.patience = server.lines.patience
        self._connections: dict[object, Connection] = {}
        self.boxes: dict[str, Box] = {}
        server.stores[process.pid] = self

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """See ``core.ports.Store``."""
        if wait:
            self.boxes[claim.id] = Box()
        answer: Joined = await self._call("join", (claim, wait), within)
        return answer

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """See ``core.ports.Store``."""
        answers: list[Standing | Exception] = await self._call("keep", (list(keeps),), within)
        return answers

    async def leave(self, leave: Leave, within: float) -> bool:
        """See ``core.ports.Store``."""
        there: bool = await self._call("leave", (leave,), within)
        return there

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """See ``core.ports.Store``."""
        held: list[Held] | None = await self._call("join_free", (list(claims),), within)
        return held

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """See ``core.ports.Store``."""
        answers: list[bool | Exception] = await self._call("leave_all", (list(leaves),), within)
        return answers

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """See ``core.ports.Store``."""
        box = self.boxes.setdefault(claim.id, Box())
        if box.fence is None:
            bell: Fut[None] = Fut(self.world)
            box.bell = bell
            self.world.after(seconds / self.process.rate, lambda: bell.set(None))
            await bell
        fence, box.fence = box.fence, None
        return Granted(fence) if fence is not None else None

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """See ``core.ports.Store``."""
        found: list[LineRecord] = await self._call("inspect", (prefix, exact), within)
        return found

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """See ``core.ports.Store``."""
        former: int | Mismatch | None = await self._call("resize", (name, capacity), within)
        return former

    async def changed(self, within: float) -> bool:
        """It loses nothing that it has acknowledged without ending itself; see the contract."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """See ``core.ports.Store``."""
        self.boxes.pop(claim.id, None)

    async def close(self) -> None:
        """Nothing is open."""

    def forked(self) -> None:
        """The child has connections of its own."""
        self._connections, self.boxes = {}, {}

    def poked(self, cid: str, fence: int) -> None:
        """A poke has arrived at this process."""
        box = self.boxes.get(cid)
        if box is not None:
            box.fence = fence
            if box.bell is not None:
                box.bell.set(None)

    async def _call(self, verb: str, args: tuple[Any, ...], within: float) -> Any:
        """One request and its reply; whatever goes wrong, within the time."""
        world, server, net = self.world, self.server, self.server.net
        who = world.current if self.process.threads else None
        conn = self._connections.get(who)
        if conn is None or conn.broken or conn.generation != server.generation:
            conn = self._connections[who] = Connection(server.generation)
        reply: Fut[Any] = Fut(world)
        world.after(
            max(within, 0.001) / self.process.rate,
            lambda: reply.fail(StoreUnavailable(f"no answer to {verb} within {within:.3f} s")),
        )
        rng = world.rng
        aim = server.aims.get(self.process.pid)
        if aim is not None and aim[0] == verb.partition("_")[0]:
            del server.aims[self.process.pid]
            world.after(rng.random() * 0.004, aim[1])
        lost = rng.random() < net.lose_request or (self.process.pid, "up") in net.cut
        fate = server.fate(self.process, verb)
        if fate is not None:
            lost = self._strike(fate, within, partial(self._arrive, conn, verb, args)) or lost
        if not lost:
            conn.last = max(conn.last, world.time + _delay(server))
            world.at(conn.last, lambda: self._arrive(conn, verb, args, reply, fate))
        try:
            return await reply
        except StoreUnavailable:
            conn.broken = True
            raise
        except BaseException:
            conn.broken = self.process.threads  # asyncio goes on using it, in order
            raise

    def _strike(self, fate: Fate, within: float, arrive: Callable[..., None]) -> bool:
        """Prepare what is to become of a request; does it not arrive in time?"""
        world, rng = self.world, self.world.rng
        nobody: Fut[Any] = Fut(world)
        if fate is Fate.LATE:
            world.after(
                within / self.process.rate + rng.choice(self.server.too_late),
                lambda: arrive(nobody),
            )
        elif fate is Fate.DOUBLED:
            world.after(rng.choice(AGAIN_S), lambda: arrive(nobody))
        elif fate is Fate.CANCELLED and world.current is not None and not world.current.nobody:
            task = world.current
            failure = KeyboardInterrupt() if self.process.threads else Cancelled()
            world.after(rng.random() * 0.004, lambda: world.interrupt(task, failure))
        elif fate is Fate.CUT:
            cut = {(self.process.pid, "up")}
            self.server.net.cut |= cut
            world.after(rng.choice(CUT_S), lambda: self.server.net.cut.difference_update(cut))
        return fate in (Fate.LATE, Fate.UNSENT, Fate.CUT)

    def _arrive(
        self,
        conn: Connection,
        verb: str,
        args: tuple[Any, ...],
        reply: Fut[Any],
        fate: Fate | None = None,
    ) -> None:
        server, world, net = self.server, self.world, self.server.net
        if not server.up or conn.generation != server.generation:
            world.after(_delay(server), lambda: reply.fail(StoreUnavailable("connection reset")))
            return
        answer = server.handle(verb, args, (self.process.pid, 0))
        if fate is Fate.DOWN:
            server.down(world.rng.choice(DOWN_S))
        if fate in (Fate.LOST, Fate.DOUBLED, Fate.DOWN):
            return
        if isinstance(answer, StoreUnavailable):
            world.after(_delay(server), lambda: reply.fail(answer))
            return
        if world.rng.random() < net.reset:
            world.after(_delay(server), lambda: reply.fail(StoreUnavailable("connection reset")))
        elif world.rng.random() >= net.lose_reply and (self.process.pid, "down") not in net.cut:
            world.after(_delay(server), lambda: reply.set(answer))


def _delay(server: Server) -> float:
    rng = server.world.rng
    base = 0.0002 + 0.0018 * rng.random()
    if server.net.slow and rng.random() < 0.3:
        return base + server.net.slow * rng.random()
    return base
