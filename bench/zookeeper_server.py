"""A ZooKeeper of the run's own: started on a free port of the loopback, and ended with the run.

It writes to its disk as it is set up to, so that figures are those of a server that loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Generator
from pathlib import Path

from . import machine
from .servers import HOST, Absent

#: The variable with the address of the server of this run.
ADDRESS = "HOLDFAST_BENCH_ZOOKEEPER"
#: Another jar in its place: a path.
JAR = "ZOOKEEPER_JAR"
_USUAL = "/usr/share/java/zookeeper.jar"
_PROPERTIES = "META-INF/maven/org.apache.zookeeper/zookeeper/pom.properties"
_READY_S = 30.0


def zookeeper_url(_place: Path | None = None) -> str:
    """The address of the server of this run; all folders share it."""
    return os.environ[ADDRESS]


def hosts() -> str:
    """The same, as kazoo has it."""
    return zookeeper_url().partition("://")[2]


@contextlib.contextmanager
def zookeeper_server() -> Generator[str]:
    """Start it; yields what it is, in words."""
    jar = Path(os.environ.get(JAR) or _USUAL)
    java = shutil.which("java")
    if java is None or not jar.exists():
        raise Absent(f"no java, or no {jar}; ./dev test installs them where it may")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-zookeeper-") as folder:
        port = _free_port()
        server = _started(java, jar, Path(folder), port)
        before = os.environ.get(ADDRESS, "")
        os.environ[ADDRESS] = f"zookeeper://{HOST}:{port}"
        machine.companions.add(server.pid)
        try:
            yield f"ZooKeeper {_version(jar)} on the loopback, alone, with its log on the disk"
        finally:
            machine.companions.discard(server.pid)
            os.environ[ADDRESS] = before
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port


def _started(java: str, jar: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    (folder / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress={HOST}\n"
        "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    server = subprocess.Popen(
        [java, "-Xmx256m", "-cp", str(jar), main, str(folder / "zoo.cfg")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + _READY_S
    while not ask(port, b"srvr"):
        if server.poll() is not None or time.monotonic() > end:
            server.kill()
            raise Absent("the ZooKeeper server did not start")
        time.sleep(0.05)
    return server


def ask(port: int, word: bytes) -> str:
    """The answer to a word of four letters; empty if nobody answers."""
    try:
        with socket.create_connection((HOST, port), 1.0) as one:
            one.sendall(word)
            parts = []
            while part := one.recv(65536):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")


def _version(jar: Path) -> str:
    """As it was packed, as Debian's server doesn't say its own."""
    with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as packed:
        found = re.search(rb"version=([0-9.]+)", packed.read(_PROPERTIES))
        if found:
            return found[1].decode()
    return "of an unknown version"


def connections() -> int:
    """How many connections of clients it has now."""
    port = int(hosts().rpartition(":")[2])
    return sum(line.startswith(" /") for line in ask(port, b"cons").splitlines())
