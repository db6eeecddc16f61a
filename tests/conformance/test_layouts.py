"""A layout of a later release is refused by name on every store, also by clients that run."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.cli import main
from holdfast.core.finding import Level
from holdfast.stores.sqlite.blocking.header import VERSION
from holdfast.stores.zookeeper.names import mark_of
from tests.servers.mariadb_server import DATABASE
from tests.stores.examined import worst

#: What every refusal names: the found layout, the known one, and the remedy.
NEWER = r"layout 2, made by a later release of holdfast; this release knows layout 1.*upgrade hold"


#: The state of a line, a queue or a refresh lease on Redis, in layout 2.
LATER = b"@2 in a form that this release doesn't know"


class Later:
    """A store of this release, in which ``grow`` makes the layout of a later one."""

    def __init__(self, url: str, grow: Callable[[], object], running: bool = True) -> None:
        self.url = url
        self.grow = grow
        #: Whether a client that has used the store before is refused at once, too.
        self.running = running
        self.guards = not url.startswith("zookeeper")


def _redis(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    server = get("shared_redis")
    admin = server.client()

    def grow() -> None:
        for key in admin.scan_iter(f"{prefix}:*"):
            mark = key.split(b"}", 1)[1][:3]
            if mark[:1] in (b":", b"%"):
                admin.hset(key, "s", LATER)
            elif mark[:1] == b"=":
                admin.set(key, b"\xf1h" + LATER, keepttl=True)
            elif mark == b"@g:":
                admin.hset(key, b"\xff", LATER)

    return Later(f"{server.url}?prefix={prefix}", grow)


def _postgres(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    server = get("shared_postgres")

    def grow() -> None:
        server.ask(f"COMMENT ON TABLE {prefix}.version IS 'layout 2'")
        # What this release reads without a function gets another name, too
        server.ask(f"ALTER TABLE {prefix}.refresh_values RENAME TO refresh_values_2")
        server.ask(f"""DO $$ DECLARE f record; BEGIN
            FOR f IN SELECT oid::regprocedure AS name FROM pg_proc
                WHERE pronamespace = '{prefix}'::regnamespace LOOP
                EXECUTE format('DROP FUNCTION %s', f.name);
            END LOOP; END $$""")

    return Later(server.url_for(options=f"schema={prefix}"), grow)


def _mysql(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    server = get("shared_mariadb")

    def grow() -> None:
        lines, values = (f"{DATABASE}.{prefix}_{one}" for one in ("lines", "refresh_values"))
        server.ask(f"ALTER TABLE {lines} COMMENT = 'layout 2'")
        # What this release reads without a procedure gets another name, too
        server.ask(f"ALTER TABLE {lines} RENAME COLUMN kind TO sort")
        server.ask(f"RENAME TABLE {values} TO {values}_2")
        rows = server.ask(
            "SELECT routine_name FROM information_schema.routines WHERE routine_name LIKE %s",
            f"{prefix}%",
        )
        for (name,) in rows:
            server.ask(f"DROP PROCEDURE {DATABASE}.{name}")

    return Later(f"{server.url}?prefix={prefix}", grow)


def _zookeeper(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    server = get("shared_zookeeper")

    def grow() -> None:
        admin = server.client()
        admin.create(f"/{prefix}/{mark_of(2)}", makepath=True)
        admin.stop()
        admin.close()

    return Later(f"{server.url}?prefix={prefix}", grow)


def _sqlite(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    def grow() -> None:
        for gate in folder.glob("*/gate"):
            words = bytearray(gate.read_bytes())
            struct.pack_into("Q", words, 8 * VERSION, 2)
            gate.with_name("later").write_bytes(words)
            os.replace(gate.with_name("later"), gate)

    return Later(f"sqlite://{folder}/locks.db", grow)


def _database(get: Callable[[str], Any], prefix: str, folder: Path) -> Later:
    def grow() -> None:
        for file in folder.iterdir():
            if file.is_file() and file.read_bytes()[:6] == b"SQLite":
                content = bytearray(file.read_bytes())
                struct.pack_into(">i", content, 60, 2)
                file.with_name("later").write_bytes(content)
                os.replace(file.with_name("later"), file)

    return Later(f"sqlite://{folder}/locks.db", grow, running=False)


STORES = {
    "sqlite": _sqlite,
    "sqlite-database": _database,
    "redis": _redis,
    "postgresql": _postgres,
    "mysql": _mysql,
    "zookeeper": _zookeeper,
}


@pytest.fixture(params=STORES)
def later(request: pytest.FixtureRequest, own_name: str, tmp_path: Path) -> Later:
    prefix = own_name.replace("-", "_")
    return STORES[request.param](request.getfixturevalue, prefix, tmp_path)


def _uses(client: Client, guards: bool) -> dict[str, Callable[[], object]]:
    """One use of each product that the layout must refuse."""
    uses: dict[str, Callable[[], object]] = {
        "acquire": lambda: client.lock("x").acquire(timeout=5),
        "try": lambda: client.lock("x").acquire(blocking=False),
        "list": lambda: client.inspect("x"),
        "put": lambda: client.queue("q").put(1),
        "take": lambda: client.queue("q").take(timeout=0),
    }
    if guards:
        uses["invalidate"] = lambda: client.guard("g", ttl=60).invalidate("k")
        uses["get"] = lambda: client.guard("g", ttl=60).get(lambda: 1, key="k")
    return uses


def _refuse(client: Client, guards: bool) -> None:
    for name, use in _uses(client, guards).items():
        with pytest.raises(ConfigError, match=NEWER):
            print(name, use())


def test_a_later_layout_is_refused_everywhere(
    later: Later, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(later.url) as running:
        # Given a store that this release uses
        hold = running.lock("x").acquire()
        for use in [*_uses(running, later.guards).values()][3:]:
            use()
        # When a later release changes its layout
        later.grow()
        # Then new clients are refused, with threads and with asyncio
        with Client(later.url) as client:
            _refuse(client, later.guards)

        async def acquire() -> None:
            async with AsyncClient(later.url) as client:
                await client.lock("x").acquire(timeout=5)

        with pytest.raises(ConfigError, match=NEWER):
            asyncio.run(acquire())
        # And the command, and doctor
        assert main(["ls", "--url", later.url]) == 78
        assert "upgrade holdfast" in capsys.readouterr().err
        failed = [one.text for one in worst(later.url).values() if one.level is Level.FAIL]
        assert [text for text in failed if "layout 2" in text and "upgrade holdfast" in text]
        # And the client that was running, which can't release its hold either
        if later.running:
            _refuse(running, later.guards)
            with pytest.raises(ConfigError, match=NEWER):
                hold.release()


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_the_schema_of_this_release_is_not_made_over_a_later_one(
    scheme: str,
    request: pytest.FixtureRequest,
    own_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    later = STORES[scheme](request.getfixturevalue, own_name.replace("-", "_"), tmp_path)
    with Client(later.url) as client:
        client.lock("x").acquire().release()
    later.grow()
    assert main(["schema", "--apply", "--url", later.url]) == 78
    assert "layout 2" in capsys.readouterr().err
    # The printed statements stop, too
    assert main(["schema", "--url", later.url]) == 0
    printed = capsys.readouterr().out
    with pytest.raises(Exception, match="layout"):
        _carry_out(scheme, printed, request)


def _carry_out(scheme: str, printed: str, request: pytest.FixtureRequest) -> None:
    if scheme == "postgresql":
        request.getfixturevalue("shared_postgres").ask(printed)
        return
    body = printed.removeprefix("DELIMITER //\n").removesuffix("\nDELIMITER ;\n")
    with request.getfixturevalue("shared_mariadb").connect() as link, link.cursor() as cursor:
        for statement in body.split("\n//\n"):
            cursor.execute(statement)
