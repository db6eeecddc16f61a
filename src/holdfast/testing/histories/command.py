"""``python -m holdfast.testing judge FILE...``: judge histories, and print the first story."""

from __future__ import annotations

import argparse
import sys

from . import GRACE_S, BadHistory, judge_files, tell


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 if no promise is broken, 1 if one is, 2 for an unreadable file."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing judge",
        description="Judge the recorded histories of workers that use locks, queues and guards.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="one per worker, JSON lines")
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        metavar="SECONDS",
        help=f"seconds by which an acquire may exceed its time-out ({GRACE_S:g})",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="seconds between two executions in a group of a queue (0)",
    )
    parser.add_argument(
        "--interval-from",
        choices=("ack", "take"),
        default="ack",
        help="event from which it counts (ack)",
    )
    args = vars(parser.parse_args(argv))
    try:
        verdict = judge_files(*args.pop("files"), **args)
    except (OSError, BadHistory) as wrong:
        print(wrong, file=sys.stderr)
        return 2
    print(tell(verdict))
    return 0 if verdict.good else 1
