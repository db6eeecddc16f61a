"""A history of guards: the plan from a seed, and the run of that plan."""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple

from ....core.guard.guard import GuardBase
from ..faults import Fault, Faults
from ..running import Kind, Plan, Running
from ..trouble import Trouble, Violation
from ..workload import client
from ..world import Cancelled, Process
from .server import GuardedStore, GuardServer
from .workload import Caller, Source, guards_of

#: Each fault, with the relative frequency with which it is drawn.
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
#: After the faults, all calls must end within this number of virtual seconds, plus some seconds for
#: each planned action.
REST_S = 90.0


class Drawn(NamedTuple):
    """The values that a seed draws: its plan, and values that are not in the plan.

    ``storm``: the actions follow each other quickly. ``pace``: maximum seconds between two actions.
    """

    plan: Plan
    storm: bool
    pace: float
    #: The rate of the clock of each process.
    rates: list[float]
    #: The seed of each caller.
    seeds: list[int]


def draw(seed: int, calm: bool = False) -> Drawn:
    """Draw 2 to 4 processes, 4 to 8 callers, up to 10 faults, and for half of all seeds a storm.

    ``calm``: 2 processes, 3 callers, few actions, and no fault."""
    rng = random.Random(seed ^ 0x6A4D)
    actions = rng.randint(6, 12)
    storm = rng.random() < 0.5
    pace = rng.choice((0.002, 0.02, 0.1)) if storm else 1.0
    if calm:
        actions, storm, pace = 2, False, 0.2
    if storm:
        actions *= 5
    over = actions * pace * (2 if storm else 1)
    processes = 2 if calm else rng.randint(2, 4)
    rates = [1.0 + rng.uniform(-0.004, 0.004) for _ in range(processes)]
    seeds = [rng.getrandbits(32) for _ in range(3 if calm else rng.randint(4, 8))]
    many = 0 if calm else rng.choice((0, 3, 6, 10))
    kinds = rng.choices(list(FAULTS), list(FAULTS.values()), k=many)
    faults = [
        Fault(kind, rng.uniform(0, over), rng.choice((0.2, 1.0, 3.0)), rng.getrandbits(16))
        for kind in kinds
    ]
    plan = Plan(seed, processes, tuple(range(len(seeds))), actions, tuple(faults), calm)
    return Drawn(plan, storm, pace, rates, seeds)


def make_plan(seed: int, calm: bool = False) -> Plan:
    """Return the plan of a seed."""
    return draw(seed, calm).plan


class GuardFaults(Faults):
    """The faults of locks; ``cut`` and ``interrupt`` are different for guards."""

    def cut(self, fault: Fault) -> None:
        """Lose all messages from a process, to a process, or in both directions."""
        self._cut(fault, (("up",), ("down",), ("up", "down"))[fault.victim % 3])

    def interrupt(self, fault: Fault) -> None:
        """Cancel a caller, or interrupt it by Ctrl-C, at the point where it waits."""
        history = self.history
        process = history.some_process(fault.victim)
        mine = [one.number for one in history.actors if one.process is process]
        if mine:
            failure = KeyboardInterrupt() if process.threads else Cancelled()
            history.world.interrupt(history.tasks[mine[fault.victim // 7 % len(mine)]], failure)


class GuardHistory(Running):
    """A simulation with a server, processes, callers and faults."""

    faults = GuardFaults

    def __init__(self, plan_: Plan, telling: bool = False) -> None:
        super().__init__(plan_, partial(GuardServer, ttl_max=10.0), telling)
        drawn = draw(plan_.seed, plan_.calm)
        self.storm, self.pace = drawn.storm, drawn.pace
        self.watch = Trouble(self.world)
        self.source = Source()
        self.guards: dict[int, dict[str, GuardBase]] = {}
        for number, rate in enumerate(drawn.rates):
            process = self.world.process(threads=number % 2 == 1, rate=rate)
            its = self.clients[process.pid] = client(process, GuardedStore(self.server, process))
            self.guards[process.pid] = guards_of(its)
        self.actors: list[Caller] = []
        for number in plan_.actors:
            process = self.world.processes[number % plan_.processes]
            self.actors.append(Caller(self, process, number, drawn.seeds[number]))

    def idle(self) -> bool:
        """Return True if all callers have ended, or their time has passed; then the faults end."""
        return self.world.time >= self.plan.actions * 2.0 or self.ended()

    def rest(self) -> None:
        """Wait until all calls have ended; a call that doesn't end is a violation."""
        end = self.world.time + REST_S + self.plan.actions * 8.0
        self._until(lambda: self.world.time >= end or self.ended())
        if stuck := self.busy():
            raise Violation("bounded waiting", f"callers {stuck} never came to an end")

    def some_process(self, number: int) -> Process:
        """Return a living process, chosen by ``number``."""
        alive = [one for one in self.world.processes if one.alive]
        return alive[number % len(alive)]


GUARDS = Kind("guards", make_plan, GuardHistory, partial(make_plan, calm=True))
