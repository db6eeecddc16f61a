"""All pairs of failures that follow each other: ``python -m holdfast.testing sim --twice``.

A run plays a short history without other faults, and two requests of one process fail. The runs
cover every first request, each of the next few requests as the second one, and each way in which a
request can fail. So a bug that needs two failures at certain requests is found if the history has
these requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from . import KINDS
from .fates import FIRST, SECOND, Aim
from .running import Running, Verdict, quiet, unhurried

#: The process whose requests fail.
STRUCK = 1
#: Maximum distance from the first failure to the second, in requests.
REACH = 5
#: Number of requests that can fail beyond the requests of the history without failures, because
#: retries send more requests.
MORE = 3


class Found(NamedTuple):
    """The result of all pairs over the history of one seed."""

    seed: int
    runs: int
    #: The verbs of the first failures.
    verbs: Counter[str]
    violations: list[str]


def pairs(sent: int, reach: int = REACH) -> Iterator[tuple[Aim, Aim]]:
    """Yield all pairs of failures for a process that sends ``sent`` requests."""
    for one in range(sent):
        for first in FIRST:
            for other in range(one + 1, min(one + reach, sent + MORE) + 1):
                for second in SECOND:
                    yield Aim("", first, one), Aim("", second, other)


def _play(kind: str, seed: int, *aims: Aim) -> tuple[Running, Verdict]:
    with unhurried():
        history = KINDS[kind].history(KINDS[kind].short(seed), False)
        if aims:
            history.server.fated[STRUCK] = [*aims]
        return history, history.run()


def every(kind: str, seed: int, reach: int = REACH, part: int = 0, parts: int = 1) -> Found:
    """Run the history of a seed with each pair of failures in part ``part`` of ``parts``."""
    quiet()
    clean, verdict = _play(kind, seed)
    sent = clean.server.sent.get(STRUCK, [])
    found = Found(seed, 0, Counter(), [])
    if verdict.violation is not None:
        return found._replace(violations=[f"without a failure: {verdict.violation}"])
    for number, (one, other) in enumerate(pairs(len(sent), reach)):
        if number % parts != part:
            continue
        _, verdict = _play(kind, seed, one, other)
        found.verbs[sent[one.number]] += 1
        found = found._replace(runs=found.runs + 1)
        if verdict.violation is not None:
            story = f"{one.fate} of request {one.number}, {other.fate} of {other.number}"
            found.violations.append(f"{kind}, seed {seed}: {story}: {verdict.violation}")
    return found


def twice(kind: str, seeds: Iterable[int], jobs: int) -> Iterator[Found]:
    """Run ``every`` for many seeds, in ``jobs`` processes."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(every, kind), seeds)
