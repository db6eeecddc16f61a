"""One history: a plan from a seed, the run of it, the verdict."""

from __future__ import annotations

import copy
import random
from collections import deque
from typing import Any, NamedTuple

from ...core.hold import HoldBase
from ...core.model import Loss
from ...stores.memory.line import Row
from .faults import Fault, Faults, plan
from .server import Server, SimStore
from .watch import Violation, Watch
from .workload import CAPACITY, Actor, client
from .world import Process, Task, World

#: The longest ttl of the workload.
TTL_MAX_S = 10.0
#: After the last action everything is healed and given this long to come to rest.
REST_S = 25.0
STEPS_MAX = 200_000


class Plan(NamedTuple):
    """What a seed stands for. A shrinker takes things out of it."""

    seed: int
    processes: int
    actors: tuple[int, ...]
    actions: int
    faults: tuple[Fault, ...]


class Verdict(NamedTuple):
    """How a history ended."""

    plan: Plan
    steps: int
    faults: int
    violation: Violation | None
    story: list[str]


def make_plan(seed: int) -> Plan:
    """The plan of a seed: 2 to 4 processes, 4 to 7 claimants, 3 to 10 faults."""
    rng = random.Random(seed)
    processes = rng.randint(2, 4)
    actors = tuple(range(rng.randint(4, 7)))
    actions = rng.randint(6, 12)
    return Plan(seed, processes, actors, actions, tuple(plan(rng, actions * 1.5)))


class History:
    """A world with a server, processes, claimants and faults."""

    def __init__(self, plan_: Plan, telling: bool = False) -> None:
        self.plan = plan_
        self.telling = telling
        self.story: list[str] = []
        self.world = World(plan_.seed)
        self.server = Server(self.world, TTL_MAX_S)
        self.watch = Watch(self.world, self.server, dict(CAPACITY))
        self.clients: dict[int, Any] = {}
        self.tokens: list[str] = []
        self.detached: set[str] = set()
        self.healed = False
        rng = random.Random(plan_.seed ^ 0x5EED)
        for number in range(plan_.processes):
            rate = 1.0 + rng.uniform(-0.004, 0.004)
            process = self.world.process(threads=number % 2 == 1, rate=rate)
            self.clients[process.pid] = client(process, SimStore(self.server, process))
        self.actors: list[Actor] = []
        self.tasks: dict[int, Task] = {}
        seeds = [rng.getrandbits(32) for _ in range(max(plan_.actors, default=0) + 1)]
        for number in plan_.actors:
            process = self.world.processes[number % plan_.processes]
            self.actors.append(Actor(self, process, number, seeds[number]))

    # -- running -----------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Run it to its end, or to the first violation."""
        faults = Faults(self)
        violation: Violation | None = None
        try:
            for actor in self.actors:
                task = self.world.spawn(actor.process, actor.main(), f"actor {actor.number}")
                self.tasks[actor.number] = task
            faults.arm(list(self.plan.faults))
            self._until(self._idle)
            self._heal()
            end = self.world.time + REST_S
            self._until(lambda: self.world.time >= end)
            self.watch.at_the_end(self._spared)
        except Violation as found:
            violation = found
        self._close()
        return Verdict(self.plan, self.world.steps, faults.done, violation, self.story)

    def _until(self, over: Any) -> None:
        world = self.world
        while not over():
            if world.steps > STEPS_MAX:
                raise Violation("bounded waiting", f"not over after {STEPS_MAX} steps: a busy loop")
            if not world.step():
                break
            if self.watch.found is not None:
                raise self.watch.found
            if world.crashes:
                task, failure = world.crashes[0]
                if isinstance(failure, Violation):
                    raise failure
                raise Violation("no crash", f"{task.name} died of {failure!r}") from failure

    def _idle(self) -> bool:
        if self.world.time > self.plan.actions * 60.0 + 600.0:
            waiting = [n for n, t in self.tasks.items() if not t.done.done and t.process.alive]
            raise Violation("bounded waiting", f"claimants {waiting} never came to an end")
        return all(t.done.done or not t.process.alive for t in self.tasks.values())

    def _heal(self) -> None:
        self.healed = True
        net = self.server.net
        net.lose_request = net.lose_reply = net.reset = net.slow = 0.0
        net.cut.clear()
        if not self.server.up:
            self.server.restart(True)

    def _spared(self, row: Row) -> bool:
        """A row that may be left: of a dead process, or of a hold that was detached."""
        if row.meta in self.detached:
            return True
        pid = int(row.owner.split(":")[1])
        return not self.world.processes[pid - 1].alive

    def _close(self) -> None:
        self.watch.over = True
        for task in self.tasks.values():
            if not task.done.done:
                task.coro.close()

    # -- what actors and faults use ----------------------------------------------------------

    def tell(self, actor: Actor | None, text: str) -> None:
        """A line of the story."""
        if self.telling:
            who = f"{actor.process!r}/{actor.number}" if actor is not None else "world"
            self.story.append(f"{self.world.time:10.4f} s  {who:<8} {text}")

    def fail(self, invariant: str, text: str) -> None:
        """A violation that only the workload could see."""
        raise Violation(invariant, text)

    def some_process(self, number: int) -> Process:
        """A living process, one that holds something if there is any and the number is even."""
        alive = [p for p in self.world.processes if p.alive]
        if number % 2 == 0:
            holding = {a.process.pid for a in self.actors if a.holding}
            alive = [p for p in alive if p.pid in holding] or alive
        return alive[number // 2 % len(alive)]

    def fork(self, parent: Process) -> None:
        """Look through a child's eyes at everything that the parent holds."""
        ctx = self.clients[parent.pid]._ctx
        for actor in self.actors:
            if actor.process is not parent:
                continue
            for grant in list(actor.holding):
                child_ctx = copy.copy(ctx)
                child_ctx.epoch = ctx.epoch + 1
                child_ctx.orphans = deque()
                child = HoldBase(child_ctx, copy.copy(grant.lease))
                child._epoch = grant.hold._epoch
                if grant.lease.end is None and child.lost is None:
                    self.fail("ownership", f"a forked child believes that it holds {grant}")
                if grant.lease.end is None and child.lost not in (Loss.FORKED, grant.lease.reason):
                    self.fail("ownership", f"a forked child thinks {child.lost} of {grant}")
                self.world.spawn(parent, _child_release(child), "forked child").quiet = True


async def _child_release(child: Any) -> None:
    await child._release()
