"""A server that sentinels watch: each new connection leads to the primary of that time."""

from __future__ import annotations

import re
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from ....errors import ConfigError, HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ..recovery import Recovery
from ..topology import Place, Sentinels, shown
from .dial import Dialler, silent
from .port import ThreadPort

#: Maximum seconds for each step with a sentinel; the sentinels are asked one after the other.
STEP_S = 0.5
_LEAST_S = 0.02
_new: Any = redis.Sentinel
#: The error of a sentinel that refuses the login, or of redis-py about such a sentinel.
LOCKED_OUT = re.compile(
    "Authentication|NOAUTH|WRONGPASS|NOPERM|NoPermission|invalid username|already authenticated"
)


class WatchedDialler(Dialler):
    """Asks the sentinels, and connects to the server that they name."""

    def __init__(self, watch: Sentinels, recovery: Recovery | None = None) -> None:
        super().__init__(watch.settings, recovery)
        self._watch = watch

    def _dial(self, until: float) -> Any:
        host, port = self._primary(until)
        self._arguments = {**self._arguments, "host": host, "port": port}
        return super()._dial(until)

    def _primary(self, until: float) -> Place:
        watch = self._watch
        step = step_of(len(watch.places), until - boottime())
        sentinel = _new(
            list(watch.places),
            min_other_sentinels=watch.others,
            sentinel_kwargs={**watch.arguments, **hurried(step), "retry": Retry(NoBackoff(), 0)},
            force_master_ip=watch.force_ip,
        )
        try:
            host, port = sentinel.discover_master(watch.service)
        except MasterNotFoundError as wrong:
            raise nobody(watch, wrong) from None
        finally:
            for one in sentinel.sentinels:
                one.close()
        at = sentinel.sentinels[0].connection_pool.connection_kwargs
        self._watch = known_first(watch, (at["host"], at["port"]))
        return host, int(port)


def step_of(servers: int, left: float) -> float:
    """Maximum seconds for one step with a server, so that ``left`` is enough for all servers."""
    return max(_LEAST_S, min(STEP_S, left / (servers + 1)))


def hurried(step: float) -> dict[str, Any]:
    """Arguments that bound the time of redis-py's own clients, and save them a round trip."""
    return {"socket_timeout": step, "socket_connect_timeout": step, **silent()}


def nobody(watch: Sentinels, wrong: Exception) -> HoldfastError:
    """The error if no sentinel names a primary; ``wrong`` quotes the replies of the sentinels."""
    places = ", ".join(map(shown, watch.places))
    if LOCKED_OUT.search(str(wrong)):
        return ConfigError(
            f"{watch.settings.label} can't be reached: the sentinels ({places}) refuse the login. "
            "Give their own password, which is not that of the servers, in the URL: "
            "?sentinel_password=... and, if they have users, sentinel_username=..."
        )
    return StoreUnavailable(
        f"{watch.settings.label} can't be reached: none of the sentinels ({places}) names a "
        f"primary of {watch.service!r}"
    )


def known_first(watch: Sentinels, place: Place) -> Sentinels:
    """The sentinels, first the sentinel at ``place``, because this sentinel has answered."""
    if watch.places[0] == place or place not in watch.places:
        return watch
    rest = tuple(one for one in watch.places if one != place)
    return watch._replace(places=(place, *rest))


class WatchedThreadPort(ThreadPort):
    """See :class:`holdfast.stores.redis.store.Port`."""

    def __init__(self, watch: Sentinels) -> None:
        super().__init__(watch.settings)
        self._dialler = WatchedDialler(watch, self.recovery)
