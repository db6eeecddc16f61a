"""What goes wrong: each fault is planned from the seed, so that one of them can be left out."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from .world import Cancelled

if TYPE_CHECKING:
    from .history import History


class Fault(NamedTuple):
    """One fault: what, when, for how long, and a number to choose the victim with."""

    kind: str
    at: float
    length: float
    victim: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:.2f} s for {self.length:.2f} s (victim {self.victim})"


KINDS = (
    "lose_request", "lose_reply", "reset", "slow", "lose_poke", "cut", "cut_up", "cut_down",
    "server_down", "amnesia", "pause", "pause", "pause", "kill",
    "cancel", "cancel", "cancel", "cancel", "interrupt", "interrupt", "interrupt", "fork",
)  # fmt: skip


def plan(rng: random.Random, horizon: float) -> list[Fault]:
    """Three to ten faults within the time."""
    return [
        Fault(
            rng.choice(KINDS),
            rng.uniform(0.05, horizon),
            rng.choice((0.05, 0.5, 2.0, 4.0, 12.0)) * rng.random() + 0.01,
            rng.randrange(1 << 16),
        )
        for _ in range(rng.randint(3, 10))
    ]


class Faults:
    """Carries out the planned faults of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.done = 0

    def arm(self, faults: list[Fault]) -> None:
        """Have each happen at its time."""
        for fault in faults:
            self.history.world.at(fault.at, lambda f=fault: self._begin(f))  # type: ignore[misc]

    def _begin(self, fault: Fault) -> None:
        history = self.history
        if history.healed:
            return
        self.done += 1
        history.tell(None, f"FAULT {fault}")
        act = getattr(self, fault.kind)
        act(fault)

    def _trouble(self, length: float) -> None:
        now = self.history.world.time
        self.history.watch.trouble.append((now, now + length))

    def _knob(self, knob: str, value: float, rest: float, length: float) -> None:
        net = self.history.server.net
        setattr(net, knob, value)
        self._trouble(length + 6.0)  # a request that was lost is given up up to 5 s later
        self.history.world.after(length, lambda: setattr(net, knob, rest))

    def lose_request(self, fault: Fault) -> None:
        """Requests vanish, one in two."""
        self._knob("lose_request", 0.5, 0.0, fault.length)

    def lose_reply(self, fault: Fault) -> None:
        """Requests are carried out, their replies vanish, one in two."""
        self._knob("lose_reply", 0.5, 0.0, fault.length)

    def reset(self, fault: Fault) -> None:
        """Connections break between the request and its reply."""
        self._knob("reset", 0.5, 0.0, fault.length)

    def slow(self, fault: Fault) -> None:
        """Messages take up to seven seconds: longer than anybody waits for them."""
        self._knob("slow", 7.0, 0.0, fault.length)

    def lose_poke(self, fault: Fault) -> None:
        """No poke arrives. Nobody may depend on one."""
        net = self.history.server.net
        net.lose_poke = 1.0
        self.history.world.after(fault.length, lambda: setattr(net, "lose_poke", 0.05))

    def cut(self, fault: Fault) -> None:
        """A process and the server don't reach each other."""
        self._cut(fault, ("up", "down"))

    def cut_up(self, fault: Fault) -> None:
        """What a process sends doesn't arrive."""
        self._cut(fault, ("up",))

    def cut_down(self, fault: Fault) -> None:
        """What the server sends to a process doesn't arrive."""
        self._cut(fault, ("down",))

    def _cut(self, fault: Fault, ways: tuple[str, ...]) -> None:
        history = self.history
        process = history.some_process(fault.victim)
        cuts = {(process.pid, way) for way in ways}
        history.server.net.cut |= cuts
        self._trouble(fault.length + 6.0)
        history.world.after(fault.length, lambda: history.server.net.cut.difference_update(cuts))

    def server_down(self, fault: Fault) -> None:
        """The server is away for a while and comes back with its data."""
        server = self.history.server
        server.stop()
        self._trouble(fault.length + 6.0)
        self.history.world.after(fault.length, lambda: server.restart(True))

    def amnesia(self, fault: Fault) -> None:
        """The server comes back without its data."""
        history, server = self.history, self.history.server
        server.stop()
        self._trouble(fault.length + 6.0)

        def back() -> None:
            server.restart(False)
            history.watch.data_lost = history.world.time

        history.world.after(fault.length, back)

    def pause(self, fault: Fault) -> None:
        """SIGSTOP, preferably of one who holds; its clock goes on."""
        history = self.history
        process = history.some_process(fault.victim)
        process.pause()
        self._trouble(fault.length + 6.0)

        def back() -> None:
            process.stopped_for += fault.length
            process.resume()

        history.world.after(fault.length, back)

    def kill(self, fault: Fault) -> None:
        """SIGKILL; never of the last process."""
        history = self.history
        if sum(p.alive for p in history.world.processes) > 1:
            history.some_process(fault.victim).kill()

    def cancel(self, fault: Fault) -> None:
        """Cancel a task of asyncio at whatever it waits for."""
        actors = [a for a in self.history.actors if not a.process.threads]
        if actors:
            task = self.history.tasks[actors[fault.victim % len(actors)].number]
            self.history.world.interrupt(task, Cancelled())

    def interrupt(self, fault: Fault) -> None:
        """Ctrl-C in a thread at whatever it waits for; at times a second one soon after."""
        actors = [a for a in self.history.actors if a.process.threads]
        if actors:
            world = self.history.world
            task = self.history.tasks[actors[fault.victim % len(actors)].number]
            world.interrupt(task, KeyboardInterrupt())
            if fault.victim % 3 == 0:
                world.after(0.001, lambda: world.interrupt(task, KeyboardInterrupt()))

    def fork(self, fault: Fault) -> None:
        """A process forks: the child may not believe in, nor free, what its parent holds."""
        self.history.fork(self.history.some_process(fault.victim))
