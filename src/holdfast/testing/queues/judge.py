"""The judgement over a queue: which promises its history breaks.

Every execution has a fence that rises in its group, so the order of the executions is known, and
each group is gone through once.

    nothing lost       what was accepted was acked, or may have been by a worker that died doing it,
                       or the queue still has it at the end
    one at a time      no two executions of a group (in the plain lane: of a job) overlap
    order              the jobs of a group come in the order in which they were put, none before the
                       last one was done
    fence              who took later has the greater fence, and nobody the same
    interval           an execution begins so long after the end (or the take) of the one before
    once               what was acked never comes again, and isn't in the queue any more
    believed           a delivery that was to be believed yet could be settled
    accepted           nothing is executed that nobody put; what was put once is no duplicate

Only what certainly was is held against anybody. An execution counts from the return of take until
it is about to be settled, its loss is known, its worker is killed, or the time has come until which
it was to be believed when last looked at, whichever is first.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..promise import demand
from .reader import Execution, Jobs

#: The clocks of the store and of the workers may differ by so much within an interval, seconds.
CLOCKS_S = 0.002
#: So many broken promises are told; all are counted.
TOLD = 10


class Broken(NamedTuple):
    """A broken promise: its name, the group, when, and in words."""

    promise: str
    group: str
    when: float
    text: str


class Judgement(NamedTuple):
    """What was found. ``counts``: how often each promise was broken; ``figures``: for people."""

    counts: dict[str, int]
    broken: list[Broken]
    figures: dict[str, float]

    @property
    def good(self) -> bool:
        """Is no promise broken?"""
        return not self.counts

    def demand(self) -> None:
        """Raise :class:`~holdfast.testing.promise.PromiseBroken` if a promise is broken.

        A plain ``AssertionError`` if only an interval was too short: a stop of the machine between
        an answer and its record shortens it.
        """
        demand(self.counts, ("interval",), str(self))

    def __str__(self) -> str:
        lines = [", ".join(f"{name} {value:,.5g}" for name, value in self.figures.items())]
        lines += [f"BROKEN {name}: {count} times" for name, count in sorted(self.counts.items())]
        for one in self.broken[:TOLD]:
            lines.append(f"  {one.when:10.4f} s {one.promise}, {one.group!r}: {one.text}")
        return "\n".join(lines if self.counts else [*lines, "no promise is broken"])


def judge(
    *histories: Iterable[str | bytes], interval: float = 0.0, from_: str = "ack"
) -> Judgement:
    """Judge what these processes wrote down of one queue; each argument is the lines of one file.

    ``interval``, ``from_``: the queue's ``min_interval``, and from when it counts. ``BadHistory``
    if a line isn't an event.
    """
    jobs = Jobs()
    for number, lines in enumerate(histories, 1):
        jobs.read(lines, f"history {number}")
    jobs.finish()
    found = [*_lost(jobs), *_left(jobs), *_strange(jobs)]
    for group, executions in jobs.groups.items():
        if group:
            found += _one_at_a_time(group, executions)
            found += _fences(group, executions)
            found += _order(jobs, group, executions)
            found += _intervals(group, executions, interval, from_)
        else:
            found += _plain(executions)
        found += _believed(group, executions)
    found.sort(key=lambda one: one.when)
    told = [one._replace(when=one.when - jobs.first) for one in found]
    return Judgement(dict(Counter(one.promise for one in found)), told, _figures(jobs))


def judge_files(
    *paths: str | os.PathLike[str], interval: float = 0.0, from_: str = "ack"
) -> Judgement:
    """Judge the histories in these files, one per process; see :func:`judge`."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "rb")) for path in paths]
        return judge(*files, interval=interval, from_=from_)


def _lost(jobs: Jobs) -> Iterator[Broken]:
    done = {(one.group, one.number) for some in jobs.groups.values() for one in some if one.done}
    for (group, number), accepted in jobs.put.items():
        if accepted and (group, number) not in done and (group, number) not in jobs.there:
            yield Broken("nothing lost", group, jobs.last, f"#{number} was never done")


def _left(jobs: Jobs) -> Iterator[Broken]:
    for some in jobs.groups.values():
        for one in some:
            if one.done and one.kept and (one.group, one.number) in jobs.there:
                text = f"{one} had acked it, and it is still in the queue"
                yield Broken("once", one.group, jobs.last, text)


def _strange(jobs: Jobs) -> Iterator[Broken]:
    for worker, count in jobs.dropped:
        text = f"{worker} put {count} jobs once, and they were dropped as duplicates"
        yield Broken("accepted", "", jobs.last, text)
    for group, executions in jobs.groups.items():
        for one in executions:
            if (group, one.number) not in jobs.put:
                yield Broken("accepted", group, one.took, f"nobody has put what {one} executed")


def _one_at_a_time(group: str, executions: list[Execution]) -> Iterator[Broken]:
    going: Execution | None = None
    for one in sorted(executions, key=lambda one: one.took):
        if one.took >= one.end:
            continue
        if going is not None and one.took < going.end:
            yield Broken("one at a time", group, one.took, f"{one}, and {going} goes on")
        if going is None or one.end > going.end:
            going = one


def _fences(group: str, executions: list[Execution]) -> Iterator[Broken]:
    """In the order of the fences: nobody who has a smaller one asked after another was served."""
    earliest, who = math.inf, None
    for number in range(len(executions) - 1, -1, -1):
        one = executions[number]
        if number and executions[number - 1].fence == one.fence:
            yield Broken("fence", group, one.took, f"{one}, and {executions[number - 1]}")
        elif who is not None and earliest < one.asked:
            yield Broken("fence", group, one.took, f"{one} asked after {who} was served")
        if one.took < earliest:
            earliest, who = one.took, one


def _order(jobs: Jobs, group: str, executions: list[Execution]) -> Iterator[Broken]:
    """Nothing twice that was acked; nothing before what stands in front of it was done."""
    at, done, acked = 0, True, False
    for one in executions:
        if one.number == at and acked:
            yield Broken("once", group, one.took, f"{one}, and it had been acked")
        elif one.number < at:
            yield Broken("order", group, one.took, f"{one} comes after #{at}")
        elif one.number > at:
            skipped = [n for n in range(at + 1, one.number) if jobs.put.get((group, n))]
            if skipped or not done:
                before = skipped[0] if skipped else at
                yield Broken("order", group, one.took, f"{one} comes before #{before} was done")
            at, done, acked = one.number, False, False
        if one.number == at:
            done = done or one.done
            acked = acked or (one.done and one.kept is True)


def _intervals(
    group: str, executions: list[Execution], interval: float, from_: str
) -> Iterator[Broken]:
    if not interval:
        return
    for former, one in itertools.pairwise(executions):
        since = former.asked if from_ == "take" else min(former.end, one.took)
        if one.took - since < interval - CLOCKS_S and one.took < one.end:
            text = f"{one} begins {one.took - since:.4f} s after {former}"
            yield Broken("interval", group, one.took, text)


def _plain(executions: list[Execution]) -> Iterator[Broken]:
    """Each job of the plain lane is a group of its own."""
    jobs: dict[int, list[Execution]] = defaultdict(list)
    for one in executions:
        jobs[one.number].append(one)
    for some in jobs.values():
        yield from _one_at_a_time("", some)
        yield from _fences("", some)
        for former, one in itertools.pairwise(some):
            if former.done and former.kept:
                yield Broken("once", "", one.took, f"{one}, and {former} had acked it")


def _believed(group: str, executions: list[Execution]) -> Iterator[Broken]:
    """Who is told that the delivery was lost, before the time until which it was to be believed."""
    for one in executions:
        if one.kept is False and one.left < min(one.until, one.lost):
            early = one.until - one.left
            yield Broken("believed", group, one.left, f"{one} was lost {early:.3f} s too early")


def _figures(jobs: Jobs) -> dict[str, float]:
    executions = [one for some in jobs.groups.values() for one in some]
    keys = {(one.group, one.number) for one in executions}
    asked = sum(one.how in ("retry", "return") and one.kept is True for one in executions)
    span = max(0.0, jobs.last - jobs.first)
    return {
        "events": jobs.events,
        "groups": len({group for group, _ in jobs.put if group}),
        "jobs": len(jobs.put),
        "accepted": sum(jobs.put.values()),
        "executions": len(executions),
        "again": len(executions) - len(keys),
        "asked for again": asked,
        "acked": sum(one.done and one.kept is True for one in executions),
        "acked or not": sum(one.done and one.kept is None for one in executions),
        "still there": len(jobs.there),
        "late": sum(one.kept is False or one.lost < math.inf for one in executions),
        "killed": len(jobs.dead),
        "seconds": span,
        "jobs per second": len(keys) / span if span else 0.0,
    }
