"""Readers of the options of a URL: each returns the value, or raises a ``ValueError`` that names
the allowed values."""

from __future__ import annotations

from collections.abc import Callable

from .misnamed import did_you_mean

#: The end of an error about the host and port of a URL.
NO_PLACE = (
    "this isn't a host and port, or the port isn't a number from 1 to 65535; write host, host:port "
    "or [IPv6 address]:port"
)


def word(*allowed: str) -> Callable[[str], str]:
    """Return a reader for an option that is one of these words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(did_you_mean(text, allowed))
        return text

    return read


def seconds(least: float, most: float) -> Callable[[str], float]:
    """Return a reader for an option that is a number of seconds within these limits."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"not a number of seconds from {least:g} to {most:g}") from None
        if not least <= value <= most:
            raise ValueError(f"must be from {least:g} to {most:g} seconds")
        return value

    return read


def number(least: int, most: int) -> Callable[[str], int]:
    """Return a reader for an option that is a whole number within these limits."""

    def read(text: str) -> int:
        # int() refuses more than 4300 digits by its own error
        sound = text.isascii() and text.isdigit() and len(text) < 20
        if not sound or not least <= int(text) <= most:
            raise ValueError(f"must be a number from {least} to {most}")
        return int(text)

    return read


def is_port(text: str) -> bool:
    """Return True if this is the number of a port."""
    # int() refuses more than 4300 digits by its own error
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def any_text(given: str) -> str:
    """Return an option that can be any text."""
    return given
