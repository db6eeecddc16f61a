"""The schema as text: what a server is told once, by us or by whoever looks after it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ...core.guard.model import TALLY_KEPT_S
from ...core.model import WAITERS_MAX
from ...core.policy import NAP_S_MAX, TOMB_S

#: The names of the functions end with this: clients of two releases can share a schema.
VERSION = 1
#: The same for the functions of queues...
QUEUE_VERSION = 1
#: ...which came with this version of the whole.
WITH_QUEUES = 2
#: The same for the functions of refresh guards, and the version that they came with.
REFRESH_VERSION = 1
WITH_GUARDS = 3
#: Who sleeps is woken for so long after it was asked: it asks again in a second at the latest.
ASLEEP_S = NAP_S_MAX + 0.5
#: Whoever makes the schema holds this advisory lock meanwhile.
LOCK = 7_236_142
_PARTS = (
    "tables", "line", "verbs", "guard", "rights",
    "queue_tables", "queue_line", "queue_verbs", "queue_look", "queue_rights",
    "refresh_tables", "refresh_verbs", "refresh_rights",
)  # fmt: skip
_US = 1_000_000


@cache
def statements(schema: str) -> str:
    """Everything that makes the schema; what is there already stays as it is."""
    texts = [
        (files("holdfast.stores.postgres") / "schema" / f"{part}.sql").read_text()
        for part in _PARTS
    ]
    marks = {
        "schema": quoted(schema),
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
    text = "\n".join(texts)
    for mark, value in marks.items():
        text = text.replace(f"{{{mark}}}", str(value))
    return text


def script(schema: str) -> str:
    """The same as a script for psql, in one transaction."""
    head = f"BEGIN ISOLATION LEVEL READ COMMITTED;\nSELECT pg_advisory_xact_lock({LOCK});\n"
    return f"{head}\n{statements(schema)}\nCOMMIT;\n"


def is_there(schema: str) -> str:
    """Asks whether all of this version is there already."""
    names = (
        f"join_{VERSION}",
        f"queue_purge_{QUEUE_VERSION}",
        f"refresh_tidy_{REFRESH_VERSION}",
    )
    return "SELECT " + " AND ".join(
        f"to_regproc('{quoted(schema)}.{name}') IS NOT NULL" for name in names
    )


def quoted(schema: str) -> str:
    """The name of a schema in a statement, also if it is one of SQL's own words.

    >>> quoted("user")
    '"user"'
    """
    return f'"{schema}"'
