"""Checks and encodes lock names, their kinds, and the name of the table.

A *kind* is the beginning of a lock name, up to and including its first colon."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from ..core import checks
from ..errors import ConfigError
from .model import Row

TABLE = "holdfast_rows"
KEY_CHARS = 255
#: Minimum age (an hour) and maximum age (a hundred years) of purged rows in seconds; maximum number
#: of rows in one batch. The minimum age protects open transactions: a transaction that began before
#: the last use of a purged row can miss a change by the row's last holder.
AGE_S_MIN, AGE_S_MAX, BATCH_MAX = 3600.0, 100 * 365 * 86_400.0, 10_000
_PLAIN = re.compile(rf"[A-Za-z0-9._~:/@-]{{0,{KEY_CHARS}}}")
_TABLE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}")


def row(name: object, of: str) -> Row:
    """Return the row of a name in the table ``of``."""
    return _row(checks.name(name), table(of))


@lru_cache(1024)
def _row(plain: str, of: str) -> Row:
    kind, colon, rest = plain.partition(":")
    if not colon:
        kind, rest = "", plain
    return Row(of, stored(kind + colon), stored(rest), plain)


def kind(given: object) -> str:
    """Return a kind in its stored form; ``bank`` and ``bank:`` mean the same kind."""
    plain = checks.name(given)
    head, _, rest = plain.partition(":")
    if rest:
        raise ConfigError(f"a kind ends at its first colon, for example bank:, not {plain!r:.80}")
    return stored(head + ":")


def table(given: object) -> str:
    """Check a table's name before its use in a statement."""
    if type(given) is not str or not _TABLE.fullmatch(given):
        raise ConfigError(
            f"{given!r:.80} can't be a table: write a letter or _, then letters, digits and _, 48 "
            "characters in all; a schema and a dot can come before it"
        )
    return given


def stored(text: str) -> str:
    """Encode a text in plain ASCII characters, at most `KEY_CHARS` of them, as in the column.

    >>> stored("4711"), stored("Straße 1")
    ('4711', 'Stra%c3%9fe%201')
    """
    if _PLAIN.fullmatch(text):
        return text
    plain = text.encode()
    safe = re.sub(rb"[^A-Za-z0-9._~:/@-]", lambda byte: b"%%%02x" % byte[0][0], plain).decode()
    if len(safe) <= KEY_CHARS:
        return safe
    digest = hashlib.sha256(plain).hexdigest()
    return f"{safe[: KEY_CHARS - 1 - len(digest)]}#{digest}"  # no other encoded text contains #
