"""``python -m holdfast.testing.torture``: torture a store, and say whether it held fast."""

from __future__ import annotations

import argparse
import random
import sys

from .run import Options, run


def main(argv: list[str] | None = None) -> int:
    """The command: 0 if no promise is broken, 1 if one is."""
    usual = Options()
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.torture",
        description="Kill, stop, fork and cancel processes that lock, and judge what they did.",
    )
    parser.add_argument("--store", default="", metavar="URL", help="a new embedded store if none")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help=f"{usual.seconds:g}")
    parser.add_argument("--seed", type=int, help="draw the same numbers again")
    parser.add_argument("--processes", type=int, default=usual.processes, help=f"{usual.processes}")
    parser.add_argument("--names", type=int, default=usual.names, help=f"per kind, {usual.names}")
    parser.add_argument("--ttl", type=float, default=usual.ttl, help=f"seconds, {usual.ttl:g}")
    parser.add_argument("--folder", default="", help="keep the histories there")
    parser.add_argument(
        "--strikes",
        type=lambda text: tuple(text.split(",")),
        default=usual.strikes,
        metavar="WORDS",
        help="kill, stop, fork, with commas between, each as often as it is named",
    )
    parser.add_argument(
        "--every", type=float, default=usual.every, help=f"seconds between strikes, {usual.every:g}"
    )
    parser.add_argument(
        "--long",
        type=float,
        default=usual.long,
        metavar="PART",
        help="so many of the leases are as long as a waiter's patience, from 0 to 1",
    )
    parser.add_argument(
        "--weather", action="store_true", help="messages are lost, late and cut off (Redis)"
    )
    parser.add_argument("--first", default="", metavar="MODULE", help="imported in each process")
    args = parser.parse_args(argv)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    print(f"seed {seed}, {args.processes} processes, {args.seconds:g} s", flush=True)
    outcome = run(Options(**{**vars(args), "seed": seed}))
    print(outcome)
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
