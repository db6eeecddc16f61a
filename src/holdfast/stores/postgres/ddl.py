"""The schema as SQL text, which the store or an administrator sends to a server once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ...core.guard.model import TALLY_KEPT_S
from ...core.model import TTL_S_MAX, WAITERS_MAX
from ...core.policy import NAP_S_MAX, PATIENCE_S, TOMB_S
from ...core.queue.model import DELAY_S_MAX
from ...runtime import files
from .config import GRACE_S_MAX

#: The number at the end of the names of lock functions and of all helpers. So clients of two
#: releases can share a schema, and an older release never replaces the functions of a newer one.
VERSION = 4
#: The number at the end of the names of queue functions.
QUEUE_VERSION = 3
#: The first version of the whole schema that has queues.
WITH_QUEUES = 2
#: The number at the end of the names of refresh guard functions.
REFRESH_VERSION = 2
#: The first version of the whole schema that has refresh guards.
WITH_GUARDS = 3
#: The version of the whole schema. Since 4, the verbs repair rows that another program changed, and
#: wait for a row no longer than the caller waits. Since 5, they distinguish a release from an
#: expiry, and can change the owner alone. Since 6, a renewal never grants a claim that waits.
WHOLE = 6
#: The layout of the tables. A release that raises it drops the functions of all earlier releases.
#: These then try to make the schema again, and `layout` refuses that.
LAYOUT = 1
#: Seconds after its last request for which a waiter can be woken. A live waiter sends a request at
#: least every `NAP_S_MAX` seconds.
ASLEEP_S = NAP_S_MAX + 0.5
#: The key of the advisory lock that a session holds while it makes the schema.
LOCK = 7_236_142
_PARTS = (
    "layout", "owners", "tables", "line", "verbs", "look", "recovery", "rights",
    "queue_tables", "queue_line", "queue_mend", "queue_verbs", "queue_look", "queue_rights",
    "refresh_tables", "refresh_verbs", "refresh_rights",
)  # fmt: skip
_US = 1_000_000
_NEVER = 9_223_372_036_854_775_807
#: The greatest valid time or ticket; as a time, it is in the year 148,108.
_CLOCK_MAX = 2**62
#: The functions that the files define. The version follows a name that ends with ``_``.
_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION \{schema\}\.(\w+)")


@cache
def statements(schema: str, trusted: tuple[str, ...] = ()) -> str:
    """Return the statements that make the schema; they leave existing objects unchanged.

    Objects of other roles are refused: see `owners`.
    """
    # The second check, in the same transaction, sees objects that were added after the first one.
    return "\n".join([_made(schema, _PARTS, trusted), owners(schema, trusted)])


@cache
def layout(schema: str) -> str:
    """Return a statement that raises HF003 if the tables have a later layout."""
    return _made(schema, ("layout",), ())


@cache
def owners(schema: str, trusted: tuple[str, ...] = ()) -> str:
    """Return a statement that raises HF002 if an object in the schema has an unknown owner.

    The current user, superusers and the ``trusted`` roles are known.
    """
    return _made(schema, ("owners",), trusted)


def _text(part: str) -> str:
    return files.text("holdfast.stores.postgres", "schema", f"{part}.sql")


def _made(schema: str, parts: tuple[str, ...], trusted: tuple[str, ...]) -> str:
    marks = {
        "schema": quoted(schema),
        "plain_schema": schema,
        "trusted": ", ".join(f"'{one}'" for one in trusted),
        "whole": WHOLE,
        "layout": LAYOUT,
        "never": _NEVER,
        "clock_max": _CLOCK_MAX,
        "seats_max": 2_000_000_000,
        "patience_us": int(PATIENCE_S * _US),
        "ttl_max_us": int(TTL_S_MAX * _US),
        "window_max_us": int(GRACE_S_MAX * _US),
        "delay_max_us": int(DELAY_S_MAX * _US),
        "version": VERSION,
        "queue_version": QUEUE_VERSION,
        "version_with_queues": WITH_QUEUES,
        "refresh_version": REFRESH_VERSION,
        "version_with_guards": WITH_GUARDS,
        "tally_hours": int(TALLY_KEPT_S / 3600) + 1,
        "asleep_us": int(ASLEEP_S * _US),
        "tomb_us": int(TOMB_S * _US),
        "ask_again_us": int(NAP_S_MAX * _US),
        "waiters_max": WAITERS_MAX,
    }
    text = _versioned({part: _text(part) for part in parts})
    for mark, value in marks.items():
        text = text.replace(f"{{{mark}}}", str(value))
    return text


def _versioned(texts: dict[str, str]) -> str:
    """Join all parts, and append the version to the names of helpers; return the text."""
    whole = "\n".join(texts.values())
    helpers = [name for name in _FUNCTION.findall(whole) if not name.endswith("_")]
    if not helpers:
        return whole
    calls = re.compile(rf"\b({'|'.join(helpers)})\(")
    names = re.compile(rf"'({'|'.join(helpers)})'")
    found = []
    for part, text in texts.items():
        called = calls.sub(rf"\1_{VERSION}(", text)
        rights = part.endswith("rights")
        found.append(names.sub(rf"'\1_{VERSION}'", called) if rights else called)
    return "\n".join(found)


def verbs() -> Iterator[str]:
    """Yield the functions that clients call, each with its version."""
    versions = {"queue": QUEUE_VERSION, "refresh": REFRESH_VERSION}
    for part in _PARTS:
        for name in _FUNCTION.findall(_text(part)):
            if name.endswith("_"):
                yield f"{name}{versions.get(name.partition('_')[0], VERSION)}"


def script(schema: str, trusted: tuple[str, ...] = ()) -> str:
    """Return the schema as a script for psql, in one transaction."""
    head = f"BEGIN ISOLATION LEVEL READ COMMITTED;\nSELECT pg_advisory_xact_lock({LOCK});\n"
    return f"{head}\n{statements(schema, trusted)}\nCOMMIT;\n"


def is_there(schema: str) -> str:
    """Return a query that is true if this version of the schema is installed."""
    names = (
        f"join_{VERSION}",
        f"queue_purge_{QUEUE_VERSION}",
        f"refresh_tidy_{REFRESH_VERSION}",
    )
    return "SELECT " + " AND ".join(
        f"to_regproc('{quoted(schema)}.{name}') IS NOT NULL" for name in names
    )


def quoted(schema: str) -> str:
    """Return the name of a schema for a statement; it may be a reserved word of SQL.

    >>> quoted("user")
    '"user"'
    """
    return f'"{schema}"'
