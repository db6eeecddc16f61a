"""Tables and procedures: made on demand or by hand, with few rights, and with a version."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.cli import main
from holdfast.stores.mysql import schema
from holdfast.url import find
from tests.servers.mariadb_server import DATABASE, MariadbServer, give, own_folder
from tests.servers.tls import Certificate
from tests.stores.mysql.conftest import NewServer, by_both
from tests.stores.sql.first import *  # noqa: F403

#: A changed procedure needs a new VERSION, and then a new fingerprint here.
FINGERPRINTS = {4: "89d55a1d251e6f09"}
QUEUE_FINGERPRINTS = {3: "2a486a4e266043d7"}
REFRESH_FINGERPRINTS = {2: "ca191c32913c61fa"}
#: The least rights of a user, as docs/stores/mysql.md names them.
LEAST = (
    "CREATE USER IF NOT EXISTS least@'%' IDENTIFIED BY 'least'",
    f"GRANT EXECUTE, SELECT, INSERT, UPDATE, DELETE ON {DATABASE}.* TO least@'%'",
    "CREATE USER IF NOT EXISTS looker@'%' IDENTIFIED BY 'looker'",
    f"GRANT SELECT ON {DATABASE}.* TO looker@'%'",
)


def test_the_procedures_match_the_fingerprint_of_their_version() -> None:
    assert fingerprint(schema.FILES) == FINGERPRINTS[schema.VERSION]
    assert fingerprint(schema.QUEUE_FILES) == QUEUE_FINGERPRINTS[schema.QUEUE_VERSION]
    assert fingerprint(schema.REFRESH_FILES) == REFRESH_FINGERPRINTS[schema.REFRESH_VERSION]


def fingerprint(files: Sequence[str]) -> str:
    text = "\n".join(schema.statements("holdfast", files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_database_that_knows_only_locks_gets_queues_when_they_are_used(
    new_server: NewServer,
) -> None:
    server = new_server(grants=LEAST)
    # Given the tables of an earlier version, and a lock held there
    with server.connect(autocommit=True) as one, one.cursor() as cursor:
        for sql in schema.statements("holdfast", schema.FILES):
            cursor.execute(sql)
    with Client(server.url) as client, client.lock("held") as hold:
        # When a user that may not make tables uses a queue, then only the queue fails
        with Client(server.url_for("least", "least")) as least:
            assert least.inspect("held")
            with pytest.raises(ConfigError, match=r"lacks a right|may not"):
                least.queue("q").put(1)
        # And a user that may make tables makes them; then all users can use queues and guards
        client.queue("q").put("first", group="g")
        with Client(server.url_for("least", "least")) as least:
            assert least.queue("q").take(timeout=5).dead_letter("no")  # type: ignore[union-attr]
            assert least.guard("g", ttl=60).get(lambda: 1) == 1
        hold.check()
    # And a user that may only read can inspect
    with Client(server.url_for("looker", "looker")) as looker:
        assert [one.name for one in looker.queues()] == ["q"]
        assert len(looker.queue("q").jobs("dead")) == 1
        assert [one.name for one in looker.guards()] == ["g"]
        assert looker.guard("g", ttl=60).get(lambda: 2) == 1


def test_a_user_that_may_not_make_it_needs_another_who_does(
    new_server: NewServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server = new_server(grants=LEAST)
    least = server.url_for("least", "least")
    # Given a user that may not make the tables
    with Client(least) as client, pytest.raises(ConfigError, match=r"lacks a right|may not"):
        client.lock("x").acquire()
    # When another user makes them, twice
    for _ in range(2):
        assert main(["schema", "--apply", "--url", server.url]) == 0
    assert "version 4" in capsys.readouterr().err
    # Then the first one works, and a user that may only read can inspect
    by_both(least)
    with Client(server.url_for("looker", "looker")) as looker:
        looker.inspect()


def test_a_prefix_separates_all_names(
    mariadb_url: str, own_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{mariadb_url}?prefix=other"
    with (
        Client(mariadb_url) as one,
        Client(url) as other,
        one.lock(own_name),
        other.lock(own_name, timeout=5),
    ):
        assert len(other.inspect(own_name)) == 1
    assert main(["schema", "--url", url]) == 0
    text = capsys.readouterr().out
    assert "other_lines" in text
    assert "holdfast_" not in text
    assert text.startswith("DELIMITER //\n")


def test_the_schema_script_has_the_statements_of_the_clients(
    shared_mariadb: MariadbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "mysql"]) == 0
    text = capsys.readouterr().out
    parts = text.removeprefix("DELIMITER //\n").removesuffix("\n//\nDELIMITER ;\n").split("\n//\n")
    assert "layout_1" in parts[1]
    assert parts[3:] == list(schema.statements("holdfast"))
    with shared_mariadb.connect(autocommit=True) as one, one.cursor() as cursor:
        for part in parts:
            cursor.execute(part)


@pytest.mark.parametrize(
    "url, words",
    [
        ("mysql://app:sesame@127.0.0.1:{port}", "the path of a mysql:// URL is the database"),
        ("mysql://app:sesame@127.0.0.1:{port}/a/b", "is the database"),
        ("mysql://app:sesame@127.0.0.1:x/holdfast", "isn't a host and port"),
        ("mysql://127.0.0.1/holdfast?prefix=a-b", "a letter, then letters"),
        ("mysql://127.0.0.1/holdfast?unixsocket=/x", 'did you mean "unix_socket"'),
        ("mysql://127.0.0.1/holdfast?ssl_mode=on", "known: disabled"),
    ],
)
def test_a_wrong_url_is_an_error_with_its_reason(
    url: str, words: str, shared_mariadb: MariadbServer
) -> None:
    wrong = pytest.raises(ConfigError, match=words)
    with wrong, Client(url.format(port=shared_mariadb.port)) as client:
        client.lock("x").acquire()


@pytest.mark.parametrize("scheme", ["mariadb", "mysql+pymysql", "mariadb+asyncmy", "mysql"])
def test_urls_of_others_work_unchanged(
    scheme: str, shared_mariadb: MariadbServer, own_name: str
) -> None:
    url = shared_mariadb.url_for("app", "sesame", scheme=scheme) + "?charset=utf8mb4"
    with Client(url) as client, client.lock(own_name):
        pass
    assert "sesame" not in repr(client) + str(find(url)[1])


def test_by_the_socket(shared_mariadb: MariadbServer, own_name: str) -> None:
    by_both(f"mysql://app:sesame@/{DATABASE}?unix_socket={shared_mariadb.socket}", own_name)


def test_by_tls_with_its_own_certificate(
    new_server: NewServer, certificate: Certificate, own_name: str
) -> None:
    # Given a server that accepts no connection without TLS; its files must belong to its user
    place = own_folder()
    for file in (certificate.certificate, certificate.key):
        give(shutil.copy(file, place / file.name))
    server = new_server(
        f"ssl_cert={place / certificate.certificate.name}",
        f"ssl_key={place / certificate.key.name}",
        "require_secure_transport=ON",
    )
    # Then both faces can connect, with a verified certificate or with encryption only
    by_both(f"{server.url}?ssl_ca={certificate.certificate}&ssl_mode=verify_identity", own_name)
    by_both(f"{server.url}?ssl_mode=required", own_name)
    # And an unknown certificate is refused, and so is a connection without TLS
    for url in (f"{server.url}?ssl_mode=verify_ca", server.url):
        with Client(url) as client, pytest.raises(HoldfastError):
            client.lock(own_name).acquire(blocking=False)
    shutil.rmtree(place)
