"""Clear errors for rows that were changed from outside and contain impossible values."""

from __future__ import annotations

import sqlite3
import struct

from ....errors import HoldfastError
from .database import MOVE_AWAY, explain

#: The errors that an impossible value can cause, or a number too large for SQLite. They can't come
#: from the caller's arguments, which were checked before.
UNREADABLE = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    AssertionError,
    struct.error,
    sqlite3.InterfaceError,
    sqlite3.DataError,
)


class Unsound(ValueError):
    """Rows contradict each other; the text describes how."""


def corrupt(text: str) -> sqlite3.DatabaseError:
    """Return SQLite's error for a damaged file, for damage that SQLite doesn't detect."""
    wrong = sqlite3.DatabaseError(text)
    wrong.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return wrong


def senseless(name: str) -> sqlite3.DatabaseError:
    """Return the error of `corrupt` for the header of this line."""
    return corrupt(f"the line {name!r} has impossible values")


def unreadable(wrong: Exception, label: str, remedy: str = MOVE_AWAY) -> Exception:
    """Return our error for one of `UNREADABLE`."""
    if isinstance(wrong, HoldfastError):
        return wrong
    text = str(wrong) if isinstance(wrong, Unsound) else repr(wrong)
    clear = explain(corrupt(text), label, False, remedy)
    clear.__cause__ = wrong
    return clear
