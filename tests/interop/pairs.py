"""The pairs of libraries that lock against each other, and holdfast's URL for each pair."""

from __future__ import annotations

from typing import NamedTuple

from tests.interop.crew import Place
from tests.servers.redis_server import RedisServer


class Pair(NamedTuple):
    """One of holdfast's dialects, and a client of another library with the same format."""

    client: str
    scheme: str
    options: str
    #: The prefix that the client adds to a name.
    prefix: str = ""
    #: ``pause``: seconds that a worker of holdfast waits after a release, so that clients that poll
    #: rarely get their turns. ``inside``: seconds that a worker of the other side holds, so that
    #: holdfast's workers wait for it. Each is a range from the least to the most.
    pause: tuple[float, float] = (0.005, 0.03)
    inside: tuple[float, float] = (0.002, 0.01)

    def url(self, server: RedisServer, *options: str) -> str:
        """Return holdfast's URL for this server, with these options in addition."""
        words = "&".join(word for word in (self.options, *options) if word)
        return f"{self.scheme}://{server.host}:{server.port}/0?{words}"

    def place(self, server: RedisServer, *options: str, watchdog: float = 30.0) -> Place:
        """Return the place at which both sides open their clients."""
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

#: One worker of holdfast for each face.
OURS = (("holdfast", 0), ("holdfast-asyncio", 0))
#: Kinds of Redisson's locks, and the options of holdfast's URL for each.
KINDS = {
    "fair": ("fair=true",),
    "write": (),
    "permits": (),
    "counted": ("permits=counted",),
    "fenced": ("fenced=true",),
}
