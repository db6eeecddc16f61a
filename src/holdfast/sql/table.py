"""Creates the table of names if it is missing; `create_sql` returns the statement for that."""

from __future__ import annotations

from ..errors import ConfigError
from . import names
from .model import Dialect, Row, Teller, code
from .mysql import MySql
from .postgres import Postgres

#: The name of a database -> its dialect (the SQL of that database).
DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "mysql": MySql()}
_WORDS = {"postgres": "postgresql", "mariadb": "mysql"}


def dialect(word: str) -> Dialect:
    """Return the dialect of a database, by the database's name."""
    found = DIALECTS.get(_WORDS.get(word, word))
    if found is None:
        raise ConfigError(f"no row lock on {word!r:.80}; there is one on {', '.join(DIALECTS)}")
    return found


def create_sql(database: str, table: str = names.TABLE) -> str:
    """Return the statement that creates the table, for your own migrations.

    ``database`` is ``"postgresql"`` or ``"mysql"`` (also for MariaDB). You may run it again.
    """
    return dialect(database).create.format(table=names.table(table))


async def ensure(of: Dialect, teller: Teller, row: Row) -> bool | None:
    """Create the row if it is missing, and the table too; see `Dialect.ensure`."""
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
    """Return the error; if a right is missing, return an error that names the remedy."""
    if code(wrong) not in of.no_right:
        return wrong
    return ConfigError(
        f"{of.label} refuses a statement of row_lock ({wrong}). The user needs SELECT, INSERT and "
        f"UPDATE on {row.table!r}; if it may not create the table, let an administrator run the "
        "statement that holdfast.sql.create_sql returns"
    )
