"""A self-made certificate for servers on the loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple, Self

from holdfast.testing.surroundings import surroundings

from .process import need

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certificate(NamedTuple):
    """A self-signed certificate, so it is also the trusted one; and its key."""

    certificate: Path
    key: Path

    @property
    def both(self) -> Path:
        made = self.key.with_name("both.pem")
        made.write_text(self.key.read_text() + self.certificate.read_text())
        return made

    @classmethod
    def make(cls, folder: Path) -> Self:
        made = cls(folder / "certificate.pem", folder / "key.pem")
        # fmt: off
        command = [
            need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", _NAMES, "-keyout", str(made.key), "-out", str(made.certificate),
        ]
        # fmt: on
        subprocess.run(command, check=True, capture_output=True, env=surroundings())
        return made
