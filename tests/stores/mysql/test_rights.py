"""The rights that each step of a database's life needs: exactly those of the docs page."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client, ConfigError
from holdfast.cli import main
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.tidy.tree import ROOT
from tests.torture.scale import FULL

#: Rights as docs/stores/mysql.md names them: to use the tables, to make them, and to upgrade them.
USE = ("EXECUTE", "SELECT", "INSERT", "UPDATE", "DELETE")
MAKE = ("CREATE", "CREATE ROUTINE")
UPGRADE = ("ALTER",)
#: Columns that are missing in the tables of an earlier release.
NEWER = (("tracks", "span"), ("refresh_duties", "ttl"), ("refresh_values", "stored"))


def ask(server: MariadbServer, *statements: str) -> list[tuple[str, ...]]:
    """Run these statements as root; return the rows of the last one."""
    with server.root() as one, one.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)
        return list(cursor.fetchall())


def user(server: MariadbServer, rights: tuple[str, ...]) -> str:
    """The URL of a user with these rights and no others."""
    name = f"u{len(ask(server, 'SELECT User FROM mysql.user'))}"
    ask(
        server,
        f"CREATE USER {name}@'%' IDENTIFIED BY 'sesame'",
        f"GRANT {', '.join(rights)} ON {DATABASE}.* TO {name}@'%'",
    )
    return server.url_for(name, "sesame")


def fresh(server: MariadbServer) -> None:
    """Make a database without tables."""
    ask(server, f"DROP DATABASE {DATABASE}", f"CREATE DATABASE {DATABASE}")


def earlier(server: MariadbServer) -> None:
    """Make a database with the tables of an earlier release."""
    made(server)
    for table, column in NEWER:
        ask(server, f"ALTER TABLE {DATABASE}.holdfast_{table} DROP COLUMN {column}")
    routines = "SELECT routine_name FROM information_schema.routines WHERE routine_schema = "
    for (name,) in ask(server, f"{routines}'{DATABASE}'"):
        ask(server, f"DROP PROCEDURE {DATABASE}.{name}")


def made(server: MariadbServer) -> None:
    """Make a database that is up to date."""
    fresh(server)
    assert main(["schema", "--apply", "--url", server.url]) == 0


def by_hand(url: str) -> None:
    """Run `holdfast schema --apply`."""
    if main(["schema", "--apply", "--url", url]):
        raise ConfigError("it was refused")


def by_use(url: str) -> None:
    """Use a lock, a job and a value."""
    with Client(url) as client:
        client.lock("x").acquire().release()
        client.queue("q").put(1)
        assert client.guard("g", ttl=9).get(lambda: 1) == 1


STEPS = {
    "use": (made, USE, ()),
    "make": (fresh, (*USE, *MAKE), MAKE),
    "upgrade": (earlier, (*USE, *MAKE, *UPGRADE), (*MAKE, *UPGRADE)),
}


#: The cases of a usual run, and those of a full run.
USUAL = [("make", by_use), ("upgrade", by_hand)]
EVERY = [*USUAL, ("use", by_use), ("make", by_hand), ("upgrade", by_use)]


@pytest.mark.usual(1)
@pytest.mark.parametrize("step, way", EVERY if FULL else USUAL)
def test_each_step_needs_the_rights_that_the_page_names(
    new_mariadb: Callable[..., MariadbServer], step: str, way: Callable[[str], None]
) -> None:
    server = new_mariadb()
    prepare, rights, needed = STEPS[step]
    # Given all these rights, the step succeeds, and then the least rights are enough to use the
    # database
    prepare(server)
    way(user(server, rights))
    by_use(user(server, USE))
    for right in needed:
        # Without one right that only this step needs, it is refused
        prepare(server)
        with pytest.raises(ConfigError):
            way(user(server, tuple(one for one in rights if one != right)))


def test_the_page_names_these_rights() -> None:
    page = (ROOT / "docs" / "stores" / "mysql.md").read_text("utf-8")
    for rights in (USE, (*USE, *MAKE), (*USE, *MAKE, *UPGRADE)):
        assert f"GRANT {', '.join(rights)} ON app.* TO" in page
