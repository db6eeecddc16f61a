"""From events to claims and writes: what is known of each, however much of it is missing.

One pass over the lines in any order of files. What belongs to one claim was written by one worker,
in order. What is missing stays unknown: a claim that was asked for and never answered may have been
held or not, and neither proves nor excuses anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any


class BadHistory(ValueError):
    """A line that isn't an event; the message has its number and its text."""


class Claim:
    """One acquire and what came of it. Times are None, or infinite, where nothing is known."""

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
        #: "held", "busy", "failed", or nothing if it was never answered; and when it was.
        self.how = ""
        self.answered = math.inf
        self.why = ""
        self.fence = 0
        self.held = self.until = self.looked = -math.inf
        self.leaving = self.left = self.lost = self.died = self.damaged = math.inf
        self.kept: bool | None = None
        #: A look that passed after the loss was known.
        self.revived = -math.inf
        #: When it shrank, and to what.
        self.shrunk: tuple[float, int] | None = None

    @property
    def end(self) -> float:
        """Until when its owner certainly believed in it, and nobody damaged it in the store."""
        return min(self.leaving, self.lost, self.died, self.damaged, max(self.until, self.looked))

    def __repr__(self) -> str:
        return f"claim {self.number} of {self.worker}"


class Write:
    """One guarded write and what came of it."""

    __slots__ = ("accepted", "asked", "done", "fence", "order", "thing", "worker")

    def __init__(self, event: dict[str, Any]) -> None:
        self.worker: str = event["p"]
        self.asked: float = event["t"]
        self.thing: str = event["thing"]
        self.fence: int = event["fence"]
        self.done = math.inf
        self.accepted: bool | None = None
        self.order: int | None = None


class Reader:
    """Takes in lines; afterwards it has everything that they say, sorted by what it is about."""

    def __init__(self) -> None:
        self.events = 0
        self.names: dict[str, list[Claim]] = {}
        self.things: dict[str, list[Write]] = {}
        self.first, self.last = math.inf, -math.inf
        #: Workers that ended as they should, and those that were killed, with the time.
        self.ended: set[str] = set()
        self.dead: dict[str, float] = {}
        #: Name -> (from, to) of each time in which its state in the store was damaged.
        self.damages: dict[str, list[tuple[float, float]]] = {}
        #: Name -> when its last fence may have been damaged.
        self.forgotten: dict[str, list[float]] = {}
        #: Worker -> (from, to) of each time that it was stopped.
        self.stops: dict[str, list[tuple[float, float]]] = {}
        self._claims: dict[tuple[str, int], Claim] = {}
        self._writes: dict[tuple[str, int], Write] = {}
        self._stopped: dict[str, float] = {}
        self._take = {
            "ask": self._ask,
            "held": self._held,
            "busy": self._answered,
            "failed": self._answered,
            "look": self._look,
            "shrink": self._shrink,
            "leaving": self._leaving,
            "left": self._left,
            "lost": self._lost,
            "write": self._write,
            "wrote": self._wrote,
            "dead": self._dead,
            "damaged": self._damaged,
            "forgotten": self._forgotten,
            "stopped": self._stop,
            "continued": self._go_on,
            "bye": self._bye,
        }

    def read(self, lines: Iterable[str | bytes], file: str = "the history") -> None:
        """Take in the lines of one file. ``BadHistory`` for one that isn't an event.

        The last line may be cut short: its worker was killed on a full disk.
        """
        take, decode = self._take, json.JSONDecoder().raw_decode
        first, last, number = self.first, self.last, 0
        torn = ""
        for number, line in enumerate(lines, 1):
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            if torn:
                raise BadHistory(f"{file}, line {number - 1}: not an event: {torn!r:.200}")
            try:
                event, end = decode(text)
                if text[end:].strip():
                    raise ValueError(text)
                now = event["t"]
                take[event["op"]](event)
            except (ValueError, KeyError, TypeError):
                torn = text or " "
                continue
            if now < first:
                first = now
            if now > last:
                last = now
        if torn.endswith("\n"):
            raise BadHistory(f"{file}, line {number}: not an event: {torn!r:.200}")
        self.events += number
        self.first, self.last = first, last

    def finish(self) -> None:
        """There are no more lines."""
        for who, since in self._stopped.items():
            self.stops.setdefault(who, []).append((since, math.inf))
        self._stopped.clear()
        for name, spans in self.damages.items():
            for claim in self.names.get(name, ()):
                met = (max(since, claim.asked) for since, until in spans if until >= claim.asked)
                claim.damaged = min(met, default=math.inf)
        if self.dead:
            for claim in self._claims.values():
                claim.died = self.dead.get(claim.worker, math.inf)

    def stopped(self, worker: str, start: float, end: float) -> float:
        """For how many seconds of this span the worker was stopped."""
        over = 0.0
        for since, until in sorted(self.stops.get(worker, ())):
            # One may be told of twice: by whom it was done, and by itself.
            start = max(start, since)
            over += max(0.0, min(end, until) - start)
            start = max(start, until)
        return over

    # -- one method per event --------------------------------------------------------------

    def _ask(self, event: dict[str, Any]) -> None:
        claim = Claim(event)
        self._claims[claim.worker, claim.number] = claim
        try:
            self.names[claim.name].append(claim)
        except KeyError:
            self.names[claim.name] = [claim]

    def _claim(self, event: dict[str, Any]) -> Claim:
        return self._claims[event["p"], event["c"]]

    def _held(self, event: dict[str, Any]) -> None:
        claim = self._claims[event["p"], event["c"]]
        claim.how, claim.fence, claim.until = "held", event["fence"], event["until"]
        claim.held = claim.answered = event["t"]

    def _answered(self, event: dict[str, Any]) -> None:
        claim = self._claim(event)
        claim.how, claim.answered, claim.why = event["op"], event["t"], event.get("why", "")

    def _look(self, event: dict[str, Any]) -> None:
        claim = self._claim(event)
        if claim.lost < event["t"]:
            claim.revived = event["t"]
        claim.looked = event["t"]
        claim.until = max(claim.until, event["until"])

    def _shrink(self, event: dict[str, Any]) -> None:
        self._claim(event).shrunk = event["t"], event["weight"]

    def _leaving(self, event: dict[str, Any]) -> None:
        self._claims[event["p"], event["c"]].leaving = event["t"]

    def _left(self, event: dict[str, Any]) -> None:
        claim = self._claims[event["p"], event["c"]]
        claim.left, claim.kept = event["t"], event["kept"]

    def _lost(self, event: dict[str, Any]) -> None:
        claim = self._claim(event)
        claim.lost, claim.why = min(claim.lost, event["t"]), event["why"]

    def _write(self, event: dict[str, Any]) -> None:
        write = Write(event)
        self._writes[write.worker, event["w"]] = write
        self.things.setdefault(write.thing, []).append(write)

    def _wrote(self, event: dict[str, Any]) -> None:
        write = self._writes[event["p"], event["w"]]
        write.done, write.accepted = event["t"], event["accepted"]
        write.order = event.get("order")

    def _dead(self, event: dict[str, Any]) -> None:
        self.dead.setdefault(event["who"], event["t"])

    def _damaged(self, event: dict[str, Any]) -> None:
        span = event.get("since", event["t"]), event["t"]
        self.damages.setdefault(event["who"], []).append(span)

    def _forgotten(self, event: dict[str, Any]) -> None:
        self.forgotten.setdefault(event["who"], []).append(event["t"])

    def _stop(self, event: dict[str, Any]) -> None:
        self._stopped[event["who"]] = event["t"]

    def _go_on(self, event: dict[str, Any]) -> None:
        since = self._stopped.pop(event["who"], None)
        if since is not None:
            self.stops.setdefault(event["who"], []).append((since, event["t"]))

    def _bye(self, event: dict[str, Any]) -> None:
        self.ended.add(event["p"])
