"""Troubles of a run on real servers: clock steps, damaged state, too few connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from holdfast import Client, HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.testing.faults.damage import KINDS, Ground
from holdfast.testing.torture import Scene
from tests.servers.clock import HOUR_S, SECOND_S, Clock

#: Seconds that a slow step takes.
SLOW_S = 1.5
#: Seconds for which there are few connections.
FEW_S = 1.0
#: Seconds until a user repairs a damaged name, if no store can detect the damage.
HELP_S = 5.0


class Clocks:
    """Step the wall clock of the servers, by a second or an hour, back and forth.

    The clock stays within an hour, because a store can forget an idle name's last ticket after a
    longer time. A step forward ends leases early, and their holders can't notice it. The docs of
    each store describe this, so it counts as damage.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The slow step in progress: its start, the clock before it, its size, and the scene.
        self._slow: tuple[float, float, float, Scene] | None = None

    def strike(self, scene: Scene) -> str:
        """Step the clock once, by an hour or by a second."""
        self.calm(float("inf"))
        ahead = self._clock.ahead
        step = scene.dice.choice((SECOND_S, HOUR_S)) * (1 if ahead < HOUR_S / 2 else -1)
        _damaged(scene, step, None)
        before = boottime()
        if scene.dice.random() < 0.5:
            self._clock.step(step)
            _damaged(scene, step, before)
            return "clock forward" if step > 0 else "clock back"
        self._slow = time.monotonic(), ahead, step, scene
        return "clock slowly forward" if step > 0 else "clock slowly back"

    def calm(self, now: float) -> None:
        """Continue a slow step."""
        if self._slow is not None:
            since, ahead, step, scene = self._slow
            part, before = min(1.0, (now - since) / SLOW_S), boottime()
            self._clock.set(ahead + step * part)
            _damaged(scene, step, before)  # also the clients that came since its last part
            if part == 1.0:
                self._slow = None


def _damaged(scene: Scene, step: float, since: float | None) -> None:
    """Report all names as damaged to the run, if the step was forward."""
    for name in scene.names if step > 0 else ():
        scene.damaged(name, since)


class Damage:
    """Damage one item of the state that a store keeps for one name.

    No store can detect a flipped bit in a lease. After a while the test acts like a user: it breaks
    the holds of this name, and removes items of another type, as the errors propose. ``together``:
    damage of one name makes the store check all names.
    """

    def __init__(self, ground: Ground, together: bool = False) -> None:
        self._ground = ground
        self._together = together
        self._client = Client(ground.url, label="people")
        #: Names that wait for their repair: the time, the name, and the repair.
        self._late: list[tuple[float, str, Callable[[], None]]] = []

    def strike(self, scene: Scene) -> str:
        """Damage one item of a name in use, in one way."""
        dice = scene.dice
        for name in dice.sample(scene.names, len(scene.names)):
            items = list(self._ground.items(name))
            if items:
                return f"damage: {self._one(scene, name, dice.choice(items))}"
        return "damage: nothing there"

    def _one(self, scene: Scene, name: str, item: object) -> str:
        """Damage the item in a random way that the store can express; return the way."""
        for kind in scene.dice.sample(KINDS, len(KINDS)):
            self._tell(scene, name)
            before = boottime()
            if self._ground.damage(item, kind, scene.dice):
                self._tell(scene, name, before)  # it may have had to wait
                self._help(scene, name, item, kind)
                return kind
        return "it is gone"

    def _tell(self, scene: Scene, name: str, since: float | None = None) -> None:
        for one in scene.names if self._together else (name,):
            scene.damaged(one, since)
            scene.forgotten(one)

    def _help(self, scene: Scene, name: str, item: object, kind: str) -> None:
        if kind in ("flipped", "extreme"):
            self._later(name, lambda: self._break(scene, name))
        elif kind == "another type":
            self._later(name, lambda: self._remove(scene, name, item))

    def _later(self, name: str, how: Callable[[], None]) -> None:
        self._late.append((time.monotonic() + HELP_S, name, how))

    def _break(self, scene: Scene, name: str) -> None:
        """Break the holds whose lease the damage extended."""
        for line in self._client.inspect(name, exact=True):
            for holder in line.holders:
                self._tell(scene, name)
                before = boottime()
                self._client.break_(name, holder.fence)
                self._tell(scene, name, before)

    def _remove(self, scene: Scene, name: str, item: object) -> None:
        self._tell(scene, name)
        before = boottime()
        self._ground.damage(item, "removed", scene.dice)
        self._tell(scene, name, before)

    def calm(self, now: float) -> None:
        """Run the repairs that are due."""
        for late in [late for late in self._late if late[0] <= now]:
            self._late.remove(late)
            try:
                late[2]()
            except HoldfastError:
                if now < math.inf:  # there are no connections just now, say
                    self._later(*late[1:])
        if now == math.inf:
            self._client.close()


class Connections:
    """Leave a server fewer connections than its clients need, for a second."""

    def __init__(self, limit: Callable[[bool], None]) -> None:
        self._limit = limit
        self._until = 0.0

    def strike(self, scene: Scene) -> str:
        """Set the limit of connections."""
        self._limit(True)
        self._until = time.monotonic() + FEW_S
        return "no connections"

    def calm(self, now: float) -> None:
        """Remove the limit again."""
        if self._until and self._until <= now:
            self._until = 0.0
            self._limit(False)
