"""A history of queues: the plan from a seed, and the run of that plan."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from ....errors import StoreUnavailable
from ..faults import KINDS, Fault, extra, plan
from ..running import Kind, Plan, Running
from ..workload import client
from .server import QueuedStore, QueueServer
from .watch import QueueWatch
from .workload import QueueActor, options_of

#: The longest ttl of the workload.
TTL_MAX_S = 6.0
#: Faults of locks that queues don't get. A queue must keep accepted jobs, so the server never loses
#: its data (``amnesia``).
_NOT_HERE = ("amnesia", "fork", "clock", "aim_join", "aim_leave", "aim_renew", "aim_turn")
QUEUE_KINDS = (*(kind for kind in KINDS if kind not in _NOT_HERE), "pair", "pair", "pair", "pair")


def make_plan(seed: int) -> Plan:
    """Return the plan of a seed: 2 to 4 processes, 3 to 6 actors, 1 to 10 faults and ``extra``."""
    rng = random.Random(seed ^ 0x0E0E)
    processes = rng.randint(2, 4)
    actors = tuple(range(rng.randint(3, 6)))
    actions = rng.randint(4, 9)
    horizon = actions * 2.0
    faults: list[Fault] = plan(rng, horizon, QUEUE_KINDS, least=1)
    return Plan(seed, processes, actors, actions, (*faults, *extra(seed, horizon)))


class QueueHistory(Running):
    """A simulation with a server, processes that put and take, and faults."""

    def __init__(self, plan_: Plan, telling: bool = False) -> None:
        super().__init__(plan_, partial(QueueServer, ttl_max=TTL_MAX_S), telling)
        rng = random.Random(plan_.seed ^ 0x70B5)
        self.options = options_of(rng)
        self.watch = QueueWatch(self.world, self.server, self.options)
        for number in range(plan_.processes):
            rate = 1.0 + rng.uniform(-0.004, 0.004)
            process = self.world.process(threads=number % 2 == 1, rate=rate)
            store: Any = QueuedStore(self.server, process, onward=rng.random() < 0.5)
            self.clients[process.pid] = client(process, store)
        seeds = [rng.getrandbits(32) for _ in range(max(plan_.actors, default=0) + 1)]
        self.actors: list[QueueActor] = []
        for number in plan_.actors:
            process = self.world.processes[number % plan_.processes]
            self.actors.append(QueueActor(self, process, number, seeds[number]))

    def rest(self) -> None:
        """After all actors and faults have ended, let one more actor take and ack all jobs."""
        super().rest()
        survivor = next(one for one in self.world.processes if one.alive)
        last = QueueActor(self, survivor, -1, self.plan.seed)
        self.actors.append(last)
        task = self.world.spawn(survivor, last.drain(), "the last one")
        end = self.world.time + 400.0

        def over() -> bool:
            if self.world.time > end:
                self.fail("bounded waiting", "what is left in the queue can't be taken")
            return task.done.done

        self._until(over)
        if isinstance(task.done.failure, StoreUnavailable):
            self.fail("bounded waiting", f"the last one can't work: {task.done.failure}")


def _short(seed: int) -> Plan:
    return make_plan(seed)._replace(processes=2, actors=(0, 1, 2), actions=3, faults=())


QUEUES = Kind("queues", make_plan, QueueHistory, _short)
