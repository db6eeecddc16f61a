"""One history of guards: a seed, the run of it, the verdict."""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple

from ...core.client import ClientBase
from ...core.guard.guard import GuardBase
from ...core.hold import HoldBase
from ..simulator import unhurried
from ..simulator.fates import pair
from ..simulator.faults import steps
from ..simulator.runtime import SimRuntime
from ..simulator.trouble import Violation
from ..simulator.workload import SimOwner
from ..simulator.world import Cancelled, Process, Task, World
from .server import GuardedStore, GuardServer
from .workload import Caller, Source, guards_of

#: Each fault, and how many of a thousand it is.
FAULTS = {
    "lose_request": 120,
    "lose_reply": 160,
    "reset": 80,
    "slow": 60,
    "lose_poke": 80,
    "cut": 80,
    "server_down": 60,
    "amnesia": 40,
    "pause": 140,
    "kill": 40,
    "interrupt": 140,
    "pair": 240,
    "step": 60,
}
STEPS_MAX = 300_000
#: No call takes longer than this once everything is healed, in seconds of the world.
REST_S = 90.0


class Verdict(NamedTuple):
    """How a history ended."""

    seed: int
    steps: int
    faults: int
    gets: int
    violation: Violation | None
    story: list[str]


class GuardHistory:
    """A world with a server, processes, callers and faults."""

    def __init__(self, seed: int, telling: bool = False, calm: bool = False) -> None:
        self.seed = seed
        self.telling = telling
        self.story: list[str] = []
        self.source = Source()
        self.world = World(seed)
        self.server = GuardServer(self.world, 10.0)
        self.clients: dict[int, ClientBase] = {}
        self.guards: dict[int, dict[str, GuardBase]] = {}
        self.faults = 0
        rng = random.Random(seed ^ 0x6A4D)
        self.actions = rng.randint(6, 12)
        #: In every second one they follow each other within the time that a message takes.
        self.storm = rng.random() < 0.5
        self.pace = rng.choice((0.002, 0.02, 0.1)) if self.storm else 1.0
        if calm:
            self.actions, self.storm, self.pace = 2, False, 0.2
        if self.storm:
            self.actions *= 5
        over = self.actions * self.pace * (2 if self.storm else 1)
        for number in range(2 if calm else rng.randint(2, 4)):
            rate = 1.0 + rng.uniform(-0.004, 0.004)
            process = self.world.process(threads=number % 2 == 1, rate=rate)
            store = GuardedStore(self.server, process)
            client = ClientBase(
                store, SimRuntime(process), HoldBase, "sim://", 5.0, SimOwner(process)
            )
            self.clients[process.pid] = client
            self.guards[process.pid] = guards_of(client)
        self.tasks: list[tuple[Caller, Task]] = []
        for number in range(3 if calm else rng.randint(4, 8)):
            process = self.world.processes[number % len(self.world.processes)]
            caller = Caller(self, process, number, rng.getrandbits(32))
            task = self.world.spawn(process, caller.main(), f"caller {number}")
            self.tasks.append((caller, task))
        many = 0 if calm else rng.choice((0, 3, 6, 10))
        kinds = rng.choices(list(FAULTS), list(FAULTS.values()), k=many)
        for kind in kinds:
            when, length = rng.uniform(0, over), rng.choice((0.2, 1.0, 3.0))
            self.world.at(when, self._fault(kind, rng.getrandbits(16), length))

    def run(self) -> Verdict:
        """Run it to its end, or to the first violation."""
        violation: Violation | None = None
        try:
            self._until(self.actions * 2.0)
            self._heal()
            self._until(self.world.time + REST_S + self.actions * 8.0)
            stuck = [caller.number for caller, task in self.tasks if self._busy(task)]
            if stuck:
                raise Violation("bounded waiting", f"callers {stuck} never came to an end")
        except Violation as found:
            violation = found
        self.world.close()
        shared = {one._shared for some in self.guards.values() for one in some.values()}
        gets = sum(one.counts["hits"] for one in shared)
        steps = self.world.steps
        return Verdict(self.seed, steps, self.faults, gets, violation, self.story)

    def _busy(self, task: Task) -> bool:
        return not task.done.done and task.process.alive

    def _until(self, end: float) -> None:
        world = self.world
        while world.time < end and any(self._busy(task) for _, task in self.tasks):
            if world.steps > STEPS_MAX:
                raise Violation("bounded waiting", f"not over after {STEPS_MAX} steps: a busy loop")
            if not world.step():
                return
            if world.crashes:
                task, failure = world.crashes[0]
                if isinstance(failure, Violation):
                    raise failure
                raise Violation("no crash", f"{task.name} died of {failure!r}") from failure

    def tell(self, caller: Caller | None, text: str) -> None:
        """A line of the story."""
        if self.telling:
            who = f"{caller.process!r}/{caller.number}" if caller is not None else "world"
            self.story.append(f"{self.world.time:10.4f} s  {who:<8} {text}")

    # -- faults --------------------------------------------------------------------------------

    def _fault(self, kind: str, victim: int, length: float):  # type: ignore[no-untyped-def]
        def strike() -> None:
            self.faults += 1
            self.tell(None, f"{kind} for {length:g} s")
            getattr(self, f"_{kind}")(self._some(victim), victim, length)

        return strike

    def _some(self, victim: int) -> Process:
        alive = [one for one in self.world.processes if one.alive]
        return alive[victim % len(alive)]

    def _knob(self, knob: str, value: float, rest: float, length: float) -> None:
        net = self.server.net
        setattr(net, knob, value)
        self.world.after(length, lambda: setattr(net, knob, rest))

    def _lose_request(self, process: Process, victim: int, length: float) -> None:
        self._knob("lose_request", 0.5, 0.0, length)

    def _lose_reply(self, process: Process, victim: int, length: float) -> None:
        self._knob("lose_reply", 0.5, 0.0, length)

    def _reset(self, process: Process, victim: int, length: float) -> None:
        self._knob("reset", 0.5, 0.0, length)

    def _slow(self, process: Process, victim: int, length: float) -> None:
        self._knob("slow", 12.0, 0.0, length)

    def _lose_poke(self, process: Process, victim: int, length: float) -> None:
        self._knob("lose_poke", 1.0, 0.05, length)

    def _cut(self, process: Process, victim: int, length: float) -> None:
        cuts = {(process.pid, way) for way in (("up",), ("down",), ("up", "down"))[victim % 3]}
        self.server.net.cut |= cuts
        self.world.after(length, lambda: self.server.net.cut.difference_update(cuts))

    def _server_down(self, process: Process, victim: int, length: float) -> None:
        self.server.stop()
        self.world.after(length, lambda: self.server.restart(True))

    def _amnesia(self, process: Process, victim: int, length: float) -> None:
        self.server.stop()
        self.world.after(length, lambda: self.server.restart(False))

    def _pause(self, process: Process, victim: int, length: float) -> None:
        process.pause()
        self.world.after(length, process.resume)

    def _kill(self, process: Process, victim: int, length: float) -> None:
        if sum(one.alive for one in self.world.processes) > 1:
            process.kill()

    def _interrupt(self, process: Process, victim: int, length: float) -> None:
        mine = [task for caller, task in self.tasks if caller.process is process]
        if mine:
            failure = KeyboardInterrupt() if process.threads else Cancelled()
            self.world.interrupt(mine[victim // 7 % len(mine)], failure)

    def _pair(self, process: Process, victim: int, length: float) -> None:
        """Two requests of a process fail, one after the other, each in its own way."""
        aims = pair(random.Random(victim), self.server.verbs)
        self.server.fated.setdefault(process.pid, []).extend(aims)

    def _step(self, process: Process, victim: int, length: float) -> None:
        """The clock of the server is set, at once or slowly."""
        for when, delta in steps(victim, length):
            self.world.after(when, partial(self.server.step, delta))

    def _heal(self) -> None:
        self.server.fated.clear()
        net = self.server.net
        net.lose_request = net.lose_reply = net.reset = net.slow = 0.0
        net.cut.clear()
        if not self.server.up:
            self.server.restart(True)


def check(seed: int, telling: bool = False) -> Verdict:
    """Run the history of this seed; its verdict has a violation or None."""
    with unhurried():
        return GuardHistory(seed, telling).run()
