"""A primary with two replicas, and three sentinels who watch over them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Self

import redis

from .process import SOON_S, Program, free_port, until
from .redis_server import HOST, RedisServer, answers, program, version_of

#: What the sentinels call the three servers.
NAME = "holdfast-test"
#: A server that is silent for so long is taken to be dead: where one is to be lost; and else,
#: because on a busy machine a server that is well may be silent for a while.
HASTY_MS, CALM_MS = 600, 10_000
#: How often sentinels tell others of themselves, and ask the servers who they are. By itself that
#: takes 2 and 10 seconds, and four tellings go by before a former primary is made a replica.
HABITS = ("publish-period", 400, "info-period", 1000)


class Sentinel(Program):
    """One sentinel, started when it is made."""

    def __init__(self, folder: Path, primary: RedisServer, quorum: int, hasty: bool) -> None:
        super().__init__(folder)
        self.host = HOST
        self.port = free_port()
        lines = [
            f"bind {self.host}",
            f"port {self.port}",
            f"dir {folder}",
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
        """What it says to a command; texts."""
        if self._admin is None:
            self._admin = redis.Redis(
                host=self.host, port=self.port, protocol=2, decode_responses=True
            )
        return self._admin.execute_command(*words)

    def primary(self) -> int:
        """The port of the one that it takes to be the primary."""
        _, port = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(port)

    def knows(self) -> tuple[int, int]:
        """How many replicas it knows, and how many other sentinels."""
        replicas = self.ask("SENTINEL", "REPLICAS", NAME)
        others = self.ask("SENTINEL", "SENTINELS", NAME)
        return len(replicas), len(others)

    def close(self) -> None:
        """End it."""
        if self._admin is not None:
            with contextlib.suppress(redis.RedisError):
                self._admin.close()
        self.kill()


class Watched:
    """A primary and ``replicas`` others, watched by ``sentinels`` (none: promote by hand).

    Unless ``hasty`` it takes ten seconds until a primary that is replaced knows of it.
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
        """Where the sentinels are, and what they call the servers."""
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.sentinels)
        login = f":{self.servers[0].password}@" if self.servers[0].password else ""
        return f"redis+sentinel://{login}{hosts}/{NAME}/0"

    @property
    def primary(self) -> RedisServer:
        """The one that says so itself, among those that run."""
        (found,) = self._with_role("master")
        return found

    @property
    def replicas(self) -> list[RedisServer]:
        """The others that run."""
        return self._with_role("slave")

    def _with_role(self, role: str) -> list[RedisServer]:
        running = [one for one in self.servers if one.runs]
        return [one for one in running if one.info("replication")["role"] == role]

    def settled(self) -> None:
        """Wait until every replica is linked to the primary and has all that it has written."""

        def linked() -> bool:
            primary = self.primary.info("replication")
            return len(self.replicas) == sum(one.runs for one in self.servers) - 1 and all(
                seen.get("master_link_status") == "up"
                and seen["slave_repl_offset"] >= primary["master_repl_offset"]
                for seen in (one.info("replication") for one in self.replicas)
            )

        until(linked, "the replicas have what the primary has")

    def cut_off(self) -> None:
        """From now on no replica gets what the primary writes; they keep what they have."""
        primary = self.primary
        primary.ask("ACL", "SETUSER", "default", "-psync", "-sync")
        primary.ask("CLIENT", "KILL", "TYPE", "replica")
        down = "the replicas are cut off"
        for one in self.replicas:
            until(lambda one=one: one.info("replication")["master_link_status"] == "down", down)

    def promote(self, replica: RedisServer) -> None:
        """Make a replica a primary by hand; no connection ends by that."""
        replica.ask("REPLICAOF", "NO", "ONE")

    def fail_over(self) -> RedisServer:
        """Have the sentinels promote a replica though the primary is well; the new primary."""
        return self._changed(lambda: until(self._told, "the sentinel knows a replica that will do"))

    def _told(self) -> bool:
        """Did it agree to promote one? Not if it has asked none of them yet how they are."""
        with contextlib.suppress(redis.ResponseError):
            return bool(self.sentinels[0].ask("SENTINEL", "FAILOVER", NAME))
        return False

    def lose_primary(self) -> RedisServer:
        """Kill the primary, and wait until the sentinels have promoted a replica; which one."""
        primary = self.primary
        self._attend(HASTY_MS)
        promoted = self._changed(primary.kill)
        self._attend(CALM_MS)
        return promoted

    def _attend(self, within_ms: int) -> None:
        """From now on a server that is silent for so long is taken to be dead."""
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
        """End all of them."""
        for one in [*self.sentinels, *self.servers]:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
