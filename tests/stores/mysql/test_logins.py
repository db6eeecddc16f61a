"""Logins: any text can be a password, and a server without TLS gets a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from holdfast import ConfigError
from holdfast.testing.faces import FACES, Face
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import by_both


@contextmanager
def user(server: MariadbServer, name: str, password: str) -> Iterator[str]:
    """The URL of a user with all rights."""
    with server.root() as root, root.cursor() as cursor:
        cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY %s", (name, password))
        cursor.execute("GRANT ALL ON *.* TO %s@'%%'", (name,))
        yield server.url_for(quote(name, safe=""), quote(password, safe=""))
        cursor.execute("DROP USER %s@'%%'", (name,))


@pytest.mark.parametrize("password", ["naïve", "中文😀", "a:b@c/d?e#f&g=h%", "a'b\"c\\d e"])
def test_any_text_is_a_password(shared_mariadb: MariadbServer, password: str) -> None:
    with user(shared_mariadb, "näme", password) as url:
        by_both(url)
        with pytest.raises(ConfigError, match="password is wrong") as told:
            by_both(url.replace("@127", "x@127"))
    assert password not in str(told.value)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("mode", ["required", "verify_ca", "verify_identity"])
def test_a_server_without_tls_is_distinguished_from_an_absent_one(
    url: str, mode: str, face: Face
) -> None:
    async def main() -> None:
        async with face.client(f"{url}?ssl_mode={mode}") as client:
            await client.lock("x").acquire(timeout=60)

    with pytest.raises(ConfigError, match=r"doesn't use TLS.*ssl_mode="):
        face.run(main, 90)
