"""A random walk over the verbs of serial queues, which checks every answer against a ledger.

A store may choose which of several due jobs it delivers first, so two stores can't be compared.
The ledger contains the jobs that must be in the queue. Each delivered job must be the first of its
group and must not be in delivery already, and the number of deliveries must be right.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from ...core.model import Gone, Held
from ...core.queue.model import (
    BATCH_MAX,
    Delivered,
    Extend,
    Job,
    JobState,
    Pace,
    Patience,
    Put,
    Settle,
    Take,
    Taken,
    Verdict,
)
from ...core.queue.ports import Queues, onward_of
from ..promise import promised

WITHIN_S = 10.0
#: The length of leases and delays, seconds: longer than a walk, so that none of them ends during
#: the walk.
LONG_S = 3600.0
GROUPS = ("", "", "a", "b", "c")
ATTEMPTS = 3


@dataclass(eq=False)
class Item:
    """One job of the ledger, and its state."""

    job: Job
    attempts: int = 0
    fence: int = 0
    loan: tuple[Take, int] | None = None
    delayed: bool = False
    dead: bool = False


@dataclass
class Ledger:
    """The jobs that must be in the queue."""

    groups: dict[str, deque[Item]] = field(default_factory=dict)
    plain: list[Item] = field(default_factory=list)
    letters: list[Item] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    #: The last fence of each group, and of each ungrouped job by its id.
    fences: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    done: int = 0

    def put(self, job: Job) -> bool:
        """Record a put of this job; return False if it is a duplicate."""
        if job.known and job.id in self.known:
            return False
        if job.known:
            self.known.add(job.id)
        item = Item(job, delayed=job.delay > 0)
        if job.group:
            self.groups.setdefault(job.group, deque()).append(item)
        else:
            self.plain.append(item)
        self.accepted += 1
        return True

    def due(self) -> list[Item]:
        """Return all jobs that may be delivered now."""
        firsts = [line[0] for line in self.groups.values() if line]
        return [
            one
            for one in (*firsts, *self.plain)
            if one.loan is None and not one.delayed and not one.dead
        ]

    def on_loan(self) -> list[Item]:
        """Return all jobs that are in delivery."""
        lines = (*self.groups.values(), self.plain)
        return [one for line in lines for one in line if one.loan is not None]

    def lend(self, take: Take, given: Delivered) -> None:
        """Check a delivery of the store, and record it."""
        with promised("a delivery is due, unchanged since its put, and has the greatest fence"):
            item = self._judged(given)
        item.attempts += 1
        self.fences[given.group or f"id:{given.id}"] = given.fence
        item.fence, item.loan = given.fence, (take, given.seq)

    def _judged(self, given: Delivered) -> Item:
        for item in self.due():
            job = item.job
            if job.id == given.id and job.group == given.group:
                break
        else:
            raise AssertionError(f"{given} was delivered, and due are {self.due()}")
        track = job.group or f"id:{job.id}"
        assert given.payload == job.payload, (given, job)
        assert given.attempt == item.attempts + 1, (given, item)
        assert given.fence > self.fences.get(track, 0), (given, self.fences)
        assert given.age >= 0, given
        return item

    def end(self, item: Item, verdict: Verdict, blocks: bool, later: bool) -> None:
        """Record that this job was settled by ``verdict``.

        ``blocks``: a dead letter blocks its group. ``later``: a retry has a delay.
        """
        item.loan = None
        line = self.groups.get(item.job.group)
        if verdict is Verdict.RETURN:
            item.attempts -= 1
        elif verdict is Verdict.RETRY:
            item.delayed = later
        elif verdict is Verdict.DEAD:
            item.dead = True
            self.letters.append(item)
            if not (blocks and line):
                self._out(item)
        else:
            self.done += 1
            self._out(item)

    def _out(self, item: Item) -> None:
        for line in (*self.groups.values(), self.plain):
            if item in line:
                line.remove(item)

    def revive(self) -> int:
        """Record that every dead letter was revived; return their number."""
        found = len(self.letters)
        for item in self.letters:
            item.dead, item.attempts, item.delayed = False, 0, False
            line = self.groups.setdefault(item.job.group, deque()) if item.job.group else self.plain
            if item not in line:
                line.append(item)
        self.letters = []
        return found

    def purge(self, state: JobState) -> int:
        """Record that the jobs in this state were removed; return their number."""
        lines = (*self.groups.values(), self.plain)
        if state is JobState.DEAD:
            gone = self.letters[:]
        else:
            gone = [
                one
                for line in lines
                for one in line
                if one.delayed and not one.dead and one.loan is None
            ]
        for item in gone:
            self._out(item)
            if item in self.letters:
                self.letters.remove(item)
        return len(gone)

    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of the waiting jobs, the deliveries and the dead letters."""
        lines = (*self.groups.values(), self.plain)
        live = sum(not one.dead for line in lines for one in line)
        taken = len(self.on_loan())
        return live - taken, taken, len(self.letters)


class QueueWalk:
    """One walk on one queue; each step is a verb, sometimes sent twice."""

    def __init__(self, queues: Queues, name: str, seed: int) -> None:
        self._queues = queues
        self._name = name
        self._dice = random.Random(seed)
        self._ledger = Ledger()
        self._number = 0
        self._lane = self._id()
        self.story: list[str] = []

    def _id(self) -> str:
        return f"{self._dice.getrandbits(128):032x}"

    async def run(self, steps: int) -> None:
        """Take ``steps`` steps; ``AssertionError`` at the first wrong answer."""
        works = [self._put, self._put, self._take, self._take, self._settle, self._settle]
        works += [self._go_on] if onward_of(self._queues) is not None else []
        works += [self._give_back, self._extend, self._revive, self._purge, self._count]
        for _ in range(steps):
            await self._dice.choice(works)()
        await self._count()

    def _told(self, text: str) -> None:
        self.story.append(text)

    async def _put(self) -> None:
        jobs = []
        for _ in range(self._dice.choice([1, 1, 2, 5])):
            known = self._dice.random() < 0.3
            name = f"k{self._dice.randrange(12)}" if known else self._id()
            delay = LONG_S if self._dice.random() < 0.1 else 0.0
            group = self._dice.choice(GROUPS)
            jobs.append(Job(name, group, self._dice.randbytes(5), delay, known))
        self._number += 1
        put = Put(self._name, self._lane, self._number, tuple(jobs), LONG_S)
        self._told(f"put {put}")
        answers = await self._queues.put(put, WITHIN_S)
        if self._dice.random() < 0.3:
            assert await self._queues.put(put, WITHIN_S) == answers, "sent twice"
        assert answers == [self._ledger.put(job) for job in jobs], answers

    async def _take(self) -> None:
        most = self._dice.choice([1, 1, 2, 10])
        patience = Patience(ATTEMPTS, self._dice.random() < 0.5)
        take = Take(self._name, self._id(), most, LONG_S, "walk:1:w", Pace(), patience)
        due = len(self._ledger.due())
        self._told(f"take {take} of {due}")
        taken = await self._queues.take(take, WITHIN_S)
        await self._taken(take, taken, due)

    async def _taken(self, take: Take, taken: Taken, due: int) -> None:
        assert len(taken.deliveries) == min(take.most, due), (taken, self._ledger.due())
        if self._dice.random() < 0.3 and taken.deliveries:
            again = await self._queues.take(take, WITHIN_S)
            assert _same(again.deliveries) == _same(taken.deliveries), "sent twice"
        for one in taken.deliveries:
            self._ledger.lend(take, one)
            self._told(f"  {one}")

    def _judged(self) -> tuple[list[Item], list[Settle]]:
        """Return some of the jobs in delivery, and the requests that settle them."""
        loans = self._ledger.on_loan()
        some = self._dice.sample(loans, min(len(loans), self._dice.choice([1, 2, 4])))
        settles = []
        for item in some:
            assert item.loan is not None
            take, seq = item.loan
            verdict = self._dice.choice(list(Verdict))
            delay = self._dice.choice([0.0, LONG_S]) if verdict is Verdict.RETRY else 0.0
            what = (self._name, item.job.group, seq, take.id, verdict, delay, "why", LONG_S)
            settles.append(Settle(*what, self._dice.random() < 0.2))
        self._told(f"settle {settles}")
        return some, settles

    def _ended(self, some: list[Item], settles: list[Settle]) -> None:
        for item, settle in zip(some, settles, strict=True):
            assert item.loan is not None
            blocks = item.loan[0].patience.blocks
            self._ledger.end(item, settle.verdict, blocks, settle.delay > 0)

    async def _settle(self) -> None:
        some, settles = self._judged()
        assert await self._queues.settle(settles, WITHIN_S) == [True] * len(settles)
        if self._dice.random() < 0.3:
            assert await self._queues.settle(settles, WITHIN_S) == [False] * len(settles)
        self._ended(some, settles)

    async def _go_on(self) -> None:
        """Settle and take by one request, which is sometimes sent twice."""
        onward = onward_of(self._queues)
        some, settles = self._judged()
        if onward is None or not settles:
            return
        most = self._dice.choice([1, 1, 2])
        take = Take(self._name, self._id(), most, LONG_S, "walk:1:w", Pace(), Patience(ATTEMPTS))
        self._told(f"and take {take}")
        answers, taken = await onward.settle_and_take(settles, take, WITHIN_S)
        assert answers == [True] * len(settles), answers
        self._ended(some, settles)
        due = len(self._ledger.due())
        if self._dice.random() < 0.3 and taken.deliveries:
            answers, again = await onward.settle_and_take(settles, take, WITHIN_S)
            assert answers == [False] * len(settles), "sent twice"
            assert _same(again.deliveries) == _same(taken.deliveries), "sent twice"
        await self._taken(take, taken, due)

    async def _give_back(self) -> None:
        takes = list({item.loan[0] for item in self._ledger.on_loan() if item.loan is not None})
        if not takes:
            return
        take = self._dice.choice(sorted(takes))
        mine = [one for one in self._ledger.on_loan() if one.loan and one.loan[0] is take]
        self._told(f"return {take}: {len(mine)}")
        assert await self._queues.give_back(take, WITHIN_S) == len(mine)
        for item in mine:
            self._ledger.end(item, Verdict.RETURN, False, False)
        late = await self._queues.take(take, WITHIN_S)
        assert not late.deliveries, f"a late copy got {late}"

    async def _extend(self) -> None:
        asked = []
        for item in self._ledger.on_loan():
            assert item.loan is not None
            take, seq = item.loan
            what = (self._name, item.job.group, seq, take.id, item.fence, LONG_S)
            asked.append(Extend(*what))
        wrong = Extend(self._name, "a", 1, self._id(), 1, LONG_S)
        answers = await self._queues.extend([*asked, wrong], WITHIN_S)
        assert isinstance(answers.pop(), Gone)
        for one, answer in zip(asked, answers, strict=True):
            assert isinstance(answer, Held), answer
            assert answer.fence == one.fence
            assert answer.expires_in > LONG_S / 2

    async def _revive(self) -> None:
        if self._dice.random() < 0.5:
            self._told("revive")
            assert await self._queues.revive(self._name, None, WITHIN_S) == self._ledger.revive()

    async def _purge(self) -> None:
        state = self._dice.choice([JobState.DEAD, JobState.DELAYED])
        if self._dice.random() < 0.3:
            self._told(f"purge {state}")
            gone = await self._queues.purge(self._name, state, None, BATCH_MAX, WITHIN_S)
            # The store remembers an id for its dedup window, even after a purge of its job.
            assert gone == self._ledger.purge(state), (gone, state)

    async def _count(self) -> None:
        found = await self._queues.survey(self._name, WITHIN_S, exact=True)
        ledger = self._ledger
        if found:
            (one,) = found
            assert (one.waiting, one.taken, one.dead) == ledger.sizes(), (one, ledger.sizes())
            assert (one.accepted, one.done) == (ledger.accepted, ledger.done), one
        else:
            assert ledger.sizes() == (0, 0, 0)
        jobs = await self._queues.jobs(self._name, None, None, 10_000, WITHIN_S)
        assert len(jobs) == sum(ledger.sizes()), (len(jobs), ledger.sizes())


def _same(deliveries: tuple[Delivered, ...]) -> list[tuple[object, ...]]:
    """Return the parts of deliveries that are equal in two answers: age and order may differ."""
    return sorted(one[:-1] for one in deliveries)
