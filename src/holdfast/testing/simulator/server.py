"""The store model: the reference line of claims behind a network that fails in every known way.

A fault can set the clock of the server. The clocks of the clients run at slightly other rates, but
within the margin of the lease. A lease that would outlast its ttl proves that the clock was set
back, and is cut to the ttl. The server can be down, restart with its data, or restart without them.
After a restart without data it grants nothing until every forgotten lease has expired, as in the
grace period of recovery. Tickets are ``max(last + 1, time in microseconds)``. So they rise even
after a restart without data, unless the clock was set back as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.model import Change, Claim, Leave, Renewal
from ...errors import StoreUnavailable
from ...stores.memory.line import Lines, Poke
from .fates import TOO_LATE_S, Aim, Fate
from .world import Process, World

if TYPE_CHECKING:
    from .store import SimStore

#: Initial time of a server's clock, seconds. It can be set back by some ten years.
EPOCH_S = 2_000_000_000.0


class Net:
    """The current probabilities of message faults, and the processes that are cut off."""

    def __init__(self) -> None:
        self.lose_request = 0.0
        self.lose_reply = 0.0
        self.reset = 0.0
        self.lose_poke = 0.05
        self.slow = 0.0
        self.cut: set[tuple[int, str]] = set()


class Server:
    """The only server of the simulation."""

    #: The verbs from which a pair of failures is drawn.
    verbs: tuple[str, ...] = ("join", "renew", "turn", "leave", "join_free", "leave_all")

    def __init__(self, world: World, ttl_max: float) -> None:
        self.world = world
        self.net = Net()
        self.lines = Lines()
        self.up = True
        self.generation = 0
        #: Total seconds by which the clock was set.
        self.skew = 0.0
        self.grace_until = 0.0
        self.ttl_max = ttl_max
        self.stores: dict[int, SimStore] = {}
        #: Process id -> a verb, and an action during the next request of that verb. The verb `join`
        #: also means `join_free`, and `leave` also means `leave_all`.
        self.aims: dict[int, tuple[str, Callable[[], None]]] = {}
        self.before_verb: Callable[[str, tuple[Any, ...]], None] = lambda *_: None
        self.after_verb: Callable[[], None] = lambda: None
        #: Process id -> the fates of some of its later requests, in order.
        self.fated: dict[int, list[Aim]] = {}
        #: Process id -> the verbs that the process has sent so far.
        self.sent: dict[int, list[str]] = {}
        #: Seconds after its time-out at which a late request arrives.
        self.too_late: tuple[float, ...] = TOO_LATE_S
        #: The ids of the claims that a release or a withdrawal found and removed.
        self.freed: set[str] = set()
        #: Called with the process and the aim when a fate meets a request.
        self.struck: Callable[[Process, Aim], None] = lambda *_: None

    def now(self) -> float:
        """Return the time of the server's clock."""
        return EPOCH_S + self.world.time + self.skew

    def step(self, delta: float) -> None:
        """Set the clock by ``delta`` seconds; if it goes back, cut leases that are too long now."""
        self.skew += delta
        if delta < 0:
            self.clamp(self.now())

    def clamp(self, now: float) -> None:
        """Let no lease end later than its full length from now."""
        self.grace_until = min(self.grace_until, now + self.ttl_max + 1.0)
        for line in self.lines.lines.values():
            for row in line.rows():
                longest = max(row.ttl, self.lines.patience)
                row.expires = min(row.expires, now + longest)
                line.first = min(line.first, row.expires)

    def restart(self, keep_data: bool) -> None:
        """Restart with the data, or without it and with a grace period."""
        self.up = True
        self.generation += 1
        if not keep_data:
            self.lines = type(self.lines)()
            self.grace_until = self.now() + self.ttl_max + 1.0

    def stop(self) -> None:
        """Stop: every connection breaks."""
        self.up = False
        self.generation += 1

    def fate(self, process: Process, verb: str) -> Fate | None:
        """Return the fate of the request that this process sends now; None if there is no fate."""
        sent = self.sent.setdefault(process.pid, [])
        sent.append(verb)
        aims = self.fated.get(process.pid)
        if not aims or not aims[0].hits(verb, len(sent) - 1):
            return None
        aim = aims.pop(0)
        self.struck(process, aim)
        return aim.fate

    def down(self, seconds: float) -> None:
        """Stop the server for ``seconds``, unless it is down already."""
        if self.up:
            self.stop()
            self.world.after(seconds, partial(self._back, self.generation))

    def _back(self, generation: int) -> None:
        if self.generation == generation:
            self.restart(keep_data=True)

    def handle(self, verb: str, args: tuple[Any, ...], address: tuple[int, int]) -> Any:
        """Carry out one verb and send its wake-ups."""
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

    def _renew(
        self, renewals: Sequence[Renewal], now: float, address: Any
    ) -> tuple[Any, list[Poke]]:
        answers, pokes = [], []
        for renewal in renewals:
            answer, some = self.lines.renew(renewal, now)
            answers.append(answer)
            pokes += some
        return answers, pokes

    def _turn(self, claim: Claim, ticket: int, now: float, address: Any) -> tuple[Any, list[Poke]]:
        return self.lines.turn(claim, now, address)

    def _change(self, change: Change, now: float, address: Any) -> tuple[Any, list[Poke]]:
        return self.lines.change(change, now)

    def _leave(self, leave: Leave, now: float, address: Any) -> tuple[Any, list[Poke]]:
        there, pokes = self.lines.leave(leave, now)
        if there:
            self.freed.add(leave.id)
        return there, pokes

    def _break_(self, name: str, ticket: int, now: float, address: Any) -> tuple[bool, list[Poke]]:
        return self.lines.break_(name, ticket, now)

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
        world.after(delay(self), lambda: store.poked(cid, fence))


def delay(server: Server) -> float:
    """Return the seconds that a message travels."""
    rng = server.world.rng
    base = 0.0002 + 0.0018 * rng.random()
    if server.net.slow and rng.random() < 0.3:
        return base + server.net.slow * rng.random()
    return base
