"""The verbs of ``holdfast guard`` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..options import name, url


def commands(guard: argparse.ArgumentParser) -> None:
    """Add the verbs of ``guard``."""
    guard.description = (
        "Refresh guards: one caller computes a cached value, the others wait or take the old one."
    )
    guard.epilog = "`holdfast guard VERB --help` explains a verb."
    verbs = guard.add_subparsers(prog="holdfast guard", dest="verb", metavar="VERB", required=True)
    for verb, (fill, text) in VERBS.items():
        fill(verbs.add_parser(verb, help=text))


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the guards, and what was counted of them in the last week of their use."
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin so"
    )
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--names", action="store_true", help="the bare names, one per line")
    url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = (
        "Show what was counted of a guard, and how one of its values stands: how old it is, who "
        "computes the next, how often that failed."
    )
    name(show, "which guard")
    show.add_argument("key", metavar="KEY", nargs="?", default="", help="which of its values")
    show.add_argument("--json", action="store_true", help="as JSON")
    url(show)


def _invalidate(invalidate: argparse.ArgumentParser) -> None:
    invalidate.usage = "holdfast guard invalidate [options] NAME [KEY ...]"
    invalidate.description = (
        "Forget values, so that the next caller computes them anew; what is being computed now is "
        "not stored."
    )
    invalidate.epilog = "exit status: 0 if there was a value, else 1."
    name(invalidate, "which guard")
    invalidate.add_argument("keys", metavar="KEY", nargs="*", help="which of its values")
    url(invalidate)


VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "ls": (_ls, "list the guards, and what was counted of them"),
    "show": (_show, "show the numbers of a guard, and how a value stands"),
    "invalidate": (_invalidate, "forget values, so that they are computed anew"),
}
