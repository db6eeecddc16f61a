"""Real ZooKeeper servers on the loopback: a single one, or an ensemble of three.

A tick is short. So sessions can be short too, and connections end soon after the leader is lost.
The servers are started with Java directly; no service of the system is touched.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from .process import Ended, Program, free_port, need, until

HOST = "127.0.0.1"
JAR = Path("/usr/share/java/zookeeper.jar")
TICK_MS = 200
_JAVA = (
    "-Xmx96m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # The writes of a killed process are kept; only a crash of the machine loses unsynchronized
    # data.
    "-Dzookeeper.forceSync=no",
    # The server removes empty folders soon, so that tests see the effect on the next claims.
    "-Dznode.container.checkIntervalMs=1000",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
#: Files in the folder of the jar: one writes the log, the others provide TLS.
_MORE = ("slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar")


def jar() -> Path:
    """The server's program. Without it: skipped on a laptop, failed in CI."""
    return JAR if JAR.exists() else Path(need(str(JAR)))


def ask(host: str, port: int, word: str) -> str:
    """The reply to a four-letter word; empty if no server answers."""
    try:
        with socket.create_connection((host, port), 1.0) as one:
            one.settimeout(1.0)
            one.sendall(word.encode())
            parts = []
            while part := one.recv(65536):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")


class ZooKeeperServer(Program):
    """One server; ``settings`` are further lines of its ``zoo.cfg``.

    ``java``: further options of the virtual machine. ``members``: the lines of an ensemble, in
    which this server has the number ``number``; such a server is not started at once. ``within``:
    the network namespace in which it runs.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        host: str = HOST,
        port: int = 0,
        number: int = 0,
        members: Iterable[str] = (),
        java: Sequence[str] = (),
        within: str = "",
    ) -> None:
        super().__init__(folder)
        self.host = host
        self.port = port or free_port()
        self.number = number
        self._java = tuple(java)
        self._within = within
        self._settings = settings
        self._members = tuple(members)
        self._jar = jar()
        (folder / "data").mkdir(exist_ok=True)
        self._configure()
        if number:
            (folder / "data" / "myid").write_text(f"{number}\n")
            return
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def _configure(self) -> None:
        usual = [
            *(f"tickTime={TICK_MS}", "initLimit=50", "syncLimit=10", "maxSessionTimeout=60000"),
            *(f"dataDir={self.folder / 'data'}", f"clientPort={self.port}"),
            *(f"clientPortAddress={self.host}", "admin.enableServer=false"),
            *("4lw.commands.whitelist=*", "maxClientCnxns=0", *self._members),
        ]
        lines = dict(one.split("=", 1) for one in [*usual, *self._settings])
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (self.folder / "zoo.cfg").write_text(text)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"zookeeper://{self.place}"

    @property
    def role(self) -> str:
        """Its role now: standalone, leader or follower; empty while it serves no client."""
        found = re.search(r"^Mode: (\w+)", ask(self.host, self.port, "srvr"), re.MULTILINE)
        return found[1] if found else ""

    def start(self) -> None:
        self.begin()
        until(lambda: self.role, f"{self.place} answers:\n{self.log}")

    def begin(self) -> None:
        """Start it, and return at once: a member of an ensemble answers only with a majority."""
        jars = [self._jar, *(self._jar.with_name(one) for one in _MORE)]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [need("java"), *_JAVA, *self._java, "-cp", ":".join(map(str, jars)), main]
        command.append(str(self.folder / "zoo.cfg"))
        if self._within:
            command = ["ip", "netns", "exec", self._within, *command]
        self.launch(command, lambda: True)

    def restart(self) -> None:
        """Kill it and start it again on its data."""
        self.kill()
        self.start()

    def client(self, **options: Any) -> KazooClient:
        return connected(self.place, **options)


def connected(hosts: str, **options: Any) -> KazooClient:
    """A connected kazoo client; the caller stops it."""
    client = KazooClient(hosts=hosts, **options)
    client.start(20)
    return client


class Ensemble(Ended):
    """Three servers that form an ensemble; it serves when the constructor returns."""

    def __init__(
        self, folder: Path, *settings: str, places: Sequence[tuple[str, str]] = ((HOST, ""),) * 3
    ) -> None:
        ports = [(free_port(), free_port()) for _ in places]
        members = [
            f"server.{number}={host}:{one}:{other}"
            for number, ((host, _), (one, other)) in enumerate(zip(places, ports, strict=True), 1)
        ]
        self.servers: list[ZooKeeperServer] = []
        for number, (host, within) in enumerate(places, 1):
            (own := folder / str(number)).mkdir()
            options: Any = {"host": host, "number": number, "members": members, "within": within}
            self.servers.append(ZooKeeperServer(own, *settings, **options))
        try:
            for server in self.servers:
                server.begin()
            self.settle()
        except BaseException:
            self.close()
            raise

    def settle(self) -> None:
        """Wait until all running servers serve, one of them as the leader."""
        running = [one for one in self.servers if one.runs]
        wanted = ["follower"] * (len(running) - 1) + ["leader"]
        what = "the ensemble has a leader, and followers"
        until(lambda: sorted(one.role for one in running) == wanted, what, 40.0)

    @property
    def leader(self) -> ZooKeeperServer:
        found: ZooKeeperServer = until(
            lambda: next((one for one in self.servers if one.runs and one.role == "leader"), None),
            "a server leads",
            40.0,
        )
        return found

    @property
    def followers(self) -> list[ZooKeeperServer]:
        return [one for one in self.servers if one.runs and one.role == "follower"]

    @property
    def hosts(self) -> str:
        return ",".join(one.place for one in self.servers)

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}"

    def close(self) -> None:
        for server in self.servers:
            with contextlib.suppress(AssertionError):
                server.close()
