"""A procedure locks a new row of another session a moment before InnoDB lets it read the row.

The procedure then finds NULL instead of a number, and the server refuses it (error 1048).
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast import Client
from tests.servers.mariadb_server import DATABASE, MariadbServer

REFUSES_ONCE = f"""
CREATE TRIGGER {DATABASE}.once BEFORE UPDATE ON {DATABASE}.holdfast_lines FOR EACH ROW
IF @holdfast_once IS NULL THEN
  SET @holdfast_once = 1;
  SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1048, MESSAGE_TEXT = "Column 'used' cannot be null";
END IF
"""


def test_what_found_a_row_that_it_could_not_see_yet_is_sent_again(
    new_mariadb: Callable[..., MariadbServer],
) -> None:
    server = new_mariadb()
    with Client(server.url) as client:
        client.lock("x").acquire().release()
        server.ask(REFUSES_ONCE)
        with client.lock("x", timeout=5) as hold:
            assert hold.lost is None
