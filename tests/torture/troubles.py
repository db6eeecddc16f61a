"""Troubles of a run on real servers: clocks step, state is damaged, connections are short."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from holdfast import Client, HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.testing.faults.damage import KINDS, Ground
from holdfast.testing.torture import Scene
from tests.servers.clock import HOUR_S, SECOND_S, Clock

#: Seconds that a slow step takes.
SLOW_S = 1.5
#: Seconds for which there are few connections.
FEW_S = 1.0
#: Seconds until people help a name that was damaged: what no store can tell from the truth.
HELP_S = 5.0


class Clocks:
    """Steps the wall clock of the servers, by a second or an hour, back and forth.

    It stays within an hour, as a store may forget an idle name's last ticket after longer. A step
    forward ends leases whose holders can't know of it, which every page says: it counts as damage.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The slow step under way: since when, from where, by how much.
        self._slow: tuple[float, float, float] | None = None
        self._damaged: Callable[[float | None], None] = lambda since: None

    def strike(self, scene: Scene) -> str:
        """One step, to the other end of the hour or by a second."""
        self.calm(float("inf"))
        ahead = self._clock.ahead
        step = scene.dice.choice((SECOND_S, HOUR_S)) * (1 if ahead < HOUR_S / 2 else -1)
        self._damaged = _all(scene) if step > 0 else lambda since: None
        self._damaged(None)
        before = boottime()
        if scene.dice.random() < 0.5:
            self._clock.step(step)
            self._damaged(before)
            return "clock forward" if step > 0 else "clock back"
        self._slow = time.monotonic(), ahead, step
        return "clock slowly forward" if step > 0 else "clock slowly back"

    def calm(self, now: float) -> None:
        """Go on with a slow step."""
        if self._slow is not None:
            since, ahead, step = self._slow
            part, before = min(1.0, (now - since) / SLOW_S), boottime()
            self._clock.set(ahead + step * part)
            self._damaged(before)  # those, too, who came since the last part of it
            if part == 1.0:
                self._slow = None


class Damage:
    """Damages one item of what a store keeps of one name.

    Nothing tells a store that a bit of a lease was flipped, so after a while people break those who
    hold since then, and remove what is of another type, as errors say. ``together``: what shows
    that one name is damaged makes the store look at all.
    """

    def __init__(self, ground: Ground, together: bool = False) -> None:
        self._ground = ground
        self._together = together
        self._client = Client(ground.url, label="people")
        #: Names that people are to help, by the time: each with its scene, and how.
        self._late: list[tuple[float, str, Callable[[], None]]] = []

    def strike(self, scene: Scene) -> str:
        """Damage one item in one way, of a name that somebody uses."""
        dice = scene.dice
        for name in dice.sample(scene.names, len(scene.names)):
            items = list(self._ground.items(name))
            if items:
                return f"damage: {self._one(scene, name, dice.choice(items))}"
        return "damage: nothing there"

    def _one(self, scene: Scene, name: str, item: object) -> str:
        """Damage it in the first way, in an order of chance, that the store can express."""
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
        """End those whose lease was made longer."""
        for line in self._client.inspect(name, exact=True):
            for holder in line.holders:
                self._tell(scene, name)
                before = boottime()
                self._client.break_(name, holder.fence)
                self._tell(scene, name, before)

    def _remove(self, scene: Scene, name: str, item: object) -> None:
        """Remove what isn't ours."""
        self._tell(scene, name)
        before = boottime()
        self._ground.damage(item, "removed", scene.dice)
        self._tell(scene, name, before)

    def calm(self, now: float) -> None:
        """Help those whose time has come."""
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
    """Leaves a server fewer connections than its clients have, for a second."""

    def __init__(self, limit: Callable[[bool], None]) -> None:
        self._limit = limit
        self._until = 0.0

    def strike(self, scene: Scene) -> str:
        """Let nobody in any more."""
        self._limit(True)
        self._until = time.monotonic() + FEW_S
        return "no connections"

    def calm(self, now: float) -> None:
        """Let all in again."""
        if self._until and self._until <= now:
            self._until = 0.0
            self._limit(False)


def _all(scene: Scene) -> Callable[[float | None], None]:
    """Tells the run that all names are damaged."""

    def tell(since: float | None, names: Sequence[str] = scene.names) -> None:
        for name in names:
            scene.damaged(name, since)

    return tell
