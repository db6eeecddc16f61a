"""What an option of a command may be: each a check, with a message that helps."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from .text import seconds, span


def url(group: Any) -> None:
    """The option that names the store."""
    group.add_argument(
        "--url", metavar="URL", help="the store ($HOLDFAST_URL, else the embedded one)"
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
