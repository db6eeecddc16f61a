"""``python -m holdfast.testing.simulator [HISTORIES]``: run seeded histories and judge them."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from ...runtime.blocking import boottime
from . import Verdict, check, run
from .shrink import shrink

CHUNK = 50


class Kind(NamedTuple):
    """What histories are of: the flag of ``./dev sim``, and what runs a seed and a plan."""

    flag: str
    check: Callable[..., Verdict]
    run: Callable[..., Verdict]


LOCKS = Kind("", check, run)


class Tally(NamedTuple):
    """What a number of histories came to."""

    histories: int
    steps: int
    seconds: float
    faults: Counter[str]
    violations: list[tuple[int, str]]


def quiet() -> None:
    """The histories lose locks on purpose: no log lines and warnings about it."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")


def chunk(first: int, count: int, kind: Kind = LOCKS) -> Tally:
    """Run some seeds in this process."""
    quiet()
    begun, steps = time.process_time(), 0
    faults: Counter[str] = Counter()
    violations = []
    for seed in range(first, first + count):
        verdict = kind.check(seed)
        steps += verdict.steps
        faults.update(fault.kind for fault in verdict.plan.faults)
        if verdict.violation is not None:
            violations.append((seed, str(verdict.violation)))
    return Tally(count, steps, time.process_time() - begun, faults, violations)


def campaign(first: int, count: int, jobs: int, kind: Kind = LOCKS) -> Iterator[Tally]:
    """Run many seeds on several cores, a chunk at a time, in order."""
    starts = range(first, first + count, CHUNK)
    sizes = [min(CHUNK, first + count - start) for start in starts]
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(chunk, starts, sizes, [kind] * len(starts))


def many(first: int, count: int, jobs: int, kind: Kind = LOCKS) -> int:
    """Run them, say how far it is, sum up; 1 if anything was violated."""
    total = Tally(0, 0, 0.0, Counter(), [])
    begun = boottime()
    tty = sys.stderr.isatty()
    for tally in campaign(first, count, jobs, kind):
        total = Tally(
            total.histories + tally.histories,
            total.steps + tally.steps,
            total.seconds + tally.seconds,
            total.faults + tally.faults,
            total.violations + tally.violations,
        )
        for seed, text in tally.violations:
            say(f"seed {seed}: {text}\n    see it: ./dev sim{kind.flag} --replay {seed}")
        if tty:
            sys.stderr.write(f"\r{total.histories}/{count} histories ")
            sys.stderr.flush()
        if len(total.violations) >= 20:
            say("20 violations: enough")
            break
    if tty:
        sys.stderr.write("\r")
    speed = total.steps / max(total.seconds, 1e-9)
    say(
        f"{total.histories} histories from seed {first} on, {total.steps} steps, "
        f"{boottime() - begun:.1f} s on {jobs} cores, {speed:,.0f} steps per second and core"
    )
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(total.faults.items()))
    say(f"faults planned: {counts}")
    say(f"violations: {len(total.violations)}")
    return 1 if total.violations else 0


def replay(seed: int, kind: Kind = LOCKS) -> int:
    """Tell the history of a seed step by step; if it fails, also its smallest form."""
    quiet()
    verdict = kind.check(seed, telling=True)
    tell(f"history of seed {seed}", verdict)
    if verdict.violation is None:
        return 0
    small = kind.run(shrink(verdict, kind.run).plan, telling=True)
    tell("the smallest history found with the same violation", small)
    return 1


def tell(title: str, verdict: Verdict) -> None:
    """Print a history."""
    plan = verdict.plan
    say(f"{title}: {plan.processes} processes, claimants {list(plan.actors)}")
    for fault in plan.faults:
        say(f"  planned: {fault}")
    for line in verdict.story:
        say(line)
    say(
        f"{verdict.steps} steps; "
        + (f"VIOLATED {verdict.violation}" if verdict.violation else "no violation")
    )
    say("")


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None, kind: Kind = LOCKS) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog=f"./dev sim{kind.flag}",
        description="Run seeded histories of the real core and judge them.",
    )
    parser.add_argument("histories", nargs="?", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell one history step by step")
    args = parser.parse_args(argv)
    if args.replay is not None:
        return replay(args.replay, kind)
    return many(args.first, args.histories, args.jobs, kind)


if __name__ == "__main__":
    sys.exit(main())
