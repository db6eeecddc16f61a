"""``python -m holdfast.testing torture``: torture a store, and report broken promises."""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

from . import guards, locks, queues

#: The options and the function of each kind of torture.
KINDS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "locks": (locks.Options(), lambda options, dies: locks.run(options, (), dies)),
    "queues": (queues.Options(), queues.run),
    "guards": (guards.Options(), guards.run),
}
#: The help text of each option; a kind has only the options that are fields of its ``Options``.
WORDS = {
    "store": "URL; a new embedded store if none",
    "seconds": "length of the run in seconds",
    "seed": "seed of an earlier run: draw the same numbers again",
    "processes": "number of processes that get faults",
    "names": "number of names of each kind",
    "groups": "number of groups",
    "jobs": "number of jobs",
    "putters": "number of processes that put",
    "batch": "number of jobs put in one round trip",
    "body": "seconds that a job takes",
    "interval": "seconds between two executions in a group",
    "interval_from": "event from which the interval counts: ack or take",
    "ttl": "length of a lease in seconds",
    "strikes": "faults: kill, stop and, for locks, fork, comma-separated; each as often as listed",
    "every": "seconds between two faults, 0 for none",
    "most": "maximum number of faults",
    "limit": "seconds after which the run is given up",
    "long": "part of the leases that last at least the waiter TTL, from 0 to 1",
    "weather": "messages are lost, late and cut off (Redis, MariaDB)",
    "folder": "folder for the histories, which are then kept",
    "first": "MODULE to import in each process",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 if no promise is broken, otherwise 1."""
    which = argparse.ArgumentParser(add_help=False)
    kind = which.add_mutually_exclusive_group()
    for name in ("queues", "guards"):
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name)
    chosen, rest = which.parse_known_args(argv)
    usual, run = KINDS[chosen.kind or "locks"]
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing torture",
        parents=[which],
        description="Inject faults into processes that use a store, and judge what they did.",
    )
    for name, words in WORDS.items():
        if name in usual._fields:
            _add(parser, name, words, getattr(usual, name))
    parser.add_argument(
        "--restart", default="", metavar="COMMAND", help="shell command to run at half-time"
    )
    args = vars(parser.parse_args(rest))
    args.pop("kind")
    command = args.pop("restart")
    if args["seed"] is None:
        args["seed"] = random.SystemRandom().randrange(1 << 32)
    options = usual._replace(**args)
    print(f"seed {options.seed}, {options.processes} processes", flush=True)
    dies = (lambda: subprocess.run(shlex.split(command), check=True)) if command else None
    outcome = run(options, dies)
    print(outcome)
    return 0 if outcome.good else 1


def _add(parser: argparse.ArgumentParser, name: str, words: str, usual: Any) -> None:
    flag = f"--{name.replace('_', '-')}"
    if usual is False:
        parser.add_argument(flag, action="store_true", help=words)
        return
    known: dict[str, Any] = {"type": type(usual), "default": usual}
    if name == "seed":
        known = {"type": int}
    elif name == "interval_from":
        known |= {"choices": ("ack", "take")}
    elif isinstance(usual, tuple):
        known["type"] = lambda text: tuple(text.split(","))
    shown = f"{usual:g}" if isinstance(usual, int | float) and name != "seed" else ""
    parser.add_argument(flag, dest=name, help=f"{words} ({shown})" if shown else words, **known)
