"""Connections that close themselves when the last reference to them ends.

A connection stays unclosed if an interrupt comes between its opening and its assignment, or if the
program forgets a client. Python up to 3.12 closes it silently; later versions warn. In the child of
a fork, the parent's connection must never be closed, because SQLite there acts as if it had the
locks of the parent.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from contextlib import suppress
from typing import Any

from .sql import Connection

#: Connections of the parent that a child must never close.
_leaked: list[sqlite3.Connection] = []


class Closing(Connection):
    """A connection that closes itself when it is collected, in the process that opened it."""

    #: The process that opened it; 0 if an interrupt came before that.
    _pid = 0
    #: Kept in the class, because module names are removed when the interpreter ends.
    _getpid = staticmethod(os.getpid)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(*args, **options)

    def __del__(self) -> None:
        """Close the connection; a forked child leaves the parent's connection open."""
        if self._pid not in (0, self._getpid()):
            leak(self)
            return
        try:  # noqa: SIM105 - suppress() is written in Python: an interrupt could come there
            self.close()
        except sqlite3.Error:  # it was never opened
            pass


def leak(connection: sqlite3.Connection) -> None:
    """Keep the parent's connection open until the process ends."""
    if not _leaked:
        atexit.register(_immortalise)
    _leaked.append(connection)


def _immortalise() -> None:
    """Keep the connections referenced, because the interpreter's end closes unreferenced ones."""
    with suppress(ImportError, AttributeError):
        from ctypes import py_object, pythonapi

        for connection in _leaked:
            pythonapi.Py_IncRef(py_object(connection))
