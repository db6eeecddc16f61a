"""A primary with two replicas, and three sentinels that watch over them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import redis

from .process import SOON_S, Ended, Program, free_port, until
from .redis_server import HOST, RedisServer, answers, program, version_of

#: The name by which the sentinels know the three servers.
NAME = "holdfast-test"
#: Milliseconds after which the sentinels treat a silent server as dead. The short time is for tests
#: that lose a server. The long time is for all other tests, because on a busy machine a healthy
#: server can be silent for a while.
HASTY_MS, CALM_MS = 600, 10_000
#: Milliseconds between two hello messages of a sentinel, and between two INFO requests to a server.
#: The defaults are 2 and 10 seconds. A former primary becomes a replica only after four hello
#: messages.
HABITS = ("publish-period", 400, "info-period", 1000)


class Sentinel(Program):
    """One sentinel, started when it is made."""

    def __init__(self, folder: Path, primary: RedisServer, quorum: int, hasty: bool) -> None:
        super().__init__(folder)
        self.host = HOST
        self.port = free_port()
        lines = [
            *(f"bind {self.host}", f"port {self.port}", f"dir {folder}"),
            f"sentinel monitor {NAME} {primary.host} {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} {CALM_MS}",
            f"sentinel failover-timeout {NAME} 3000",
            f"sentinel parallel-syncs {NAME} 2",
        ]
        if primary.password:
            lines.append(f"sentinel auth-pass {NAME} {primary.password}")
        config = folder / "sentinel.conf"
        config.write_text("\n".join([*lines, ""]))
        self._admin: redis.Redis | None = None
        command = [program(), str(config), "--sentinel"]
        self.launch(command, lambda: answers(self.host, self.port))
        if hasty and version_of(program()) >= (7, 0):
            self.ask("SENTINEL", "DEBUG", *HABITS)

    def ask(self, *words: str | int) -> Any:
        """The reply of this sentinel to a command; strings are decoded."""
        if self._admin is None:
            options: Any = {"protocol": 2, "decode_responses": True}
            self._admin = redis.Redis(host=self.host, port=self.port, **options)
        return self._admin.execute_command(*words)

    def primary(self) -> int:
        """The port of the server that this sentinel takes for the primary."""
        _, port = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(port)

    def knows(self) -> tuple[int, int]:
        replicas, others = (self.ask("SENTINEL", of, NAME) for of in ("REPLICAS", "SENTINELS"))
        return len(replicas), len(others)

    def close(self) -> None:
        if self._admin is not None:
            with contextlib.suppress(redis.RedisError):
                self._admin.close()
        self.kill()


class Watched(Ended):
    """A primary and ``replicas`` replicas, watched by ``sentinels`` sentinels (0: promote by hand).

    Unless ``hasty``, a primary that was replaced learns of it only after ten seconds.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        replicas: int = 2,
        sentinels: int = 3,
        hasty: bool = True,
        **options: Any,
    ) -> None:
        self.servers: list[RedisServer] = []
        self.sentinels: list[Sentinel] = []
        self._folder = folder
        try:
            for _ in range(1 + replicas):
                following = [f"replicaof {HOST} {self.servers[0].port}"] if self.servers else []
                self.servers.append(RedisServer(self._place(), *settings, *following, **options))
            self.settled()
            for _ in range(sentinels):
                quorum = sentinels // 2 + 1
                self.sentinels.append(Sentinel(self._place(), self.servers[0], quorum, hasty))
            everybody = (replicas, sentinels - 1)
            for one in self.sentinels:
                until(lambda one=one: one.knows() == everybody, "the sentinels know each other")
        except BaseException:
            self.close()
            raise

    def _place(self) -> Path:
        place = self._folder / str(len(self.servers) + len(self.sentinels))
        place.mkdir()
        return place

    @property
    def url(self) -> str:
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.sentinels)
        login = f":{self.servers[0].password}@" if self.servers[0].password else ""
        return f"redis+sentinel://{login}{hosts}/{NAME}/0"

    @property
    def primary(self) -> RedisServer:
        """The running server that reports the role of primary."""
        (found,) = self._with_role("master")
        return found

    @property
    def replicas(self) -> list[RedisServer]:
        return self._with_role("slave")

    def _with_role(self, role: str) -> list[RedisServer]:
        running = [one for one in self.servers if one.runs]
        return [one for one in running if one.info("replication")["role"] == role]

    def settled(self) -> None:
        """Wait until every replica is linked to the primary and has all its writes."""

        def linked() -> bool:
            primary = self.primary.info("replication")
            return len(self.replicas) == sum(one.runs for one in self.servers) - 1 and all(
                seen.get("master_link_status") == "up"
                and seen["slave_repl_offset"] >= primary["master_repl_offset"]
                for seen in (one.info("replication") for one in self.replicas)
            )

        until(linked, "the replicas have what the primary has")

    def cut_off(self) -> None:
        """Stop the replication: the replicas keep their data, and get no new writes."""
        primary = self.primary
        primary.ask("ACL", "SETUSER", "default", "-psync", "-sync")
        primary.ask("CLIENT", "KILL", "TYPE", "replica")
        down = "the replicas are cut off"
        for one in self.replicas:
            until(lambda one=one: one.info("replication")["master_link_status"] == "down", down)

    def promote(self, replica: RedisServer) -> None:
        """Make a replica a primary by hand; this ends no connection."""
        replica.ask("REPLICAOF", "NO", "ONE")

    def fail_over(self) -> RedisServer:
        """Let the sentinels promote a replica of a healthy primary; return the new primary."""

        def told() -> bool:
            # The sentinel refuses before it has received the first INFO reply of a replica.
            with contextlib.suppress(redis.ResponseError):
                return bool(self.sentinels[0].ask("SENTINEL", "FAILOVER", NAME))
            return False

        return self._changed(lambda: until(told, "the sentinel knows a replica that will do"))

    def lose_primary(self) -> RedisServer:
        """Kill the primary; return the replica that the sentinels have promoted."""
        primary = self.primary
        self._attend(HASTY_MS)
        promoted = self._changed(primary.kill)
        self._attend(CALM_MS)
        return promoted

    def _attend(self, within_ms: int) -> None:
        """Set the time after which a silent server counts as dead."""
        for one in self.sentinels:
            one.ask("SENTINEL", "SET", NAME, "down-after-milliseconds", within_ms)

    def _changed(self, act: Any) -> RedisServer:
        former = self.primary.port
        act()
        for one in self.sentinels:
            what = "the sentinels have agreed on a new primary"
            until(lambda one=one: one.primary() != former, what, 2 * SOON_S)
        found = self.sentinels[0].primary()
        (server,) = [one for one in self.servers if one.port == found]
        what = "it alone is the primary"
        until(lambda: self._with_role("master") == [server], what, 2 * SOON_S)
        return server

    def close(self) -> None:
        for one in [*self.sentinels, *self.servers]:
            one.close()
