"""The MariaDB of the tests has the requested settings, and ends with its starter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from holdfast.testing.faults import Subject, SubjectGone
from holdfast.testing.faults.stage import Stage
from tests.servers.mariadb_server import MariadbServer, template
from tests.servers.process import until
from tests.servers.test_redis_server import there

NewMariadb = Callable[..., MariadbServer]


def test_the_shared_server_answers(shared_mariadb: MariadbServer) -> None:
    with shared_mariadb.connect() as one, one.cursor() as cursor:
        cursor.execute("SELECT database(), @@port")
        assert cursor.fetchone() == ("holdfast", shared_mariadb.port)
    assert shared_mariadb.counts("Questions")["Questions"] > 1


def test_mariadb_does_not_run_as_root(shared_mariadb: MariadbServer) -> None:
    status = Path(f"/proc/{shared_mariadb.pid}/status").read_text()
    (uid,) = [line.split()[1] for line in status.splitlines() if line.startswith("Uid:")]
    assert uid != "0"


def test_after_a_crash_it_knows_what_was_committed(new_mariadb: NewMariadb) -> None:
    grant = "CREATE USER IF NOT EXISTS guest@'%' IDENTIFIED BY 'guess'"
    server = new_mariadb("wait_timeout=77", grants=(grant,))
    assert server.ask("SELECT @@global.wait_timeout") == [(77,)]
    with server.connect(autocommit=True) as one, one.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n INT) ENGINE=InnoDB")
        cursor.execute("INSERT INTO t VALUES (1)")
    server.kill()
    with pytest.raises(pymysql.err.OperationalError):
        server.connect()
    server.start()
    assert server.ask("SELECT n FROM holdfast.t") == [(1,)]
    server.restart()
    with server.connect(user="guest", password="guess", database=None) as guest:
        assert "MariaDB" in guest.get_server_info()


def starts_a_server(stage: Stage, folder: str) -> None:
    """Start a server, send its process id and its folders, and wait to be killed."""
    with MariadbServer(Path(folder)) as server:
        stage.say([server.pid, str(server.place), str(template())])
        stage.hear()


def test_no_server_outlives_its_starter(tmp_path: Path) -> None:
    with Subject(f"{__name__}:starts_a_server", str(tmp_path)) as one:
        pid, *places = one.hear()
        assert there(pid)
        one.kill()
        with pytest.raises(SubjectGone):
            one.hear()
    until(lambda: not there(pid), "the server is gone, too")
    for place in places:
        shutil.rmtree(place)
