"""The table of names: made when it is missed, or by a statement that an administrator runs."""

from __future__ import annotations

from ..errors import ConfigError
from . import names
from .model import Dialect, Row, Teller, code
from .mysql import MySql
from .postgres import Postgres

#: The word for a database -> what is special about it.
DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "mysql": MySql()}
_WORDS = {"postgres": "postgresql", "mariadb": "mysql"}


def dialect(word: str) -> Dialect:
    """What is special about a database, by a word for it."""
    found = DIALECTS.get(_WORDS.get(word, word))
    if found is None:
        raise ConfigError(f"no row lock on {word!r:.80}; there is one on {', '.join(DIALECTS)}")
    return found


def create_sql(database: str, table: str = names.TABLE) -> str:
    """The statement that makes the table, for your own migrations.

    ``database`` is ``"postgresql"`` or ``"mysql"`` (which does for MariaDB). It may be run again.
    """
    return dialect(database).create.format(table=names.table(table))


async def ensure(of: Dialect, teller: Teller, row: Row) -> bool | None:
    """Have the row there, and the table: see `Dialect.ensure`."""
    try:
        return await of.ensure(teller, row)
    except Exception as wrong:
        if code(wrong) not in of.no_table:
            raise _refused(of, wrong, row) from wrong
    try:
        await teller.ask(of.create.format(table=row.table), {})
    except Exception as wrong:
        if code(wrong) not in of.made_meanwhile:
            raise _refused(of, wrong, row) from wrong
    return await of.ensure(teller, row)


def _refused(of: Dialect, wrong: Exception, row: Row) -> Exception:
    """The error, or if it is one of missing rights, what to do."""
    if code(wrong) not in of.no_right:
        return wrong
    return ConfigError(
        f"{of.label} refuses what row_lock needs ({wrong}). Who uses it must have SELECT, INSERT "
        f"and UPDATE on {row.table!r}; if it may not create the table, have it made with the "
        "statement that holdfast.sql.create_sql gives"
    )
