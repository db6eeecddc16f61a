"""``python -m bench [SUITE ...]`` (``./dev bench``): measure, print, and write files."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import before, machine, page, report
from .contenders import Arena
from .harness import measure
from .model import Result, to_json
from .scale import Scale
from .servers import Absent
from .stores import ARENAS
from .suites import SUITES


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status.

    1: a case failed, or a lock did not exclude. 64: invalid arguments. 69: the store's server can't
    be started."""
    options = _parser().parse_args(words)
    arena = ARENAS[options.store]
    usual = [suite for suite in arena.suites if options.quick or not SUITES[suite].long]
    suites = options.suite or usual
    if odd := [suite for suite in suites if suite not in arena.suites]:
        print(f"bench: {odd[0]} has no case for the store {arena.name}", file=sys.stderr)
        return 64
    if options.write_docs and options.quick:
        print("bench: figures of a quick run are not for the page", file=sys.stderr)
        return 64
    if options.before:
        quick = ["--quick"] if options.quick else ["--rounds", str(options.rounds or 3)]
        return before.run(options.before, [*suites, "--store", arena.name, *quick], options.turns)
    try:
        with arena.around() as around:
            about = _about(arena, around, suites)
            print(about["machine"], _versions(about), sep="\n", flush=True)
            results = _measured(arena, suites, options)
    except Absent as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 69
    return _kept(arena, about, results, options)


def _kept(
    arena: Arena, about: dict[str, object], results: list[Result], options: argparse.Namespace
) -> int:
    """Write the results to the files that the options name; return the exit status."""
    if options.json:
        written = {**about, "results": [to_json(result) for result in results]}
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    failed = [f"{one.key}: {wrong}" for one in results for wrong in one.failed]
    for line in failed:
        print(f"bench: FAILED {line}", file=sys.stderr)
    if options.write_docs and not failed:
        for path in page.write(arena.name, about, results):
            print(f"bench: wrote {path}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measure holdfast next to its peers, all in one run, and compare by ratios.",
        epilog="suites: " + "; ".join(f"{name}: {one.asks}" for name, one in SUITES.items()),
    )
    parser.add_argument(
        "suite", nargs="*", help="which to measure (all)", choices=[[], *SUITES], metavar="SUITE"
    )
    parser.add_argument("--store", choices=list(ARENAS), default="embedded", help="(embedded)")
    parser.add_argument("--rounds", type=_count, default=0, metavar="N", help="rounds per table")
    parser.add_argument("--quick", action="store_true", help="only show that everything works")
    parser.add_argument(
        "--before",
        metavar="REV",
        help="measure the tree at this revision and this one in turns, and print ratios of ours",
    )
    parser.add_argument(
        "--turns", type=_count, default=before.TURNS, metavar="N", help="of each, with --before (6)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument(
        "--wait-quiet",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="maximum seconds to wait until other programs leave the cores alone, and to repeat "
        "what they disturb",
    )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="put the figures into the page of the store in docs, and its picture",
    )
    return parser


def _count(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1000:
        raise ValueError(text)
    return count


def _about(arena: Arena, around: str, suites: Sequence[str]) -> dict[str, object]:
    names = [one.project or one.package for one in arena.contenders]
    if "guard" in suites:
        names += [one.package for one in arena.shielders]
    others: dict[str, str] = {}
    for name in filter(None, names):
        others.setdefault(name.lower(), name)
    return {
        "machine": f"{machine.describe()}, {around}",
        "versions": machine.versions(["holdfast", *others.values()]),
    }


def _versions(about: dict[str, object]) -> str:
    versions = about["versions"]
    assert isinstance(versions, dict)
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _measured(arena: Arena, suites: Sequence[str], options: argparse.Namespace) -> list[Result]:
    """Measure the suites, one table after the other; print each table when it is complete."""
    scale = Scale(options.quick, options.rounds)
    quiet = machine.Quiet(options.wait_quiet)
    begun = time.monotonic()
    results = []
    for suite in suites:
        for panel in SUITES[suite].panels(arena, scale):
            result = measure(arena.name, suite, panel, _progress, quiet)
            _progress("")
            print(*report.text(result), sep="\n", flush=True)
            results.append(result)
    print(f"\nmeasured in {time.monotonic() - begun:.0f} s", flush=True)
    return results


def _progress(text: str) -> None:
    """Print the progress to stderr; at a terminal, in one line that is overwritten."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
    elif text:
        print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
