"""The faults of a history. The seed plans each of them, so a shrinker can leave out any fault."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .fates import pair
from .world import Cancelled, Process

if TYPE_CHECKING:
    from .history import History


class Fault(NamedTuple):
    """One fault: its kind, begin and length in virtual seconds, and a number for the victim."""

    kind: str
    at: float
    length: float
    victim: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:.2f} s for {self.length:.2f} s (victim {self.victim})"


#: Seconds after a fault in which a client can still wait for the reply to a lost request.
GIVE_UP_S = 3.5

KINDS = (
    "lose_request", "lose_reply", "lossy", "lossy", "reset", "slow", "lose_poke",
    "cut", "cut_up", "cut_down",
    "server_down", "amnesia", "pause", "pause", "pause", "kill",
    "cancel", "cancel", "cancel", "cancel", "interrupt", "interrupt", "interrupt", "fork", "clock",
    "aim_renew", "aim_turn", "aim_join", "aim_join", "aim_leave", "fade", "fade",
)  # fmt: skip
#: Seconds by which a server's clock is set, forward or back; one of them is drawn.
STEPS_S = (1.0, 3600.0, 315_360_000.0)
#: Number of parts in which a clock is set slowly.
PARTS = 10


def plan(
    rng: random.Random, horizon: float, kinds: tuple[str, ...] = KINDS, least: int = 3
) -> list[Fault]:
    """Draw ``least`` to ten faults that begin within ``horizon`` virtual seconds."""
    return [
        Fault(
            rng.choice(kinds),
            rng.uniform(0.05, horizon),
            rng.choice((0.05, 0.5, 2.0, 4.0, 12.0)) * rng.random() + 0.01,
            rng.randrange(1 << 16),
        )
        for _ in range(rng.randint(least, 10))
    ]


def extra(seed: int, horizon: float) -> list[Fault]:
    """Draw pairs of failures for two of three histories, and clock changes for one of three.

    A separate generator draws these faults, so that the other faults of a seed don't change."""
    rng = random.Random(seed ^ 0xFA7E)
    kinds = ["pair"] * rng.choice((0, 1, 3)) + ["step"] * rng.choice((0, 0, rng.randint(1, 3)))
    return [
        Fault(kind, rng.uniform(0.0, horizon), 4.0 * rng.random() + 0.01, rng.randrange(1 << 16))
        for kind in kinds
    ]


def steps(victim: int, length: float) -> Iterator[tuple[float, float]]:
    """Yield the time and the size of each step of a clock: one step, or parts within ``length``."""
    rng = random.Random(victim)
    delta = rng.choice(STEPS_S) * rng.choice((1, -1))
    parts = 1 if victim % 2 else PARTS
    for part in range(parts):
        yield length * part / PARTS, delta / parts


class Faults:
    """Carries out the planned faults of a history."""

    def __init__(self, history: Any) -> None:
        self.history: History = history
        self.done = 0

    def arm(self, faults: list[Fault]) -> None:
        """Schedule each fault at its time."""
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

    def _trouble(self, length: float, process: Process | None = None) -> None:
        """Record that renewals of this process (None: of all) may fail for ``length`` seconds."""
        now = self.history.world.time
        pid = None if process is None else process.pid
        self.history.watch.trouble.append((now, now + length, pid))

    def _knob(self, knob: str, value: float, rest: float, length: float) -> None:
        net = self.history.server.net
        setattr(net, knob, value)
        self._trouble(length + GIVE_UP_S)
        self.history.world.after(length, lambda: setattr(net, knob, rest))

    def lose_request(self, fault: Fault) -> None:
        """Lose half of the requests, at random."""
        self._knob("lose_request", 0.5, 0.0, fault.length)

    def lose_reply(self, fault: Fault) -> None:
        """Lose half of the replies, at random; the requests are carried out."""
        self._knob("lose_reply", 0.5, 0.0, fault.length)

    def lossy(self, fault: Fault) -> None:
        """Lose half of the requests and half of the replies, at random."""
        self._knob("lose_request", 0.5, 0.0, fault.length)
        self._knob("lose_reply", 0.5, 0.0, fault.length)

    def reset(self, fault: Fault) -> None:
        """Break the connection between a request and its reply, in half of the requests."""
        self._knob("reset", 0.5, 0.0, fault.length)

    def slow(self, fault: Fault) -> None:
        """Delay messages by up to twelve seconds, which is longer than any client waits."""
        self._knob("slow", 12.0, 0.0, fault.length)

    def lose_poke(self, fault: Fault) -> None:
        """Lose all wake-ups; clients must work without them."""
        net = self.history.server.net
        net.lose_poke = 1.0
        self.history.world.after(fault.length, lambda: setattr(net, "lose_poke", 0.05))

    def cut(self, fault: Fault) -> None:
        """Lose all messages between a process and the server."""
        self._cut(fault, ("up", "down"))

    def cut_up(self, fault: Fault) -> None:
        """Lose all messages from a process to the server."""
        self._cut(fault, ("up",))

    def cut_down(self, fault: Fault) -> None:
        """Lose all messages from the server to a process."""
        self._cut(fault, ("down",))

    def _cut(self, fault: Fault, ways: tuple[str, ...], process: Process | None = None) -> None:
        history = self.history
        process = process or history.some_process(fault.victim)
        cuts = {(process.pid, way) for way in ways}
        history.server.net.cut |= cuts
        self._trouble(fault.length + GIVE_UP_S, process)
        history.world.after(fault.length, lambda: history.server.net.cut.difference_update(cuts))

    def server_down(self, fault: Fault) -> None:
        """Stop the server for a while, and restart it with its data."""
        server = self.history.server
        server.stop()
        self._trouble(fault.length + GIVE_UP_S)
        self.history.world.after(fault.length, lambda: server.restart(True))

    def amnesia(self, fault: Fault) -> None:
        """Stop the server for a while, and restart it without its data."""
        history, server = self.history, self.history.server
        server.stop()
        self._trouble(fault.length + GIVE_UP_S)

        def back() -> None:
            server.restart(False)
            history.watch.lost_data()

        history.world.after(fault.length, back)

    def pause(self, fault: Fault, process: Process | None = None) -> None:
        """Stop a process as SIGSTOP does, preferably a holder; its clock continues."""
        history = self.history
        process = process or history.some_process(fault.victim)
        process.pause()
        self._trouble(fault.length + GIVE_UP_S, process)

        def back() -> None:
            process.stopped_for += fault.length
            process.resume()

        history.world.after(fault.length, back)

    def kill(self, fault: Fault) -> None:
        """Kill a process as SIGKILL does, unless it is the last one."""
        history = self.history
        if sum(p.alive for p in history.world.processes) > 1:
            history.some_process(fault.victim).kill()

    def cancel(self, fault: Fault) -> None:
        """Cancel a task of asyncio at the point where it waits."""
        actors = [a for a in self.history.actors if not a.process.threads]
        if actors:
            task = self.history.tasks[actors[fault.victim % len(actors)].number]
            self.history.world.interrupt(task, Cancelled())

    def interrupt(self, fault: Fault) -> None:
        """Interrupt a thread by Ctrl-C at the point where it waits, sometimes twice."""
        actors = [a for a in self.history.actors if a.process.threads]
        if actors:
            world = self.history.world
            task = self.history.tasks[actors[fault.victim % len(actors)].number]
            world.interrupt(task, KeyboardInterrupt())
            if fault.victim % 3 == 0:
                world.after(0.001, lambda: world.interrupt(task, KeyboardInterrupt()))

    def aim_join(self, fault: Fault) -> None:
        """Inject a fault while the next join of a process is between request and reply."""
        self._aim(fault, "join")

    def aim_renew(self, fault: Fault) -> None:
        """Inject a fault while the next renewal of a process is between request and reply."""
        self._aim(fault, "renew")

    def aim_turn(self, fault: Fault) -> None:
        """Inject a fault while the next request of a waiter is between request and reply."""
        self._aim(fault, "turn")

    def aim_leave(self, fault: Fault) -> None:
        """Inject a fault while the next leave of a process is between request and reply."""
        self._aim(fault, "leave")

    def _aim(self, fault: Fault, verb: str) -> None:
        """During the next request of ``verb``: stop the process, lose the reply, or cancel
        (interrupt) one of its claimants."""
        history = self.history
        process = history.some_process(fault.victim)
        mine = [a for a in history.actors if a.process is process]
        holding = [a for a in mine if a.holding] or mine

        def hit() -> None:
            if history.healed or not process.alive:
                return
            if fault.victim % 5 < 2 or not holding:
                self.pause(fault, process)
                return
            if fault.victim % 5 == 2:
                self._cut(fault._replace(length=0.01), ("down",), process)  # the reply is lost
                return
            actor = holding[fault.victim // 7 % len(holding)]
            failure = KeyboardInterrupt() if process.threads else Cancelled()
            history.world.interrupt(history.tasks[actor.number], failure)

        history.server.aims[process.pid] = (verb, hit)

    def fade(self, fault: Fault) -> None:
        """Delay messages; then cut off a process for longer than any lease."""
        self._knob("slow", 3.0, 0.0, 4.0)
        self.history.world.after(
            3.5, lambda: self._cut(fault._replace(length=14.0), ("up", "down"))
        )

    def pair(self, fault: Fault) -> None:
        """Let two requests of a process fail, one after the other, each in a different way."""
        history = self.history
        process = history.some_process(fault.victim)
        aims = pair(random.Random(fault.victim), history.server.verbs)
        history.server.fated.setdefault(process.pid, []).extend(aims)

    def step(self, fault: Fault) -> None:
        """Set the server's clock by a second, an hour or ten years, in one step or in parts."""
        for when, delta in steps(fault.victim, fault.length):
            self.history.world.after(when, partial(self._set, delta))

    def _set(self, delta: float) -> None:
        history = self.history
        if history.healed:
            return
        history.tell(None, f"the clock of the server is set by {delta:g} s")
        history.server.step(delta)
        history.watch.clock_was_set(delta)

    def clock(self, fault: Fault) -> None:
        """Let the wall clock of a process jump by up to an hour; no code may depend on it."""
        process = self.history.some_process(fault.victim)
        process.wall_jump += (fault.victim % 7200) - 3600

    def fork(self, fault: Fault) -> None:
        """Fork a process: in the child the parent's holds must be lost, and not be released."""
        self.history.fork(self.history.some_process(fault.victim))
