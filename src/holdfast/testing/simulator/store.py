"""The client's side of the store model: the verbs as messages, from one process."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.model import Capabilities, Claim, Granted, Joined, Waiting
from ...errors import StoreUnavailable
from .fates import AGAIN_S, CUT_S, DOWN_S, Fate
from .server import Server, delay
from .world import Cancelled, Fut, Process

CAPABILITIES = Capabilities(store="simulated")


class Box:
    """The wake-up of one waiter: the granted ``fence``, and the ``bell`` that wakes its task."""

    __slots__ = ("bell", "fence")

    def __init__(self) -> None:
        self.fence: int | None = None
        self.bell: Fut[None] | None = None


class Connection:
    """An ordered connection: no request overtakes an earlier request of the same connection."""

    __slots__ = ("broken", "generation", "last")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.last = 0.0
        self.broken = False


def verb(name: str) -> Any:
    """Make a verb that sends a message: its arguments, except the time limit."""

    async def ask(self: Any, *request: Any) -> Any:
        *args, within = request
        copied = tuple([*one] if isinstance(one, list) else one for one in args)
        return await self._call(name, copied, within)

    return ask


def listing(name: str) -> Any:
    """Make a verb that sends a message and lists by a name, or by a prefix of names."""

    async def ask(self: Any, prefix: str, within: float, exact: bool = False) -> Any:
        return await self._call(name, (prefix, exact), within)

    return ask


class Verbs:
    """The verbs of queues or of guards as messages, over the store of a process."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._call = store._call

    async def wait(self, waiter: Any, seconds: float) -> bool:
        """See ``core.queue.ports.Queues`` and ``core.guard.ports.Guards``."""
        return await self._store.listen(waiter.id, seconds) is not None

    def unlisten(self, waiter: Any) -> None:
        """See ``core.queue.ports.Queues`` and ``core.guard.ports.Guards``."""
        self._store.boxes.pop(waiter.id, None)


class SimStore:
    """The client's side: the verbs of locks as messages, from one process."""

    capabilities = CAPABILITIES
    batch_max = 4
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

    renew, turn, change, resize = verb("renew"), verb("turn"), verb("change"), verb("resize")
    leave, break_ = verb("leave"), verb("break_")
    join_free, leave_all = verb("join_free"), verb("leave_all")
    inspect = listing("inspect")

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """See ``core.ports.Store``."""
        if wait:
            self.boxes[claim.id] = Box()
        answer: Joined = await self._call("join", (claim, wait), within)
        return answer

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """See ``core.ports.Store``."""
        fence = await self.listen(claim.id, seconds)
        return Granted(fence) if fence is not None else None

    async def listen(self, id_: str, seconds: float) -> int | None:
        """Return the fence of the wake-up for this id; None if no wake-up comes in time.

        The id belongs to a claim, a take, or a request for a refresh lease.
        """
        box = self.boxes.setdefault(id_, Box())
        if box.fence is None:
            bell: Fut[None] = Fut(self.world)
            box.bell = bell
            self.world.after(seconds / self.process.rate, lambda: bell.set(None))
            await bell
        fence, box.fence = box.fence, None
        return fence

    async def changed(self, within: float) -> bool:
        """Return False: only a restart loses data, and the server itself handles such a restart."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """See ``core.ports.Store``."""
        self.boxes.pop(claim.id, None)

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def forked(self) -> None:
        """Forget the parent's connections: the child opens its own."""
        self._connections, self.boxes = {}, {}

    def poked(self, cid: str, fence: int) -> None:
        """Deliver a wake-up that has arrived at this process."""
        box = self.boxes.get(cid)
        if box is not None:
            box.fence = fence
            if box.bell is not None:
                box.bell.set(None)

    async def _call(self, verb: str, args: tuple[Any, ...], within: float) -> Any:
        """Send a request and return its reply; raise ``StoreUnavailable`` after ``within`` s."""
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
            conn.last = max(conn.last, world.time + delay(server))
            world.at(conn.last, lambda: self._arrive(conn, verb, args, reply, fate))
        try:
            return await reply
        except StoreUnavailable:
            conn.broken = True
            raise
        except BaseException:
            conn.broken = self.process.threads  # asyncio keeps using the connection, in order
            raise

    def _strike(self, fate: Fate, within: float, arrive: Callable[..., None]) -> bool:
        """Prepare the fault of a request; return True if the request doesn't arrive in time."""
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
            world.after(delay(server), lambda: reply.fail(StoreUnavailable("connection reset")))
            return
        answer = server.handle(verb, args, (self.process.pid, 0))
        if fate is Fate.DOWN:
            server.down(world.rng.choice(DOWN_S))
        if fate in (Fate.LOST, Fate.DOUBLED, Fate.DOWN):
            return
        if isinstance(answer, StoreUnavailable):
            world.after(delay(server), lambda: reply.fail(answer))
            return
        if world.rng.random() < net.reset:
            world.after(delay(server), lambda: reply.fail(StoreUnavailable("connection reset")))
        elif world.rng.random() >= net.lose_reply and (self.process.pid, "down") not in net.cut:
            world.after(delay(server), lambda: reply.set(answer))
