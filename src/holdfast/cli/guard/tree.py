"""The verbs of ``holdfast guard`` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ..options import name, url


def commands(guard: argparse.ArgumentParser) -> None:
    """Add the verbs of ``guard``."""
    guard.description = (
        "Refresh guards: one caller computes a cached value, the others wait or get the old one."
    )
    guard.epilog = "`holdfast guard VERB --help` prints the options of a verb."
    verbs = guard.add_subparsers(prog="holdfast guard", dest="verb", metavar="VERB", required=True)
    for verb, (fill, text) in VERBS.items():
        fill(verbs.add_parser(verb, help=text))


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the guards with their counts. A guard is listed for a week after use."
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin with PREFIX"
    )
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--names", action="store_true", help="print only the names, one per line")
    url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = (
        "Show the counts of a guard, and the state of one of its values: the age, the process "
        "that computes the next one, and the failures."
    )
    name(show, "name of the guard")
    show.add_argument(
        "key", metavar="KEY", nargs="?", default="", help="key of the value (default: empty)"
    )
    show.add_argument("--json", action="store_true", help="print JSON")
    url(show)


def _invalidate(invalidate: argparse.ArgumentParser) -> None:
    invalidate.usage = "holdfast guard invalidate [options] NAME [KEY ...]"
    invalidate.description = (
        "Invalidate values, so that the next caller computes them again. A value that is being "
        "computed now is not stored."
    )
    invalidate.epilog = "exit status: 0 if there was a value, else 1."
    name(invalidate, "name of the guard")
    invalidate.add_argument(
        "keys", metavar="KEY", nargs="*", help="keys of the values (default: the empty key)"
    )
    url(invalidate)


VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "ls": (_ls, "list the guards with their counts"),
    "show": (_show, "show the counts of a guard and the state of a value"),
    "invalidate": (_invalidate, "invalidate values, so that they are computed again"),
}
