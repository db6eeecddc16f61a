"""The schema, and what this user may do with it."""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, Level
from ...complaints import identifier
from ...ddl import QUEUE_VERSION, REFRESH_VERSION, VERSION, WHOLE, quoted
from .visit import Visit, well, worth

VERBS = (
    "join", "join_free", "keep", "stand", "leave", "leave_all", "resize", "inspect", "look",
    "reclaim",
)  # fmt: skip
QUEUE_VERBS = (
    "put", "take", "settle", "extend", "give_back", "survey", "jobs", "revive", "purge",
)  # fmt: skip
REFRESH_VERBS = (
    "begin", "finish", "abandon", "prolong", "invalidate", "tidy", "look", "survey", "tally",
)  # fmt: skip
#: What a fresh hit reads: the one table that is read without a function.
VALUES = "refresh_values"


def examine(visit: Visit) -> Iterator[Finding]:
    """Is the schema there, and may its functions be called?"""
    schema = visit.settings.schema
    user = visit.row("SELECT current_user")[0]
    found = visit.rows(
        "SELECT proname, has_function_privilege(oid, 'EXECUTE') FROM pg_proc"  # noqa: S608 - checked
        f" WHERE pronamespace = to_regnamespace('{quoted(schema)}')"
    )
    may = {name: allowed == "t" for name, allowed in found}
    locks = [f"{verb}_{VERSION}" for verb in VERBS]
    wanted = locks + [f"queue_{verb}_{QUEUE_VERSION}" for verb in QUEUE_VERBS]
    wanted += [f"refresh_{verb}_{REFRESH_VERSION}" for verb in REFRESH_VERBS]
    if not any(name in may for name in wanted):
        yield _absent(visit, schema, user, bool(may))
        return
    lacking = [name for name in wanted if name not in may]
    if lacking:
        yield Finding(
            Level.FAIL if any(name in locks for name in lacking) else Level.WARN,
            "schema",
            f"the schema {schema} is of a version before {WHOLE}: it lacks " + ", ".join(lacking),
            "holdfast schema postgres --apply, as its owner",
        )
    else:
        yield well("schema", f"version {WHOLE} is there, as {schema}")
    usage = visit.row(f"SELECT has_schema_privilege('{schema}', 'USAGE')")[0] == "t"
    forbidden = [name for name in wanted if name in may and not may[name]]
    if forbidden or not usage:
        yield Finding(
            Level.FAIL,
            "rights",
            f"the user {user} may not "
            + (f"call {', '.join(forbidden)}" if usage else f"use the schema {schema}"),
            f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {identifier(user)}; "
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {quoted(schema)} TO {identifier(user)}",
        )
    elif not lacking and not _reads(visit, schema):
        yield worth(
            "rights",
            f"the user {user} may not read {schema}.{VALUES}, and so has no refresh guards",
            f"GRANT SELECT ON {quoted(schema)}.{VALUES} TO {identifier(user)}",
        )
    else:
        yield well("rights", f"the user {user} may call all that is needed")


def _reads(visit: Visit, schema: str) -> bool:
    name = f"{quoted(schema)}.{VALUES}"
    return visit.row(f"SELECT has_table_privilege('{name}', 'SELECT')")[0] == "t"


def _absent(visit: Visit, schema: str, user: str, older: bool) -> Finding:
    what = "another version of it is there" if older else "it isn't there"
    may = visit.row("SELECT has_database_privilege(current_database(), 'CREATE')")[0] == "t"
    if visit.settings.create and may:
        return well("schema", f"{schema}: {what}, and is made with the first use")
    why = f"the user {user} may not make it" if visit.settings.create else "create=off"
    return Finding(
        Level.FAIL,
        "schema",
        f"{schema}: {what}, and {why}",
        "holdfast schema postgres --apply, as somebody who may",
    )
