"""Each two failures that follow each other: ``python -m holdfast.testing.twice``.

Given a short history without faults, every request of one process is struck in each way that a
reply can fail, and then each of its next requests in each way again. What is finite is enumerated,
not drawn: a failure that needs two at the right places is found if the history has the places.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from ..runtime.blocking import boottime
from .guards import GuardHistory
from .simulator import History, unhurried
from .simulator.__main__ import quiet, say
from .simulator.fates import FIRST, SECOND, Aim
from .simulator.history import make_plan
from .simulator.queues import QueueHistory
from .simulator.queues import make_plan as make_queue_plan

#: The process whose requests are struck.
STRUCK = 1
#: The second failure comes at one of this number of requests after the first.
REACH = 5
#: Number of requests that it may send beyond the clean history, as it tries again.
MORE = 3


def _locks(seed: int) -> History:
    plan = make_plan(seed)
    return History(plan._replace(processes=2, actors=(0, 1, 2), actions=1, faults=()))


def _queues(seed: int) -> QueueHistory:
    plan = make_queue_plan(seed)
    return QueueHistory(plan._replace(processes=2, actors=(0, 1, 2), actions=3, faults=()))


def _guards(seed: int) -> GuardHistory:
    return GuardHistory(seed, calm=True)


#: What is enumerated, by the name of the contract.
KINDS: dict[str, Callable[[int], Any]] = {"locks": _locks, "queues": _queues, "guards": _guards}


class Found(NamedTuple):
    """What came of all pairs over the history of one seed."""

    seed: int
    runs: int
    #: The verbs that were struck first.
    verbs: Counter[str]
    violations: list[str]


def pairs(sent: int, reach: int = REACH) -> Iterator[tuple[Aim, Aim]]:
    """All pairs of failures at the requests of a process that sends ``sent`` of them."""
    for one in range(sent):
        for first in FIRST:
            for other in range(one + 1, min(one + reach, sent + MORE) + 1):
                for second in SECOND:
                    yield Aim("", first, one), Aim("", second, other)


def every(kind: str, seed: int, reach: int = REACH, part: int = 0, parts: int = 1) -> Found:
    """Run the history of a seed with each pair of failures, or with one part of these."""
    quiet()
    make = KINDS[kind]
    with unhurried():
        clean = make(seed)
        verdict = clean.run()
    sent = clean.server.sent.get(STRUCK, [])
    found = Found(seed, 0, Counter(), [])
    if verdict.violation is not None:
        return found._replace(violations=[f"without a failure: {verdict.violation}"])
    for number, (one, other) in enumerate(pairs(len(sent), reach)):
        if number % parts != part:
            continue
        with unhurried():
            history = make(seed)
            history.server.fated[STRUCK] = [one, other]
            verdict = history.run()
        found.verbs[sent[one.number]] += 1
        found = found._replace(runs=found.runs + 1)
        if verdict.violation is not None:
            story = f"{one.fate} of request {one.number}, {other.fate} of {other.number}"
            found.violations.append(f"{kind}, seed {seed}: {story}: {verdict.violation}")
    return found


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="./dev sim --twice",
        description="Enumerate each two failures that follow each other, over short histories.",
    )
    parser.add_argument("histories", nargs="?", type=int, default=4, help="how many of each (4)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--kind", choices=[*KINDS], action="append", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args(argv)
    begun, bad = boottime(), 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for kind in args.kind or KINDS:
            seeds = range(args.first, args.first + args.histories)
            runs, verbs = 0, Counter[str]()
            for found in pool.map(partial(every, kind), seeds):
                runs, verbs = runs + found.runs, verbs + found.verbs
                for text in found.violations[:5]:
                    say(text)
                bad += len(found.violations)
            counts = ", ".join(f"{verb} {n}" for verb, n in sorted(verbs.items()))
            say(f"{kind}: {runs} pairs of failures over {len(seeds)} histories; first at {counts}")
    say(f"violations: {bad} ({boottime() - begun:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
