"""``python -m holdfast.testing.guards [HISTORIES]``: run seeded histories of guards, judge them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from ...runtime.blocking import boottime
from ..simulator.__main__ import quiet, say
from .history import check

CHUNK = 50


class Sum(NamedTuple):
    """What a number of histories came to."""

    histories: int
    steps: int
    faults: int
    violations: list[tuple[int, str]]


def chunk(first: int, count: int) -> Sum:
    """Run some seeds in this process."""
    quiet()
    verdicts = [check(seed) for seed in range(first, first + count)]
    return Sum(
        count,
        sum(one.steps for one in verdicts),
        sum(one.faults for one in verdicts),
        [(one.seed, str(one.violation)) for one in verdicts if one.violation is not None],
    )


def campaign(first: int, count: int, jobs: int) -> Iterator[Sum]:
    """Run many seeds on several cores, a chunk at a time, in order."""
    starts = range(first, first + count, CHUNK)
    sizes = [min(CHUNK, first + count - start) for start in starts]
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(chunk, starts, sizes)


def many(first: int, count: int, jobs: int) -> int:
    """Run them, say how far it is, sum up; 1 if anything was violated."""
    begun, total = boottime(), Sum(0, 0, 0, [])
    for part in campaign(first, count, jobs):
        total = Sum(
            total.histories + part.histories,
            total.steps + part.steps,
            total.faults + part.faults,
            total.violations + part.violations,
        )
        for seed, text in part.violations:
            say(f"seed {seed}: {text}\n    see it: ./dev sim --guards --replay {seed}")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{total.histories}/{count} histories of guards \r")
            sys.stderr.flush()
        if len(total.violations) >= 20:
            say("20 violations: enough")
            break
    say(
        f"{total.histories} histories of guards from seed {first} on, {total.steps} steps, "
        f"{total.faults} faults, {boottime() - begun:.1f} s on {jobs} cores"
    )
    say(f"violations: {len(total.violations)}")
    return 1 if total.violations else 0


def replay(seed: int) -> int:
    """Tell the history of a seed step by step."""
    quiet()
    verdict = check(seed, telling=True)
    for line in verdict.story:
        say(line)
    say(
        f"{verdict.steps} steps; " + (f"VIOLATED {found}" if (found := verdict.violation) else "ok")
    )
    return 1 if verdict.violation is not None else 0


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="./dev sim --guards",
        description="Run seeded histories of the refresh guard, and judge them.",
    )
    parser.add_argument("histories", nargs="?", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell one history step by step")
    args = parser.parse_args(argv)
    if args.replay is not None:
        return replay(args.replay)
    return many(args.first, args.histories, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
