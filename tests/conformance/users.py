"""Servers with users of few rights, for the server kit: what they refuse, and their restarts."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import Client
from holdfast.cli import main
from holdfast.testing.faults import MYSQL, RESP
from holdfast.testing.server import Bench
from tests.servers.mariadb_server import DATABASE, PASSWORD, USER, MariadbServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_server import RedisServer
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.redis import test_rights as redis_rights
from tests.stores.redis.added import added
from tests.stores.zookeeper.frames import ZOOKEEPER
from tests.tidy.tree import ROOT

CANARY = "hunter2"
SECRET = "hush-hush"


def _page(store: str) -> list[str]:
    """The statements that give the least rights, as the store's page names them."""
    text = (ROOT / "docs" / "stores" / f"{store}.md").read_text(encoding="utf-8")
    return re.findall(r"^GRANT ((?:USAGE|EXECUTE|SELECT).*?);", text, re.MULTILINE)


def redis(request: pytest.FixtureRequest, ends: ExitStack) -> Bench:
    shared, folder = request.getfixturevalue("shared_redis"), _folder(request, "redis")
    certificate = request.getfixturevalue("certificate")
    more = [*added("rights for queues"), *added("rights for guards")]
    poor = redis_rights.without("+hset").replace("user holdfast", "user poor")
    users = (" ".join([*redis_rights.rights(), *more]), poor)
    one = ends.enter_context(RedisServer(folder, password="sesame", users=users, tls=certificate))
    at = f"127.0.0.1:{one.port}"
    wrong = "the user or the password is wrong"
    return Bench(
        lambda host, port: f"redis://:sesame@{host}:{port}?grace=3",
        one.host,
        one.port,
        {},
        RESP,
        least=lambda host, port: f"redis://holdfast:secret@{host}:{port}",
        refused={
            f"redis://{at}": "it requires a password",
            f"redis://:{CANARY}@{at}": wrong,
            f"redis://:{CANARY}@{at}?protocol=2": wrong,
            f"redis://ann:{CANARY}@{at}": wrong,
            f"redis://:{CANARY}@{shared.host}:{shared.port}?protocol=2": "it has no password",
            f"redis://poor:secret@{at}": r"\+hset|names each that is missing",
            one.tls_url: "ssl_ca_certs",
        },
        restart=lambda: one.restart(data=False),
    )


def postgresql(request: pytest.FixtureRequest, ends: ExitStack) -> Bench:
    one = ends.enter_context(PostgresServer())
    assert main(["schema", "--apply", "--url", one.url]) == 0
    for sql in (
        *("CREATE ROLE app LOGIN", "CREATE ROLE poor LOGIN"),
        f"CREATE ROLE known LOGIN PASSWORD '{SECRET}'",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        *(f"GRANT {right}" for right in _page("postgres")),
    ):
        one.ask(sql)
    hba = one.data / "pg_hba.conf"
    hba.write_text("host all known 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
    one.ask("SELECT pg_reload_conf()")
    place = f"{one.host}:{one.port}/postgres"
    return Bench(
        lambda host, port: f"postgresql://postgres@{host}:{port}/postgres?sslmode=disable",
        one.host,
        one.port,
        {},
        least=lambda host, port: f"postgresql://app@{host}:{port}/postgres?sslmode=disable",
        refused={
            f"postgresql://known:{CANARY}@{place}": "password authentication failed",
            f"postgresql://poor@{place}": "lacks a right",
        },
        restart=one.crash,
    )


def mysql(request: pytest.FixtureRequest, ends: ExitStack) -> Bench:
    (rights, *_) = _page("mysql")
    grants = (
        f"CREATE USER IF NOT EXISTS least@'%' IDENTIFIED BY '{SECRET}'",
        f"GRANT {rights.partition(' ON ')[0]} ON {DATABASE}.* TO least@'%'",
        f"CREATE USER IF NOT EXISTS looker@'%' IDENTIFIED BY '{SECRET}'",
        f"GRANT SELECT ON {DATABASE}.* TO looker@'%'",
    )
    one = ends.enter_context(MariadbServer(_folder(request, "mariadb"), grants=grants))
    assert main(["schema", "--apply", "--url", one.url]) == 0

    def restart() -> None:
        one.kill()
        one.start()

    return Bench(
        lambda _, port: one.url_for(USER, PASSWORD, port),
        one.host,
        one.port,
        {},
        MYSQL,
        least=lambda _, port: one.url_for("least", SECRET, port),
        refused={
            one.url_for("app", CANARY): "the user or the password is wrong",
            one.url.replace(f"/{DATABASE}", "/nothing"): "may not use this database",
            one.url_for("looker", SECRET): "may not call",
        },
        restart=restart,
    )


def zookeeper(request: pytest.FixtureRequest, ends: ExitStack) -> Bench:
    """A login owns the nodes that it makes, and another login may not use them."""
    one = ends.enter_context(ZooKeeperServer(_folder(request, "zookeeper")))

    def url(login: str) -> Callable[[str, int], str]:
        return lambda host, port: f"zookeeper://{login}@{host}:{port}?session=8&prefix=theirs"

    with Client(url(f"ann:{SECRET}")(one.host, one.port)) as ann, ann.lock("x"):
        pass
    return Bench(
        lambda host, port: f"zookeeper://{host}:{port}?session=8",
        one.host,
        one.port,
        {},
        ZOOKEEPER,
        gone_s=16.0,
        least=url(f"ann:{SECRET}"),
        refused={
            url(f"bob:{CANARY}")(one.host, one.port): "doesn't let us",
            url("")(one.host, one.port).replace("@", ""): "doesn't let us",
        },
        restart=one.restart,
    )


Users = Callable[[pytest.FixtureRequest, ExitStack], Bench]
BENCHES: dict[str, Users] = {one.__name__: one for one in (redis, postgresql, mysql, zookeeper)}


def _folder(request: pytest.FixtureRequest, name: str) -> Any:
    return request.getfixturevalue("tmp_path_factory").mktemp(name)
