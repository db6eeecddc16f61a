"""Who locks against whom, and how holdfast must be addressed for it."""

from __future__ import annotations

from typing import NamedTuple

from tests.interop.crew import Place
from tests.servers.redis_server import RedisServer


class Pair(NamedTuple):
    """holdfast in one of its dialects, and a client of others."""

    client: str
    scheme: str
    options: str
    #: What the client writes in front of a name.
    prefix: str = ""
    #: How long each of ours stays away after a release, so that those who only look now and then
    #: come in too; and how long each of theirs stays inside, so that ours wait for it. Least and
    #: most seconds.
    pause: tuple[float, float] = (0.005, 0.03)
    inside: tuple[float, float] = (0.002, 0.01)

    def url(self, server: RedisServer, *options: str) -> str:
        """holdfast's address of this server, with options more."""
        words = "&".join(word for word in (self.options, *options) if word)
        return f"{self.scheme}://{server.host}:{server.port}/0?{words}"

    def place(self, server: RedisServer, *options: str, watchdog: float = 30.0) -> Place:
        """Where both sides meet."""
        return Place(server.url, self.url(server, *options), watchdog)


_PLAIN = "redis+plain"
PLAIN = {
    "redis-py": Pair("redis-py", _PLAIN, "layout=redis-py"),
    "redis-py-asyncio": Pair("redis-py-asyncio", _PLAIN, "layout=redis-py"),
    "python-redis-lock": Pair("python-redis-lock", _PLAIN, "layout=python-redis-lock", "lock:"),
    "pottery": Pair("pottery", _PLAIN, "layout=pottery", "redlock:", (0.03, 0.12), (0.02, 0.03)),
    "redlock": Pair("redlock", _PLAIN, "layout=node-redlock"),
}
REDISSON = {
    "redisson 3.8.1": Pair("redisson-old", "redis+redisson", "client=3.8.1"),
    "redisson": Pair("redisson", "redis+redisson", ""),
}
PAIRS = PLAIN | REDISSON

#: holdfast takes part with both faces.
OURS = (("holdfast", 0), ("holdfast-asyncio", 0))
