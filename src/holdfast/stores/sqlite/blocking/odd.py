"""Rows that were changed from outside, and say what can't be: a clear error for each."""

from __future__ import annotations

import sqlite3
import struct

from ....errors import HoldfastError
from .database import explain

#: What working with such a row raises, or taking in a claim with a number that is too large. What
#: the caller gave was checked before.
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


def corrupt(text: str) -> sqlite3.DatabaseError:
    """What SQLite raises for a damaged file: for damage that it doesn't see."""
    wrong = sqlite3.DatabaseError(text)
    wrong.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return wrong


def senseless(name: str) -> sqlite3.DatabaseError:
    """The same for the header of this line."""
    return corrupt(f"the line {name!r} says what can't be")


def unreadable(wrong: Exception, label: str) -> Exception:
    """One of our errors for one of `UNREADABLE`."""
    if isinstance(wrong, HoldfastError):
        return wrong
    clear = explain(corrupt(repr(wrong)), label, False)
    clear.__cause__ = wrong
    return clear
