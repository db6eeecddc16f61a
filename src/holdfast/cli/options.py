"""Options that several commands share, and checks of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..core import checks
from ..errors import ConfigError
from . import codes
from .text import seconds, span


def name(parser: Any, what: str = "name of the lock") -> None:
    """Add the argument ``NAME``."""
    parser.add_argument("name", metavar="NAME", type=checked(checks.name), help=what)


def owner(group: Any, usual: str) -> None:
    """Add the option for the owner; ``usual`` describes the default."""
    group.add_argument(
        "--as", dest="owner", metavar="TEXT", type=checked(checks.owner),
        help=f"owner that others see (default {usual})",
    )  # fmt: skip


def url(group: Any) -> None:
    """Add the option that names the store."""
    group.add_argument(
        "--url", metavar="URL", help="the store (default $HOLDFAST_URL, else the embedded store)"
    )


def waiting(parser: argparse.ArgumentParser) -> None:
    """Add the options ``-n`` and ``-w``, which all commands that wait for a name have."""
    wait = parser.add_argument_group("waiting").add_mutually_exclusive_group()
    wait.add_argument(
        "-n", "--nb", "--nonblock", dest="nonblock", action="store_true", help="don't wait if busy"
    )
    wait.add_argument(
        "-w", "--wait", "--timeout", dest="wait", metavar="DUR", type=duration(0.0, 1e9),
        help="maximum time to wait, such as 90, 1.5s, 10m or 2h (default: no limit)",
    )  # fmt: skip


def kinds(parser: argparse.ArgumentParser) -> None:
    """Add the options for the kind of hold: shared, exclusive or a permit."""
    kind = parser.add_argument_group("what to hold").add_mutually_exclusive_group()
    kind.add_argument(
        "-s", "--shared", "--read", action="store_true", help="share it with others that use -s"
    )
    kind.add_argument(
        "-x", "-e", "--exclusive", "--write", action="store_true",
        help="hold it alone (the default), on a name that others share with -s",
    )  # fmt: skip
    kind.add_argument(
        "--semaphore", "--permits", metavar="N", type=checked(whole),
        help="one of N permits of this name",
    )  # fmt: skip


def busy(group: Any) -> None:
    """Add the options for a name that stays busy: ``-E`` sets the exit status, ``-q`` is silent."""
    group.add_argument(
        "-E", "--conflict-exit-code", dest="busy", metavar="N", type=checked(byte),
        default=codes.BUSY, help="exit status when busy (default 75)",
    )  # fmt: skip
    group.add_argument(
        "-q", "--quiet", action="store_true", help="print no messages about waiting and busy"
    )


def required(group: Any) -> None:
    """Add ``--require-url``, which refuses the default store (a local file)."""
    group.add_argument(
        "--require-url",
        action="store_true",
        help="fail if no store is named, instead of using a local file",
    )


def checked(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return an argument type for argparse: text that the function ``check`` accepts."""

    def read(text: str) -> Any:
        try:
            return check(text)
        except (ConfigError, ValueError) as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read


def duration(least: float, most: float) -> Callable[[str], float]:
    """Return an argument type for argparse: a duration of ``least`` to ``most`` seconds."""

    def read(text: str) -> float:
        try:
            value = seconds(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text} is not between {span(least)} and {span(most)}"
            )
        return value

    return read


def whole(text: str) -> int:
    """Convert text to a whole number of 1 or more."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{text!r} is not a whole number from 1")
    return int(text)


def number(text: str) -> float:
    """Convert text to a number; the library checks the range later."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def byte(text: str) -> int:
    """Convert text to an exit status, from 0 to 255."""
    if not (text.isascii() and text.isdigit() and int(text) < 256):
        raise ValueError(f"{text!r} is not an exit status from 0 to 255")
    return int(text)
