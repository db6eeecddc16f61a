"""A random walk: it draws verbs from a seed, common verbs more often than others."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import NamedTuple

from ...core.model import RWLOCK_CAPACITY, Change, Claim, Held, Kind, Leave, Renewal, Spec
from .answers import WITHIN_S
from .known import Known
from .pair import Pair


class Summary(NamedTuple):
    """The numbers of a comparison.

    ``restarts``: the number of times that the machine was too slow, so that it was unknown which
    answer was right. After each restart the walk continues with new names.
    """

    seed: int
    steps: int
    verbs: dict[str, int]
    answers: dict[str, int]
    restarts: int


#: The capacity of the kinds with a fixed capacity.
_FIXED = {Kind.LOCK: 1, Kind.ELECTION: 1, Kind.RWLOCK: RWLOCK_CAPACITY}


class Use(NamedTuple):
    """A name, and the kind, capacity and weights with which most of its claims are made."""

    name: str
    kind: Kind
    capacity: int
    weights: tuple[int, ...]


class Walk:
    """A random walk over a store and its model."""

    def __init__(self, pair: Pair) -> None:
        self._random = random.Random(pair.seed)
        self._begin(pair)

    def _begin(self, pair: Pair) -> None:
        self._pair = pair
        self._ids = 0
        start = pair.start_of_names
        self._uses = [
            Use(start + "lock", Kind.LOCK, 1, (1,)),
            Use(start + "Lock é", Kind.LOCK, 1, (1,)),
            Use(start + "sem", Kind.SEMAPHORE, 4, (1, 1, 2, 4)),
            Use(start + "rw", Kind.RWLOCK, RWLOCK_CAPACITY, (1, 1, RWLOCK_CAPACITY)),
        ]
        #: Names that are only acquired together, so that their lines are empty more often.
        self._quiet = [Use(f"{start}quiet {end}", Kind.LOCK, 1, (1,)) for end in "abcd"]
        #: The claims that are in a line, or were in a line until recently.
        self._known: list[Known] = []

    async def go(self, steps: int) -> Summary:
        """Take this number of steps, then leave every line."""
        ways = {
            self._join: 30,
            self._join_again: 5,
            self._join_free: 8,
            self._leave_all: 4,
            self._renew: 12,
            self._turn: 12,
            self._detach: 2,
            self._leave: 22,
            self._break: 3,
            self._drain: 10,
            self._hand_over: 2,
            self._at_once: 2,
            self._stranger: 3,
            self._late: 3,
            self._adopt: 4,
            self._wait: 8,
            self._look: 5,
            self._resize: 3,
            self._pass_time: 3,
        }
        start, restarts = self._pair.start_of_names, 0
        for _ in range(steps):
            (way,) = self._random.choices(list(ways), list(ways.values()))
            await way()
            if self._pair.unclear:
                restarts += 1
                await self._clear()
                fresh = f"{start}{restarts}:"
                self._begin(dataclasses.replace(self._pair, start_of_names=fresh, unclear=False))
        await self._clear()
        pair = self._pair
        return Summary(pair.seed, steps, dict(pair.verbs), dict(pair.answers), restarts)

    async def _clear(self) -> None:
        store = self._pair.store
        for known in self._known:
            store.unlisten(known.claim)
            leave = Leave(known.claim.spec.name, known.claim.id, known.theirs)
            await store.leave(leave, WITHIN_S)

    # -- the steps -------------------------------------------------------------------------

    async def _join(self) -> None:
        known = Known(self._claim(self._random.choice(self._uses)))
        if await self._pair.join(known, self._random.random() < 0.7):
            self._known.append(known)

    async def _join_again(self) -> None:
        for known in self._some():
            await self._pair.join(known, self._random.random() < 0.7)

    async def _join_free(self) -> None:
        """Enter several lines together; sometimes send a late copy, which grants nothing."""
        rng = self._random
        uses = rng.choice([self._uses, self._quiet])
        group = [Known(self._claim(use)) for use in rng.sample(uses, rng.randint(1, 4))]
        if await self._pair.join_free(group):
            self._known += group
        if rng.random() < 0.2 and await self._pair.join_free(group):
            self._known += [known for known in group if known not in self._known]

    async def _leave_all(self) -> None:
        """Remove one claim from each of some lines, sometimes with tombstones.

        After that, sometimes enter these lines again with the same claims.
        """
        rng = self._random
        first = list({known.claim.spec.name: known for known in self._known}.values())
        if not first:
            return
        group = rng.sample(first, rng.randint(1, min(3, len(first))))
        suspect = rng.random() < 0.2
        await self._pair.leave_all(group, suspect)
        for known in group:
            self._known.remove(known)
            self._pair.store.unlisten(known.claim)
        if rng.random() < 0.5 and await self._pair.join_free(group):
            self._known += group

    async def _renew(self) -> None:
        rng = self._random
        chosen = dict.fromkeys(one for _ in range(rng.randint(1, 4)) for one in self._some())
        renewals = []
        for known in chosen:
            ttl = rng.choice([known.claim.spec.ttl] * 3 + [30.0, 60.0, 0.05])
            renewals.append((known, Renewal(known.claim, 0, ttl, rng.choice([0, 0, 0, 1]))))
        if renewals:
            await self._pair.renew(renewals)

    async def _turn(self) -> None:
        for known in self._some():
            await self._pair.turn(known)

    async def _detach(self) -> None:
        for known in self._some():
            spec = known.claim.spec._replace(owner="detached")
            claim = known.claim._replace(spec=spec)
            await self._pair.change(known, Change(claim, 0, spec.ttl, claim.id, detach=True))

    async def _adopt(self) -> None:
        for known in self._some():
            spec = known.claim.spec._replace(owner="adopter")
            fresh = Known(Claim(self._id(), spec), known.theirs, known.ours)
            ask = Claim(known.claim.id, spec)
            change = Change(ask, 0, spec.ttl, fresh.claim.id)
            for _ in range(self._random.choice([1, 1, 2])):  # twice, as if the reply was lost
                answer = await self._pair.change(known, change)
                if isinstance(answer, Held) and fresh not in self._known:
                    self._known.append(fresh)

    async def _leave(self) -> None:
        rng = self._random
        for known in self._some():
            after = rng.choice([0.0] * 12 + [0.05, 20.0])
            suspect = rng.random() < 0.15
            await self._pair.leave(known, known.claim.id, after=after, suspect=suspect)
            if rng.random() < 0.8:
                self._known.remove(known)
                self._pair.store.unlisten(known.claim)

    async def _break(self) -> None:
        for known in self._some():
            await self._pair.break_(known)
            unknown = dataclasses.replace(known, claim=known.claim._replace(id=""))
            await self._pair.break_(unknown)  # again, as if the reply was lost

    async def _drain(self) -> None:
        """Remove most claims of one name, in random order; waiters check for their wake-up."""
        name = self._random.choice(self._uses).name
        mine = [known for known in self._known if known.claim.spec.name == name]
        self._random.shuffle(mine)
        for known in mine[self._random.choice([0, 0, 1, 2]) :]:
            await self._pair.leave(known, known.claim.id)
            self._known.remove(known)
            self._pair.store.unlisten(known.claim)
            for other in mine:
                if other in self._known:
                    await self._pair.wait(other)

    async def _hand_over(self) -> None:
        """Let one claim wait behind another; release the first, wait for the second's wake-up."""
        use = Use(self._pair.start_of_names + "handed over", Kind.LOCK, 1, (1,))
        ahead, behind = Known(self._claim(use)), Known(self._claim(use))
        for known in (ahead, behind):
            await self._pair.join(known, wait=True)
        await self._pair.leave(ahead, ahead.claim.id)
        await self._pair.wait(behind)
        await self._pair.leave(behind, behind.claim.id)
        for known in (ahead, behind):
            self._pair.store.unlisten(known.claim)

    async def _at_once(self) -> None:
        """Acquire several names together, and release them together; no other step uses them."""
        start = self._pair.start_of_names
        uses = [Use(f"{start}at once {end}", Kind.LOCK, 1, (1,)) for end in "abc"]
        group = [Known(self._claim(use)) for use in uses]
        await self._pair.join_free(group)
        await self._pair.leave_all(group, suspect=False)

    async def _stranger(self) -> None:
        """Send a leave, a renewal and a turn with an unknown id."""
        for known in self._some():
            cid = self._id()
            await self._pair.leave(known, cid if int(cid, 16) % 2 else "")
            odd = Known(Claim(self._id(), known.claim.spec))
            await self._pair.renew([(odd, Renewal(odd.claim, 0, 30.0))])
            await self._pair.turn(odd)

    async def _late(self) -> None:
        """Send the undo of a join before the join, as if the join was late."""
        known = Known(self._claim(self._random.choice(self._uses)))
        await self._pair.leave(known, known.claim.id, suspect=True)
        await self._pair.join(known, wait=True)

    async def _wait(self) -> None:
        for known in self._some():
            await self._pair.wait(known)

    async def _look(self) -> None:
        # These joins make both sides remove expired claims and grant the next ones.
        for use in self._uses + self._quiet:
            spec = Spec(use.name, Kind.ELECTION, 1, 1, 30.0, "sweeper")
            probe = Known(Claim(self._id(), spec))
            if await self._pair.join(probe, wait=False):
                await self._pair.leave(probe, probe.claim.id)
        start, names = self._pair.start_of_names, [use.name for use in self._uses]
        prefix = self._random.choice([start, *names, start + "lock%", start + "l_ck"])
        await self._pair.inspect(prefix, exact=self._random.random() < 0.3)

    async def _resize(self) -> None:
        use = self._random.choice(self._uses)
        await self._pair.resize(use.name, self._random.choice([1, 2, 4, 4, 6, 8]))

    async def _pass_time(self) -> None:
        await self._pair.runtime.sleep(self._random.uniform(0.0, 0.04))

    # -- drawing ---------------------------------------------------------------------------

    def _claim(self, use: Use) -> Claim:
        rng = self._random
        kind, capacity = use.kind, use.capacity
        if rng.random() < 0.04:
            kind = rng.choice(list(Kind))
            # A client sends claims of these kinds only with the fixed capacity of the kind
            capacity = _FIXED.get(kind, capacity)
        if kind is Kind.SEMAPHORE and rng.random() < 0.15:
            capacity = rng.choice([1, 2, 4, 6, 8])
        weight = min(rng.choice(use.weights), capacity)
        ttl = rng.choice([0.03, 0.06]) if rng.random() < 0.06 else rng.uniform(20.0, 40.0)
        owner = f"owner {rng.randrange(5)}"
        spec = Spec(use.name, kind, capacity, weight, ttl, owner, rng.choice(["", "m\0é"]))
        return Claim(self._id(), spec)

    def _some(self) -> list[Known]:
        """Return a list with one of the claims; an empty list if there is none."""
        return [self._random.choice(self._known)] if self._known else []

    def _id(self) -> str:
        """Return an id that no other walk uses, not even one with this seed.

        The store can still remember the ids of an earlier walk.
        """
        self._ids += 1
        text = f"{self._pair.start_of_names}{self._ids}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]
