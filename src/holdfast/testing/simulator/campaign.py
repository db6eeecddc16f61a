"""``python -m holdfast.testing sim [HISTORIES]``: run seeded histories and judge them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from ...runtime.blocking import boottime
from . import KINDS, Kind, Verdict
from .running import quiet
from .shrink import shrink
from .twice import twice

#: Number of seeds that a process runs at a time.
CHUNK = 50
#: Number of violations after which a campaign ends.
ENOUGH = 20


class Tally(NamedTuple):
    """The results of some histories."""

    histories: int
    steps: int
    seconds: float
    faults: Counter[str]
    violations: list[tuple[int, str]]


def chunk(first: int, count: int, kind: str = "locks") -> Tally:
    """Run some seeds in this process."""
    quiet()
    begun, steps = time.process_time(), 0
    faults: Counter[str] = Counter()
    violations = []
    for seed in range(first, first + count):
        verdict = KINDS[kind].check(seed)
        steps += verdict.steps
        faults.update(fault.kind for fault in verdict.plan.faults)
        if verdict.violation is not None:
            violations.append((seed, str(verdict.violation)))
    return Tally(count, steps, time.process_time() - begun, faults, violations)


def campaign(first: int, count: int, jobs: int, kind: str = "locks") -> Iterator[Tally]:
    """Run many seeds on several cores, a chunk at a time, in order."""
    starts = range(first, first + count, CHUNK)
    sizes = [min(CHUNK, first + count - start) for start in starts]
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(chunk, starts, sizes, [kind] * len(starts))


def many(first: int, count: int, jobs: int, kind: str = "locks") -> int:
    """Run ``count`` seeds, show the progress, print the sums; return 1 after any violation."""
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
            flag = "" if kind == "locks" else f" --{kind}"
            say(f"seed {seed}: {text}\n    see it: ./dev sim{flag} --replay {seed}")
        if tty:
            sys.stderr.write(f"\r{total.histories}/{count} histories ")
            sys.stderr.flush()
        if len(total.violations) >= ENOUGH:
            say(f"{ENOUGH} violations: enough")
            break
    if tty:
        sys.stderr.write("\r")
    speed = total.steps / max(total.seconds, 1e-9)
    say(
        f"{total.histories} histories of {kind} from seed {first} on, {total.steps} steps, "
        f"{boottime() - begun:.1f} s on {jobs} cores, {speed:,.0f} steps per second and core"
    )
    counts = ", ".join(f"{fault} {n}" for fault, n in sorted(total.faults.items()))
    say(f"faults planned: {counts}")
    say(f"violations: {len(total.violations)}")
    return 1 if total.violations else 0


def replay(seed: int, kind: Kind) -> int:
    """Print the history of a seed step by step; if it fails, also a smaller history that fails."""
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
    """Print a line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def all_pairs(kinds: list[str], first: int, count: int, jobs: int) -> int:
    """Run all pairs of failures over short histories; return 1 after any violation."""
    quiet()
    begun, bad = boottime(), 0
    for kind in kinds:
        runs, verbs = 0, Counter[str]()
        for found in twice(kind, range(first, first + count), jobs):
            runs, verbs = runs + found.runs, verbs + found.verbs
            for text in found.violations[:5]:
                say(text)
            bad += len(found.violations)
        counts = ", ".join(f"{verb} {n}" for verb, n in sorted(verbs.items()))
        say(f"{kind}: {runs} pairs of failures over {count} histories; first at {counts}")
    say(f"violations: {bad} ({boottime() - begun:.0f} s)")
    return 1 if bad else 0


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 1 after any violation, otherwise 0."""
    parser = argparse.ArgumentParser(
        prog="./dev sim", description="Run seeded histories of the real core and judge them."
    )
    parser.add_argument(
        "histories", nargs="?", type=int, help="number of histories (2000; 4 with --twice)"
    )
    parser.add_argument(
        "--kind",
        choices=[*KINDS],
        action="append",
        help="kind of histories (locks; all if --twice)",
    )
    for kind in KINDS:
        parser.add_argument(
            f"--{kind}", dest="kind", action="append_const", const=kind, help=f"--kind {kind}"
        )
    parser.add_argument(
        "--twice",
        action="store_true",
        help="each pair of failures in sequence, over short histories",
    )
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="print one history step by step")
    args = parser.parse_args(argv)
    if args.twice:
        return all_pairs(args.kind or [*KINDS], args.first, args.histories or 4, args.jobs)
    kinds = args.kind or ["locks"]
    if args.replay is not None:
        return max(replay(args.replay, KINDS[kind]) for kind in kinds)
    return max(many(args.first, args.histories or 2000, args.jobs, kind) for kind in kinds)
