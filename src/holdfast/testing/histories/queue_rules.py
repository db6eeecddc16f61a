"""The rules of serial queues: they find the promises that a history breaks.

Every execution has a fence that rises in its group, so the order of the executions is known, and
each group is read once.

    nothing lost       an accepted job was acked, or can have been acked without a known result, or
                       is still in the queue at the end
    one at a time      no two executions of a group (or of an ungrouped job) overlap
    order              the jobs of a group are delivered in the order of their puts, each after the
                       previous job was done
    fence              the later take has the greater fence, and no two fences are equal
    interval           an execution begins at least the interval after the end (or the take) of the
                       previous execution
    once               an acked job is never delivered again, and has left the queue
    believed           a delivery can be settled until its deadline
    accepted           only jobs that were put are executed; a job put once isn't a duplicate

Only what is certain counts as a violation. An execution counts from the return of take until the
first of these: the job is about to be settled, the loss is known, the worker is killed, or the
deadline of the last check has passed.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .queues import Execution, Jobs
from .terms import Terms, Violation

if TYPE_CHECKING:
    from .reader import Reader

#: Maximum seconds between the lengths of an interval by the store's clock and by a worker's clock.
CLOCKS_S = 0.002


def judge(reader: Reader, terms: Terms) -> Iterator[Violation]:
    """Yield the violations of the rules of queues."""
    jobs = reader.jobs
    yield from _lost(jobs, reader.last)
    yield from _left(jobs, reader.last)
    yield from _strange(jobs, reader.last)
    for group, executions in jobs.groups.items():
        if group:
            yield from _one_at_a_time(group, executions)
            yield from _fences(group, executions)
            yield from _order(jobs, group, executions)
            yield from _intervals(group, executions, terms)
        else:
            yield from _plain(executions)
        yield from _believed(group, executions)


def _lost(jobs: Jobs, last: float) -> Iterator[Violation]:
    done = {(one.group, one.number) for some in jobs.groups.values() for one in some if one.done}
    for (group, number), accepted in jobs.put.items():
        if accepted and (group, number) not in done and (group, number) not in jobs.there:
            yield Violation("nothing lost", group, last, f"#{number} was never done")


def _left(jobs: Jobs, last: float) -> Iterator[Violation]:
    for some in jobs.groups.values():
        for one in some:
            if one.done and one.kept and (one.group, one.number) in jobs.there:
                text = f"{one} had acked it, and it is still in the queue"
                yield Violation("once", one.group, last, text)


def _strange(jobs: Jobs, last: float) -> Iterator[Violation]:
    for worker, count in jobs.dropped:
        text = f"{worker} put {count} jobs once, and they were dropped as duplicates"
        yield Violation("accepted", "", last, text)
    for group, executions in jobs.groups.items():
        for one in executions:
            if (group, one.number) not in jobs.put:
                yield Violation("accepted", group, one.took, f"{one} ran a job that was never put")


def _one_at_a_time(group: str, executions: list[Execution]) -> Iterator[Violation]:
    going: Execution | None = None
    for one in sorted(executions, key=lambda one: one.took):
        if one.took >= one.end:
            continue
        if going is not None and one.took < going.end:
            yield Violation("one at a time", group, one.took, f"{one}, and {going} still runs")
        if going is None or one.end > going.end:
            going = one


def _fences(group: str, executions: list[Execution]) -> Iterator[Violation]:
    """Read the executions from the greatest fence down.

    Check that no take began after a delivery that has a greater fence.
    """
    earliest, who = math.inf, None
    for number in range(len(executions) - 1, -1, -1):
        one = executions[number]
        if number and executions[number - 1].fence == one.fence:
            yield Violation("fence", group, one.took, f"{one}, and {executions[number - 1]}")
        elif who is not None and earliest < one.asked:
            yield Violation("fence", group, one.took, f"{one} asked after {who} was served")
        if one.took < earliest:
            earliest, who = one.took, one


def _order(jobs: Jobs, group: str, executions: list[Execution]) -> Iterator[Violation]:
    """Check that no acked job is delivered again, and no job before the previous one was done."""
    at, done, acked = 0, True, False
    for one in executions:
        if one.number == at and acked:
            yield Violation("once", group, one.took, f"{one}, and it had been acked")
        elif one.number < at:
            yield Violation("order", group, one.took, f"{one} comes after #{at}")
        elif one.number > at:
            skipped = [n for n in range(at + 1, one.number) if jobs.put.get((group, n))]
            if skipped or not done:
                before = skipped[0] if skipped else at
                yield Violation("order", group, one.took, f"{one} comes before #{before} was done")
            at, done, acked = one.number, False, False
        if one.number == at:
            done = done or one.done
            acked = acked or (one.done and one.kept is True)


def _intervals(group: str, executions: list[Execution], terms: Terms) -> Iterator[Violation]:
    interval, interval_from = terms.interval, terms.interval_from
    if not interval:
        return
    for former, one in itertools.pairwise(executions):
        since = former.asked if interval_from == "take" else min(former.end, one.took)
        if one.took - since < interval - CLOCKS_S and one.took < one.end:
            text = f"{one} begins {one.took - since:.4f} s after {former}"
            yield Violation("interval", group, one.took, text)


def _plain(executions: list[Execution]) -> Iterator[Violation]:
    """Check each ungrouped job as a separate group."""
    jobs: dict[int, list[Execution]] = defaultdict(list)
    for one in executions:
        jobs[one.number].append(one)
    for some in jobs.values():
        yield from _one_at_a_time("", some)
        yield from _fences("", some)
        for former, one in itertools.pairwise(some):
            if former.done and former.kept:
                yield Violation("once", "", one.took, f"{one}, and {former} had acked it")


def _believed(group: str, executions: list[Execution]) -> Iterator[Violation]:
    """Check that no delivery was lost before the deadline that its worker had."""
    for one in executions:
        if one.kept is False and one.left < min(one.until, one.lost):
            early = one.until - one.left
            yield Violation("believed", group, one.left, f"{one} was lost {early:.3f} s too early")


def figures(reader: Reader, terms: Terms) -> dict[str, float]:
    """Return the numbers for the report; empty if the history has no jobs."""
    jobs = reader.jobs
    executions = [one for some in jobs.groups.values() for one in some]
    if not (jobs.put or executions):
        return {}
    keys = {(one.group, one.number) for one in executions}
    asked = sum(one.how in ("retry", "return") and one.kept is True for one in executions)
    span = max(0.0, reader.last - reader.first)
    return {
        "groups": len({group for group, _ in jobs.put if group}),
        "jobs": len(jobs.put),
        "accepted": sum(jobs.put.values()),
        "executions": len(executions),
        "again": len(executions) - len(keys),
        "asked for again": asked,
        "acked": sum(one.done and one.kept is True for one in executions),
        "acked or not": sum(one.done and one.kept is None for one in executions),
        "still there": len(jobs.there),
        "lost deliveries": sum(one.kept is False or one.lost < math.inf for one in executions),
        "jobs per second": len(keys) / span if span else 0.0,
    }
