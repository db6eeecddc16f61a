"""Connections that nobody has to close: they end with the last reference to them.

An interrupt may come between SQLite's opening and our taking note of it, and a client may be
forgotten. Until Python 3.12 such a connection was closed without a word; later ones warn. In the
child of a fork it must never be closed: "the locks of the parent" is what SQLite believes to have.
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
    """A connection that closes itself when it is forgotten, in the process that opened it."""

    #: Who opened it; 0 if an interrupt came before that.
    _pid = 0
    #: By way of the class, as the interpreter's end takes the names of modules away.
    _getpid = staticmethod(os.getpid)

    def __init__(self, *args: Any, **options: Any) -> None:
        self._pid = os.getpid()
        super().__init__(*args, **options)

    def __del__(self) -> None:
        """Nobody will close it any more."""
        if self._pid not in (0, self._getpid()):
            leak(self)
            return
        try:  # noqa: SIM105 - suppress() is written in Python: an interrupt could come there
            self.close()
        except sqlite3.Error:  # it was never opened
            pass


def leak(connection: sqlite3.Connection) -> None:
    """Never close this: it is the parent's."""
    if not _leaked:
        atexit.register(_immortalise)
    _leaked.append(connection)


def _immortalise() -> None:
    """The interpreter closes what it forgets at its end, so it must not forget."""
    with suppress(ImportError, AttributeError):
        from ctypes import py_object, pythonapi

        for connection in _leaked:
            pythonapi.Py_IncRef(py_object(connection))
