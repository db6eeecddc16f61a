"""Random verbs of refresh guards are sent to a store and to the memory store: same replies.

The test sets the store's time. No lease and no pause is a whole number of milliseconds, as the
steps are: at its exact end both answers are right. The tests of a store subclass `ValueTwins`,
which sends the verbs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.guard.model import Abandon, Duty, Entry, Finish, Prolong, Wish
from holdfast.stores.memory.values import Values


class ValueTwins:
    """The same guards in both stores, which get the same requests; it compares their replies."""

    #: The first moment, in seconds by the store's clock.
    start = 10_000.0
    #: The maximum difference of two replies about leases and pauses, and about the ages of values.
    near = value_near = 1e-6
    #: The seconds for which a value is fresh, then stale, then kept.
    spans: tuple[tuple[float, ...], ...] = ((0.5005, 2.0005, 20.0005),) * 3
    #: True if the store refuses a late copy of a request whose value was stored.
    remembers_finished = False

    def __init__(self, seed: object, entries: Sequence[Entry]) -> None:
        print(f"seed {seed}")
        self.dice = random.Random(f"{seed}")
        self.entries = entries
        self.values = Values()
        self.now = self.start
        #: Fences of the store, by the memory store's fence of the same refresh.
        self.fences: dict[int, int] = {0: 0}
        self.wishes: list[Wish] = []
        self.duties: list[tuple[Wish, int]] = []
        self.finishes: list[Finish] = []
        self.story: list[str] = []

    def ask(self, verb: str, what: Any) -> Any:
        """Send a verb to the store, and return its reply."""
        raise NotImplementedError

    def same(self, what: object, theirs: Any, ours: Any) -> None:
        self.story.append(f"{self.now - self.start:.3f} {what} -> {theirs}"[:400])
        if isinstance(theirs, tuple):
            theirs, ours = self._told(theirs), [type(ours).__name__, *ours]
        assert theirs == ours, "\n".join(["", *self.story[-40:], f"but ours: {ours}"])

    def _told(self, theirs: Any) -> list[Any]:
        """Return the reply that the store must give."""
        told: list[Any] = [type(theirs).__name__]
        for field, value in theirs._asdict().items():
            if field in ("version", "fence"):
                told.append(self.fences[value])
            elif isinstance(value, float):
                aged = field in ("fresh_in", "stale_in")
                told.append(pytest.approx(value, abs=self.value_near if aged else self.near))
            else:
                told.append(value)
        return told

    def walk(self, steps: int) -> None:
        """Compare the replies of these steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Send one random request after a random time, and look."""
        self.now = round(self.now + self.dice.choice((1, 1, 30, 150, 300, 1100)) / 1000, 6)
        verbs = self.begin, self.begin, self.finish, self.finish, self.abandon, self.prolong
        self.dice.choice((*verbs, self.invalidate))()
        self.look()
        if self.dice.random() < 0.5:
            self.read()

    def begin(self) -> None:
        dice = self.dice
        if self.wishes and dice.random() < 0.3:
            wish = dice.choice(self.wishes[-4:])
        else:
            entry, number = dice.choice(self.entries), f"{dice.getrandbits(128):032x}"
            value = self.values.read(entry, self.now)
            known = dice.choice((0, value.version if value else 0, *[*self.fences][-2:]))
            owner, lease = (
                dice.choice(("", "me", "\N{SNOWMAN}")),
                dice.choice((0.2005, 0.7005, 3.0005)),
            )
            self.wishes.append(wish := Wish(entry, number, owner, lease, known))
        if self.remembers_finished and any(wish.id == one.id for one in self.finishes):
            return
        theirs = self.values.begin(wish, self.now, None)
        ours = self.ask("begin", wish._replace(known=self.fences[wish.known]))
        if isinstance(theirs, Duty) and isinstance(ours, Duty):
            if theirs.fence not in self.fences:
                assert ours.fence > max(self.fences.values())
                self.fences[theirs.fence] = ours.fence
            self.duties.append((wish, theirs.fence))
        self.same(("begin", wish), theirs, ours)

    def finish(self) -> None:
        dice = self.dice
        if self.finishes and dice.random() < 0.2:
            finish = dice.choice(self.finishes[-2:])
        elif self.duties:
            wish, fence = dice.choice(self.duties[-3:])
            data = dice.randbytes(dice.choice((0, 3, 3, 20_000)))
            spans = [dice.choice(some) for some in self.spans]
            finish = Finish(wish.entry, wish.id, fence, data, *spans, dice.random())
            self.finishes.append(finish)
        else:
            return
        theirs = self.values.finish(finish, self.now)
        ours = self.ask("finish", finish._replace(fence=self.fences[finish.fence]))
        self.same(finish, theirs, ours)

    def abandon(self) -> None:
        if self.wishes:
            wish = self.dice.choice(self.wishes[-3:])
            pause = self.dice.choice((0.0, 0.0, 0.4005, 2.0005))
            one = Abandon(wish.entry, wish.id, wish.lease, pause, 2 * pause, "why \N{SNOWMAN}")
            self.same(one, self.values.abandon(one, self.now), self.ask("abandon", one))

    def prolong(self) -> None:
        if self.duties:
            wish, fence = self.dice.choice(self.duties[-3:])
            one = Prolong(wish.entry, wish.id, fence, self.dice.choice((0.3005, 2.0005)))
            theirs = self.values.prolong(one, self.now)
            (ours,) = self.ask("prolong", [one._replace(fence=self.fences[fence])])
            self.same(one, type(theirs), type(ours))

    def some(self) -> list[Entry]:
        return self.dice.sample(self.entries, self.dice.randint(1, len(self.entries)))

    def invalidate(self) -> None:
        some = self.some()[:2]
        theirs = [self.values.invalidate(entry, self.now) for entry in some]
        self.same(("invalidate", some), theirs, self.ask("invalidate", some))

    def read(self) -> None:
        some = self.some()
        for entry, ours in zip(some, self.ask("read", some), strict=True):
            self.same(("read", entry), self.values.read(entry, self.now), ours)

    def look(self) -> None:
        entry = self.dice.choice(self.entries)
        self.same(("look", entry), self.values.look(entry, self.now), self.ask("look", entry))
