"""Errors about a server that is the wrong one, or that can't report its identity now."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast import Client, ConfigError
from holdfast.stores.redis.config import settings
from holdfast.testing.faces import Face
from holdfast.url import find
from tests.servers.fixtures import NewRedis
from tests.servers.process import need
from tests.servers.tls import Certificate


def test_a_certificate_for_another_host_is_refused_and_named(
    new_redis: NewRedis, tmp_path: Path, face: Face
) -> None:
    # Given a server with a trusted certificate for another host
    made = Certificate(tmp_path / "certificate.pem", tmp_path / "key.pem")
    subprocess.run(
        [
            *(need("openssl"), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=elsewhere.example"),
            *("-addext", "subjectAltName=DNS:elsewhere.example"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = new_redis(tls=made)
    url = f"{server.tls_url}?ssl_ca_certs={made.certificate}"

    async def main() -> None:
        async with face.client(url) as client:
            with pytest.raises(ConfigError, match="for another host"):
                await client.lock("x").acquire(timeout=2)

    face.run(main, 60)
    # But a client that turns the check off connects
    with Client(f"{url}&ssl_check_hostname=false") as client, client.lock("x"):
        pass


@pytest.mark.parametrize(
    "more, checked",
    [("", True), ("?ssl_cert_reqs=none", False), ("?ssl_check_hostname=no", False)],
)
def test_the_host_name_is_checked_whatever_the_driver_would_do(more: str, checked: bool) -> None:
    found = settings(find(f"rediss://there.example{more}")[1])
    assert found.arguments["ssl_check_hostname"] is checked
