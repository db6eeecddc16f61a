"""Facts about claims and fenced writes, from the events of a history."""

from __future__ import annotations

import math
from typing import Any


class Claim:
    """One acquire and its result. A time that is unknown is infinite."""

    __slots__ = (
        "answered",
        "asked",
        "capacity",
        "damaged",
        "died",
        "fence",
        "held",
        "how",
        "kept",
        "kind",
        "leaving",
        "left",
        "looked",
        "lost",
        "name",
        "number",
        "place",
        "revived",
        "shrunk",
        "timeout",
        "until",
        "weight",
        "why",
        "worker",
    )

    def __init__(self, event: dict[str, Any]) -> None:
        self.worker: str = event["p"]
        self.number: int = event["c"]
        self.asked: float = event["t"]
        self.name: str = event["name"]
        self.kind: str = event["kind"]
        self.weight: int = event["weight"]
        self.capacity: int = event["capacity"]
        self.timeout: float | None = event.get("timeout")
        self.place: int | None = event.get("place")
        #: The result: "held", "busy", "failed", or empty if the acquire has none; and the time of
        #: the result.
        self.how = ""
        self.answered = math.inf
        self.why = ""
        self.fence = 0
        self.held = self.until = self.looked = -math.inf
        self.leaving = self.left = self.lost = self.died = self.damaged = math.inf
        self.kept: bool | None = None
        #: The time of a check that passed after the loss was known.
        self.revived = -math.inf
        #: The time of a downgrade, and the new weight.
        self.shrunk: tuple[float, int] | None = None

    @property
    def end(self) -> float:
        """The time until which the owner certainly held the name, with undamaged state."""
        return min(self.leaving, self.lost, self.died, self.damaged, max(self.until, self.looked))

    def on_look(self, event: dict[str, Any]) -> None:
        """Record that a check has passed."""
        if self.lost < event["t"]:
            self.revived = event["t"]
        self.looked = event["t"]
        self.until = max(self.until, event["until"])

    def on_leaving(self, event: dict[str, Any]) -> None:
        """Record that release is about to be called."""
        self.leaving = event["t"]

    def on_left(self, event: dict[str, Any]) -> None:
        """Record the result of release."""
        self.left, self.kept = event["t"], event["kept"]

    def on_lost(self, event: dict[str, Any]) -> None:
        """Record that the loss is known."""
        self.lost, self.why = min(self.lost, event["t"]), event["why"]

    def __repr__(self) -> str:
        return f"claim {self.number} of {self.worker}"


class Write:
    """One fenced write and its result."""

    __slots__ = ("accepted", "asked", "done", "fence", "order", "thing", "worker")

    def __init__(self, event: dict[str, Any]) -> None:
        self.worker: str = event["p"]
        self.asked: float = event["t"]
        self.thing: str = event["thing"]
        self.fence: int = event["fence"]
        self.done = math.inf
        self.accepted: bool | None = None
        self.order: int | None = None


class Locks:
    """Every claim by its name, and every write by the thing that the worker wrote to."""

    def __init__(self, acts: dict[tuple[str, int], Any]) -> None:
        self.names: dict[str, list[Claim]] = {}
        self.things: dict[str, list[Write]] = {}
        #: Name -> (from, to) of each time in which its state in the store was damaged.
        self.damages: dict[str, list[tuple[float, float]]] = {}
        #: Name -> the times at which its last fence was damaged, or can have been damaged.
        self.forgotten: dict[str, list[float]] = {}
        self._claims = acts
        self._writes: dict[tuple[str, int], Write] = {}
        self.takes = {
            "ask": self._ask,
            "held": self._held,
            "busy": self._answered,
            "failed": self._answered,
            "shrink": self._shrink,
            "write": self._write,
            "wrote": self._wrote,
            "damaged": self._damaged,
            "forgotten": self._forgotten,
        }

    def finish(self, dead: dict[str, float]) -> None:
        """Complete the facts after the last line."""
        for name, spans in self.damages.items():
            for claim in self.names.get(name, ()):
                met = (max(since, claim.asked) for since, until in spans if until >= claim.asked)
                claim.damaged = min(met, default=math.inf)
        if dead:
            for claims in self.names.values():
                for claim in claims:
                    claim.died = dead.get(claim.worker, math.inf)

    def _ask(self, event: dict[str, Any]) -> None:
        claim = Claim(event)
        self._claims[claim.worker, claim.number] = claim
        try:
            self.names[claim.name].append(claim)
        except KeyError:
            self.names[claim.name] = [claim]

    def _held(self, event: dict[str, Any]) -> None:
        claim = self._claims[event["p"], event["c"]]
        claim.how, claim.fence, claim.until = "held", event["fence"], event["until"]
        claim.held = claim.answered = event["t"]

    def _answered(self, event: dict[str, Any]) -> None:
        claim = self._claims[event["p"], event["c"]]
        claim.how, claim.answered, claim.why = event["op"], event["t"], event.get("why", "")

    def _shrink(self, event: dict[str, Any]) -> None:
        self._claims[event["p"], event["c"]].shrunk = event["t"], event["weight"]

    def _write(self, event: dict[str, Any]) -> None:
        write = Write(event)
        self._writes[write.worker, event["w"]] = write
        self.things.setdefault(write.thing, []).append(write)

    def _wrote(self, event: dict[str, Any]) -> None:
        write = self._writes[event["p"], event["w"]]
        write.done, write.accepted = event["t"], event["accepted"]
        write.order = event.get("order")

    def _damaged(self, event: dict[str, Any]) -> None:
        span = event.get("since", event["t"]), event["t"]
        self.damages.setdefault(event["who"], []).append(span)

    def _forgotten(self, event: dict[str, Any]) -> None:
        self.forgotten.setdefault(event["who"], []).append(event["t"])
