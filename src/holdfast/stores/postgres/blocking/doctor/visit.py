"""The connections of an examination, and how it asks."""

from __future__ import annotations

from typing import Self

import psycopg

from .....core.finding import Finding, Level
from .....errors import StoreUnavailable
from .....runtime.blocking import boottime
from ...complaints import ServerSaid, complaint
from ...config import Settings
from ..link import Link, dial

#: No request is waited for longer than this, seconds.
WITHIN_S = 3.0
CONNECT_S = 5.0


class Visit:
    """One examination of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.label = settings.label
        self.link = self.connect()

    def connect(self) -> Link:
        """One more connection."""
        try:
            return dial(self.settings, boottime() + CONNECT_S)
        except ServerSaid as said:
            raise complaint(said, self.settings) from said

    def rows(self, query: str) -> list[list[str]]:
        """The rows of a query as texts; NULL is an empty one."""
        try:
            found = self.link.say(query, boottime() + WITHIN_S)
        except ServerSaid as said:
            raise complaint(said, self.settings) from said
        except (TimeoutError, psycopg.Error) as wrong:
            raise StoreUnavailable(f"{self.label} did not answer: {wrong}") from wrong
        return [[(one or b"").decode("utf-8", "replace") for one in row] for row in found]

    def row(self, query: str) -> list[str]:
        """The only row of a query."""
        (found,) = self.rows(query)
        return found

    def setting(self, name: str) -> str:
        """A setting of the server; empty if there is none of that name."""
        return self.row(f"SELECT current_setting('{name}', true)")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()


def well(subject: str, text: str) -> Finding:
    """A part that is as it should be."""
    return Finding(Level.OK, subject, text)


def worth(subject: str, text: str, remedy: str) -> Finding:
    """A part that is worth a look."""
    return Finding(Level.WARN, subject, text, remedy)
