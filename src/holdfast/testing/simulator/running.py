"""The common part of histories: a simulation with a server, processes and tasks."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from .fates import Aim
from .faults import Fault, Faults
from .server import Server
from .trouble import Violation
from .world import Process, Task, World

#: Virtual seconds for which a history continues without faults after its last action.
REST_S = 25.0
STEPS_MAX = 300_000


class Plan(NamedTuple):
    """The plan of a history, made from a seed. A shrinker removes parts of the plan."""

    seed: int
    processes: int
    actors: tuple[int, ...]
    actions: int
    faults: tuple[Fault, ...]
    #: True for a history of guards without a storm, and without faults drawn from the seed.
    calm: bool = False


class Verdict(NamedTuple):
    """The result of a history."""

    plan: Plan
    steps: int
    faults: int
    violation: Violation | None
    story: list[str]


class Running:
    """The base of histories of locks, queues and guards."""

    #: The judge of the history: it has ``trouble``, ``found``, ``over`` and ``at_the_end``.
    watch: Any
    #: Claimants or workers: each has a process, a number, the list ``holding``, and ``main``.
    actors: Any
    #: Carries out the faults of the plan.
    faults: type[Faults] = Faults

    def __init__(self, plan: Plan, server: Callable[[World], Server], telling: bool) -> None:
        self.plan = plan
        self.telling = telling
        self.story: list[str] = []
        self.world = World(plan.seed)
        self.server: Any = server(self.world)
        self.server.struck = self._struck
        self.clients: dict[int, Any] = {}
        self.tasks: dict[int, Task] = {}
        self.healed = False

    # -- running -----------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Run the history to its end, or to the first violation."""
        faults = self.faults(self)
        violation: Violation | None = None
        try:
            for actor in self.actors:
                task = self.world.spawn(actor.process, actor.main(), f"actor {actor.number}")
                self.tasks[actor.number] = task
            faults.arm(list(self.plan.faults))
            self._until(self.idle)
            self._heal()
            self.rest()
            self.watch.at_the_end()
        except Violation as found:
            violation = found
        self._close()
        return Verdict(self.plan, self.world.steps, faults.done, violation, self.story)

    def rest(self) -> None:
        """Let time pass after the last action, so that background work finishes."""
        end = self.world.time + REST_S
        self._until(lambda: self.world.time >= end)

    def _until(self, over: Callable[[], bool]) -> None:
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

    def idle(self) -> bool:
        """Return True if every actor has ended; raise a violation if that takes too long."""
        if self.world.time > self.plan.actions * 60.0 + 600.0:
            raise Violation("bounded waiting", f"claimants {self.busy()} never came to an end")
        return self.ended()

    def ended(self) -> bool:
        """Return True if every actor of a living process has ended."""
        return all(task.done.done or not task.process.alive for task in self.tasks.values())

    def busy(self) -> list[int]:
        """Return the numbers of the actors that live and have not ended."""
        return [n for n, t in self.tasks.items() if not t.done.done and t.process.alive]

    def _heal(self) -> None:
        self.healed = True
        net = self.server.net
        net.lose_request = net.lose_reply = net.reset = net.slow = 0.0
        net.cut.clear()
        self.server.fated.clear()
        if not self.server.up:
            self.server.restart(True)

    def _close(self) -> None:
        self.watch.over = True
        self.world.close()

    # -- what actors and faults use ----------------------------------------------------------

    def tell(self, actor: Any, text: str) -> None:
        """Add a line to the story; ``actor`` None: the line is about the whole simulation."""
        if self.telling:
            who = f"{actor.process!r}/{actor.number}" if actor is not None else "world"
            self.story.append(f"{self.world.time:10.4f} s  {who:<8} {text}")

    def fail(self, invariant: str, text: str) -> None:
        """Raise a violation that the workload has found."""
        raise Violation(invariant, text)

    def _struck(self, process: Process, aim: Aim) -> None:
        """Record that the fate of this aim affects a request of this process."""
        verb = self.server.sent[process.pid][-1]
        self.tell(None, f"FATE {aim.fate} of {verb} of {process!r}")
        self.watch.troubled_by_fate(process, aim.fate, verb)

    def some_process(self, number: int) -> Process:
        """Return a living process, chosen by ``number``.

        An even number chooses among the processes that hold something, if there are any.
        """
        alive = [p for p in self.world.processes if p.alive]
        if number % 2 == 0:
            holding = {a.process.pid for a in self.actors if a.holding}
            alive = [p for p in alive if p.pid in holding] or alive
        return alive[number // 2 % len(alive)]


class Kind(NamedTuple):
    """One kind of histories.

    ``make_plan`` makes the plan of a seed, ``history`` runs a plan, and ``short`` makes the plan of
    a short history without faults.
    """

    name: str
    make_plan: Callable[[int], Plan]
    history: Callable[[Plan, bool], Running]
    short: Callable[[int], Plan]

    def check(self, seed: int, telling: bool = False) -> Verdict:
        """Run the history of this seed; its verdict has a violation or None."""
        return self.run(self.make_plan(seed), telling)

    def run(self, plan: Plan, telling: bool = False) -> Verdict:
        """Run a plan, for instance a shrunk one."""
        with unhurried():
            return self.history(plan, telling).run()


def quiet() -> None:
    """Silence log lines and warnings, because the histories lose locks on purpose."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")


@contextlib.contextmanager
def unhurried() -> Generator[None]:
    """Switch off the garbage collection in this block; every hundredth call collects first.

    A collected hold affects a history, and the moment of a collection depends on earlier code."""
    global _runs
    _runs += 1
    if _runs % 100 == 0:
        gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_runs = 0
