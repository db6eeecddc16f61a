"""``python -m holdfast.testing.queues``: torture the queues of a store."""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
import sys

from .run import Options, run


def main(argv: list[str] | None = None) -> int:
    """The command: 0 if no promise is broken, 1 if one is."""
    usual = Options()
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.queues",
        description="Kill and stop processes that work on a queue, and judge what they did.",
    )
    parser.add_argument("--store", default="", metavar="URL", help="a new embedded store if none")
    parser.add_argument("--seed", type=int, help="draw the same numbers again")
    for name, what in (
        ("groups", "groups of jobs"),
        ("jobs", "jobs in all"),
        ("workers", "processes that work"),
        ("putters", "processes that put"),
        ("batch", "jobs put in one round trip"),
        ("body", "seconds that a job takes"),
        ("interval", "seconds between two executions in a group"),
        ("ttl", "seconds of a lease"),
        ("every", "seconds between strikes, 0 for none"),
        ("most", "strikes at most"),
        ("limit", "seconds after which it is given up"),
    ):
        value = getattr(usual, name)
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"{what}, {value:g}")
    parser.add_argument(
        "--from", dest="from_", choices=("ack", "take"), default="ack", help="when that begins, ack"
    )
    parser.add_argument(
        "--strikes",
        type=lambda text: tuple(text.split(",")),
        default=usual.strikes,
        metavar="WORDS",
        help="kill, stop, with commas between: what is done to workers, in turn",
    )
    parser.add_argument(
        "--restart", default="", metavar="COMMAND", help="run it when half of the jobs are done"
    )
    parser.add_argument("--folder", default="", help="keep the histories there")
    parser.add_argument("--first", default="", metavar="MODULE", help="imported in each process")
    args = vars(parser.parse_args(argv))
    command = args.pop("restart")
    if args["seed"] is None:
        args["seed"] = random.SystemRandom().randrange(1 << 32)
    print(f"seed {args['seed']}, {args['jobs']} jobs, {args['workers']} workers", flush=True)
    restart = (lambda: subprocess.run(shlex.split(command), check=True)) if command else None
    outcome = run(Options(**args), restart)
    print(outcome)
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
