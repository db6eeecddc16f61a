"""A history of locks: the plan from a seed, and the run of that plan."""

from __future__ import annotations

import copy
import random
from collections import deque
from functools import partial
from typing import Any

from ...core.hold import HoldBase
from ...core.model import Loss
from ...stores.memory.line import Row
from .faults import extra, plan
from .later import TOO_LATE, CutLines, LaterActor, cuts, later
from .running import Kind, Plan, Running
from .server import Server
from .store import SimStore
from .watch import Watch
from .workload import CAPACITY, Actor, client
from .world import Process

#: The longest ttl of the workload.
TTL_MAX_S = 10.0


def make_plan(seed: int) -> Plan:
    """Return the plan of a seed: 2 to 4 processes, 4 to 7 claimants, 3 to 10 faults.

    Most plans also have pairs of failures, or set the clock of the server."""
    rng = random.Random(seed)
    processes = rng.randint(2, 4)
    actors = tuple(range(rng.randint(4, 7)))
    actions = rng.randint(6, 12)
    horizon = actions * 1.5
    return Plan(seed, processes, actors, actions, (*plan(rng, horizon), *extra(seed, horizon)))


class History(Running):
    """A simulation with a server, processes, claimants and faults."""

    def __init__(self, plan_: Plan, telling: bool = False) -> None:
        super().__init__(plan_, partial(Server, ttl_max=TTL_MAX_S), telling)
        self.watch = Watch(self.world, self.server, dict(CAPACITY), self._spared)
        self.tokens: list[str] = []
        self.detached: set[str] = set()
        rng = random.Random(plan_.seed ^ 0x5EED)
        for number in range(plan_.processes):
            rate = 1.0 + rng.uniform(-0.004, 0.004)
            process = self.world.process(threads=number % 2 == 1, rate=rate)
            self.clients[process.pid] = client(process, SimStore(self.server, process))
        seeds = [rng.getrandbits(32) for _ in range(max(plan_.actors, default=0) + 1)]
        self.actors: list[Actor] = []
        kind = LaterActor if later(plan_.seed) else Actor
        if kind is LaterActor:
            self.server.too_late = TOO_LATE
        if cuts(plan_.seed):
            self.server.lines = CutLines()
        for number in plan_.actors:
            process = self.world.processes[number % plan_.processes]
            self.actors.append(kind(self, process, number, seeds[number]))

    def _spared(self, row: Row) -> bool:
        """Return True if this claim may be left: its process is dead, or its hold was detached."""
        if row.meta in self.detached:
            return True
        pid = int(row.owner.split(":")[1])
        return not self.world.processes[pid - 1].alive

    def fork(self, parent: Process) -> None:
        """Check every hold of the parent as the child of a fork sees it."""
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


def _short(seed: int) -> Plan:
    return make_plan(seed)._replace(processes=2, actors=(0, 1, 2), actions=1, faults=())


LOCKS = Kind("locks", make_plan, History, _short)
