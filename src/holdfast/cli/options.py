"""Checks of the options of commands, each with a message that helps."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..core import checks
from ..errors import ConfigError
from . import codes
from .text import seconds, span


def name(parser: Any, what: str = "which name") -> None:
    """The name that a command is about."""
    parser.add_argument("name", metavar="NAME", type=checked(checks.name), help=what)


def owner(group: Any, usual: str) -> None:
    """The owner that others see; ``usual`` describes the default."""
    group.add_argument(
        "--as", dest="owner", metavar="TEXT", type=checked(checks.owner),
        help=f"the owner that others see ({usual})",
    )  # fmt: skip


def url(group: Any) -> None:
    """The option that names the store."""
    group.add_argument(
        "--url", metavar="URL", help="the store ($HOLDFAST_URL, else the embedded one)"
    )


def waiting(parser: argparse.ArgumentParser) -> None:
    """How long to wait: the same for whatever takes a name."""
    wait = parser.add_argument_group("waiting").add_mutually_exclusive_group()
    wait.add_argument(
        "-n", "--nb", "--nonblock", dest="nonblock", action="store_true", help="don't wait if busy"
    )
    wait.add_argument(
        "-w", "--wait", "--timeout", dest="wait", metavar="DUR", type=duration(0.0, 1e9),
        help="wait at most this long (90, 1.5s, 10m, 2h); else for ever",
    )  # fmt: skip


def kinds(parser: argparse.ArgumentParser) -> None:
    """What to hold of a name."""
    kind = parser.add_argument_group("what to hold").add_mutually_exclusive_group()
    kind.add_argument(
        "-s", "--shared", "--read", action="store_true", help="share it with others who say -s"
    )
    kind.add_argument(
        "-x", "-e", "--exclusive", "--write", action="store_true",
        help="alone (that is the default), on a name that others share with -s",
    )  # fmt: skip
    kind.add_argument(
        "--semaphore", "--permits", metavar="N", type=checked(whole),
        help="one of N permits of this name",
    )  # fmt: skip


def busy(group: Any) -> None:
    """What to say and to answer when the time to wait has ended."""
    group.add_argument(
        "-E", "--conflict-exit-code", dest="busy", metavar="N", type=checked(byte),
        default=codes.BUSY, help="exit status when busy (75)",
    )  # fmt: skip
    group.add_argument("-q", "--quiet", action="store_true", help="say nothing of waiting and busy")


def required(group: Any) -> None:
    """The option by which a local file is refused."""
    group.add_argument(
        "--require-url",
        action="store_true",
        help="fail if no store is named: a file is of one host",
    )


def checked(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argument that a check of the library must accept."""

    def read(text: str) -> Any:
        try:
            return check(text)
        except (ConfigError, ValueError) as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read


def duration(least: float, most: float) -> Callable[[str], float]:
    """An argument that is a span of time within limits, in seconds."""

    def read(text: str) -> float:
        try:
            value = seconds(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {span(least)} to {span(most)}")
        return value

    return read


def whole(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{text!r} is no whole number from 1 on")
    return int(text)


def number(text: str) -> float:
    """A number; which ones will do, the library says."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def byte(text: str) -> int:
    """An exit status."""
    if not (text.isascii() and text.isdigit() and int(text) < 256):
        raise ValueError(f"{text!r} is no exit status from 0 to 255")
    return int(text)
